package config

import "github.com/cpnode/cpnode/purger/objectstore"

var objectStoreKeys = []Key{
	{"object.store.type", false, func(c *Config) value {
		return oneOf{&c.ObjectStore.Type, []string{NoObjectStore, objectstore.TypeDirectory, objectstore.TypeS3, objectstore.TypeMemory}}
	},
		"Where the objects of files lie. none: others delete them. memory: nowhere, for tests."},
	{"object.store.directory", false, func(c *Config) value { return text{&c.ObjectStore.Directory, "path"} },
		"Of type directory: the directory, which must exist."},
	{"object.store.endpoint", false, func(c *Config) value { return text{&c.ObjectStore.S3.Endpoint, "URL"} },
		"Of type s3: scheme, host and port."},
	{"object.store.bucket", false, func(c *Config) value { return text{&c.ObjectStore.S3.Bucket, ""} },
		"Its bucket, which must exist."},
	{"object.store.region", false, func(c *Config) value { return text{&c.ObjectStore.S3.Region, ""} },
		"Its region; empty: asked of the endpoint."},
	{"object.store.access.key", false, func(c *Config) value { return text{&c.ObjectStore.S3.AccessKey, ""} },
		"Name of the key that signs requests; empty: credentials are looked for where AWS's tools do."},
	{"object.store.secret.key.file", false, func(c *Config) value { return text{&c.ObjectSecretFile, "path"} },
		"File that holds the secret of that key, and nothing else."},
	{"object.store.prefix", false, func(c *Config) value { return text{&c.ObjectStore.Prefix, ""} },
		"What is put before every object key, as it is: a path ends in a slash."},
}
