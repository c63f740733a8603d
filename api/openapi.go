package api

import (
	"encoding/json"
	"reflect"
	"sync"

	"github.com/cpnode/cpnode/api/wire"
	"github.com/cpnode/cpnode/ops"
)

// OpenAPI is the OpenAPI 3.1 description of all operations, made from the
// registry and the tags of the requests and answers.
var OpenAPI = sync.OnceValue(func() []byte {
	components := wire.NewComponents()
	paths := map[string]any{}
	for _, op := range ops.All() {
		paths["/v1/"+op.Name] = map[string]any{"post": describe(op, components)}
	}
	document, err := json.Marshal(map[string]any{
		"openapi": "3.1.0",
		"info":    map[string]any{"title": "cpnode", "version": "v1", "license": map[string]any{"name": "Apache-2.0", "identifier": "Apache-2.0"}},
		"paths":   paths,
		"components": map[string]any{"schemas": components.Schemas, "responses": map[string]any{
			"Error": map[string]any{"description": "Not carried out, or after OUTCOME_UNKNOWN perhaps: the code says why.", "content": bodies(errorSchema)},
		}},
	})
	if err != nil {
		panic("openapi: " + err.Error()) // maps of strings and schemas always encode
	}
	return document
})

// errorSchema is the error object of every operation.
var errorSchema = map[string]any{
	"type": "object", "required": []string{"error"},
	"properties": map[string]any{"error": map[string]any{
		"type": "object", "required": []string{"code", "message"},
		"properties": map[string]any{"code": map[string]any{"type": "string"}, "message": map[string]any{"type": "string"}},
	}},
}

func describe(op *ops.Operation, c *wire.Components) map[string]any {
	parameters := []any{}
	if !op.IsWrite() {
		parameters = append(parameters,
			query("consistency", map[string]any{"type": "string", "enum": []string{"linearizable", "stale"}, "default": "linearizable"}),
			query("min_index", map[string]any{"type": "integer", "format": "int64", "minimum": 0}),
			query("max_staleness_ms", map[string]any{"type": "integer", "format": "int64", "minimum": 0}))
	}
	return map[string]any{
		"operationId": op.Name, "summary": op.Summary, "parameters": parameters,
		"requestBody": map[string]any{"required": true, "content": bodies(c.Request(reflect.TypeOf(op.NewRequest()).Elem()))},
		"responses": map[string]any{
			"200":     map[string]any{"description": "Carried out; single items say how.", "content": bodies(c.Answer(reflect.TypeOf(op.NewResponse()).Elem()))},
			"default": map[string]any{"$ref": "#/components/responses/Error"},
		},
	}
}

func query(name string, schema map[string]any) map[string]any {
	return map[string]any{"name": name, "in": "query", "schema": schema}
}

// bodies is one schema in both formats.
func bodies(schema any) map[string]any {
	media := map[string]any{"schema": schema}
	return map[string]any{"application/json": media, "application/msgpack": media}
}
