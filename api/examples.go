package api

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
)

// example is one recorded operation.
type example struct {
	Op       string          `json:"op"`
	Request  json.RawMessage `json:"request"`
	Response json.RawMessage `json:"response"`
}

// examplesTrace is a trace, as cpnode replay takes it; the first line of an
// operation is its example.
//
//go:embed examples.jsonl
var examplesTrace []byte

func readExamples() map[string]example {
	byName := map[string]example{}
	for lines := bufio.NewScanner(bytes.NewReader(examplesTrace)); lines.Scan(); {
		var e example
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			panic(fmt.Sprintf("openapi: examples.jsonl: %v", err))
		}
		if _, later := byName[e.Op]; !later {
			byName[e.Op] = e
		}
	}
	return byName
}
