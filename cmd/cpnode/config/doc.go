// Package config holds the configuration of a node: [Config] itself, and the one
// registry of keys that makes flags, environment variables, the file, validation,
// `cpnode config print` and the reference page.
//
// A key's default is the value it has in [Default], so no default is written down
// twice. [Load] lays the sources over it: flags over the environment over a file.
// Every error names the key, where its value came from and what is allowed.
package config
