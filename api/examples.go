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

// clusterExamples are of the verbs about the cluster, whose answers no trace can
// repeat.
//
//go:embed cluster_examples.jsonl
var clusterExamples []byte

func readExamples() map[string]example {
	byName := map[string]example{}
	for _, file := range [][]byte{examplesTrace, clusterExamples} {
		for lines := bufio.NewScanner(bytes.NewReader(file)); lines.Scan(); {
			var e example
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				panic(fmt.Sprintf("openapi: examples: %v", err))
			}
			if _, later := byName[e.Op]; !later {
				byName[e.Op] = e
			}
		}
	}
	return byName
}
