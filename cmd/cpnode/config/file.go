package config

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/cpnode/cpnode/api/wire"
)

// setting is one line of a file.
type setting struct {
	key  Key
	text string
	line int
}

// parseFile reads a file of keys and plain values:
//
//	node.id: a
//	file.key.retention.ms: 1000
//
// Errors begin with the line.
func parseFile(data []byte) ([]setting, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, errors.New("must be lines of `key: value`")
	}
	byName, names := map[string]Key{}, []string(nil)
	for _, k := range Keys {
		byName[k.Name] = k
		names = append(names, k.Name)
	}
	var settings []setting
	lines := map[string]int{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		name, value := root.Content[i], root.Content[i+1]
		k, known := byName[name.Value]
		switch {
		case !known:
			return nil, fmt.Errorf("line %d: %s: unknown key%s", name.Line, name.Value, wire.Suggest(name.Value, names))
		case lines[k.Name] > 0:
			return nil, fmt.Errorf("line %d: %s: was given on line %d before", name.Line, k.Name, lines[k.Name])
		case value.Kind != yaml.ScalarNode || value.Tag == "!!null":
			return nil, fmt.Errorf("line %d: %s: must have one plain value", name.Line, k.Name)
		}
		lines[k.Name] = name.Line
		settings = append(settings, setting{k, value.Value, name.Line})
	}
	return settings, nil
}
