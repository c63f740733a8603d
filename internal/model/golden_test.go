package model_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/internal/model"
)

// traceLine is one recorded operation.
type traceLine struct {
	Op       string          `json:"op"`
	NowMs    int64           `json:"now_ms"`
	Request  json.RawMessage `json:"request"`
	Response json.RawMessage `json:"response"`
	Error    struct {
		Code string `json:"code"`
	} `json:"error"`
}

func TestGoldenTraces(t *testing.T) {
	files, err := filepath.Glob("../../testdata/golden/*.jsonl")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			replayTrace(t, bytes.Split(bytes.TrimSpace(data), []byte("\n")))
		})
	}
}

func replayTrace(t *testing.T, lines [][]byte) {
	m := model.New(model.DefaultConfig())
	for i, text := range lines {
		var line traceLine
		require.NoError(t, json.Unmarshal(text, &line))
		response, code := m.Do(line.Op, line.NowMs, line.Request)
		require.Equal(t, line.Error.Code, code, "line %d: %s", i+1, text)
		if code == "" {
			got, err := json.Marshal(response)
			require.NoError(t, err)
			require.Equal(t, canonical(t, line.Response), canonical(t, got), "line %d: %s %s", i+1, line.Op, line.Request)
		}
		require.NoError(t, m.Invariants(), "after line %d", i+1)
	}
}

// canonical writes JSON with sorted keys and exact numbers.
func canonical(t *testing.T, text []byte) string {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	require.NoError(t, decoder.Decode(&value))
	if answer, ok := value.(map[string]any); ok {
		delete(answer, "message") // for people
	}
	out, err := json.Marshal(value)
	require.NoError(t, err)
	return string(out)
}
