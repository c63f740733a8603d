package config

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/cpnode/cpnode/api/wire"
)

const (
	envPrefix = "CPNODE_"
	// FileFlag is the flag that names the file.
	FileFlag = "config"
	// FileEnv is the variable that names the file.
	FileEnv = envPrefix + "CONFIG"
	// EndpointsEnv belongs to the client verbs.
	EndpointsEnv = envPrefix + "ENDPOINTS"
)

// foreignPrefixes begin variables that Kubernetes sets in every container beside a
// service named cpnode.
var foreignPrefixes = []string{envPrefix + "SERVICE_", envPrefix + "PORT"}

// Loaded is a configuration, and where each of its values came from.
type Loaded struct {
	Config
	// Origins says for a key "default", or its file and line, variable or flag.
	Origins map[string]string
}

// AddFlags adds the flag of every key, and that of the file. base is what they
// say the defaults are.
func AddFlags(flags *pflag.FlagSet, base Config) { addFlags(flags, base, Keys) }

// AddObjectStoreFlags adds those of the object store, and that of the file, for what
// looks into the store beside a node.
func AddObjectStoreFlags(flags *pflag.FlagSet) { addFlags(flags, Default(), objectStoreKeys) }

func addFlags(flags *pflag.FlagSet, base Config, keys []Key) {
	scratch := base
	for _, k := range keys {
		f := flags.VarPF(k.field(&scratch), k.Flag(), "", k.Meaning)
		if f.Value.Type() == "bool" {
			f.NoOptDefVal = "true"
		}
	}
	flags.String(FileFlag, "", "YAML file of keys and values")
}

// Load lays a file, the environment (in the form of os.Environ) and flags over
// base. Flags may be those of some keys only. It does not Validate.
func Load(base Config, flags *pflag.FlagSet, environ []string) (*Loaded, error) {
	l := &Loaded{Config: base, Origins: map[string]string{}}
	for _, k := range Keys {
		l.Origins[k.Name] = "default"
	}
	env, err := parseEnviron(environ)
	if err != nil {
		return nil, err
	}
	path := env[FileEnv]
	if f := flags.Lookup(FileFlag); f.Changed {
		path = f.Value.String()
	}
	if path != "" {
		if err := l.loadFile(path); err != nil {
			return nil, err
		}
	}
	for _, k := range Keys {
		if text, ok := env[k.Env()]; ok {
			if err := l.set(k, text, k.Env()); err != nil {
				return nil, err
			}
		}
		if f := flags.Lookup(k.Flag()); f != nil && f.Changed {
			if err := l.set(k, f.Value.String(), "--"+k.Flag()); err != nil {
				return nil, err
			}
		}
	}
	return l, nil
}

func (l *Loaded) set(k Key, text, origin string) error {
	if err := k.field(&l.Config).Set(text); err != nil {
		return fmt.Errorf("%s: %s: %w", origin, k.Name, err)
	}
	l.Origins[k.Name] = origin
	return nil
}

// loadFile takes every key of a file.
func (l *Loaded) loadFile(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("config file: %w", err)
	}
	settings, err := parseFile(data)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, s := range settings {
		if err := l.set(s.key, s.text, fmt.Sprintf("%s:%d", path, s.line)); err != nil {
			return err
		}
	}
	return nil
}

// parseEnviron is what of the environment begins with CPNODE_, of which nothing
// may be unknown: a misspelt limit would be no limit.
func parseEnviron(environ []string) (map[string]string, error) {
	known := map[string]bool{}
	var names []string
	for _, k := range Keys {
		known[k.Env()] = true
		names = append(names, k.Env())
	}
	env := map[string]string{}
	for _, item := range environ {
		name, text, _ := strings.Cut(item, "=")
		switch {
		case known[name] || name == FileEnv:
			env[name] = text
		case strings.HasPrefix(name, envPrefix) && !belongsToOthers(name):
			return nil, fmt.Errorf("%s: unknown key in the environment%s", name, wire.Suggest(name, names))
		}
	}
	return env, nil
}

func belongsToOthers(name string) bool {
	return name == EndpointsEnv ||
		slices.ContainsFunc(foreignPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
