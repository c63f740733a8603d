package ops_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

// traceLine is one recorded operation with its right answer.
type traceLine struct {
	Op       string          `json:"op"`
	NowMs    int64           `json:"now_ms"`
	Request  json.RawMessage `json:"request"`
	Response json.RawMessage `json:"response"`
	Error    struct {
		Code ops.Code `json:"code"`
	} `json:"error"`
}

func readTrace(t testing.TB, path string) []traceLine {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var lines []traceLine
	for _, text := range bytes.Split(bytes.TrimSpace(data), []byte("\n")) {
		var line traceLine
		require.NoError(t, json.Unmarshal(text, &line))
		lines = append(lines, line)
	}
	return lines
}

func TestGoldenTraces(t *testing.T) {
	files, err := filepath.Glob("../testdata/golden/*.jsonl")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for name, settings := range map[string]ops.Settings{"whole": ops.DefaultSettings(), "split": rows(1)} {
		for _, file := range files {
			t.Run(name+"/"+filepath.Base(file), func(t *testing.T) {
				n := newNode(t, settings)
				for i, line := range readTrace(t, file) {
					answer, code := n.do(line.Op, line.NowMs, line.Request)
					require.Equal(t, line.Error.Code, code, "line %d: %s %s", i+1, line.Op, line.Request)
					if code == "" {
						require.Equal(t, withoutMessage(t, line.Response), withoutMessage(t, answer), "line %d: %s %s", i+1, line.Op, line.Request)
					}
				}
			})
		}
	}
}
