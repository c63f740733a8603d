package api

func OpenAPI() []byte { return nil }
