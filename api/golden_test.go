package api

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/raftnode"
)

var update = flag.Bool("update", false, "write the answers into examples.jsonl")

// replay sends a trace to one node, whose clock it sets, and calls check with each
// answer.
func replay(t *testing.T, lines []traceLine, check func(i int, line *traceLine, r reply)) {
	t.Helper()
	var now clock
	s := single(t, func(c *raftnode.Config) { c.Now = now.now })
	for i := range lines {
		line := &lines[i]
		now.ms.Store(line.NowMs)
		check(i, line, s.post(t, line.Op, string(line.Request)))
	}
}

// matches holds an answer against the recorded one.
func (line *traceLine) matches(t *testing.T, i int, r reply) {
	t.Helper()
	if line.Error != nil {
		code, _ := r.code(t)
		require.Equal(t, line.Error.Code, code, "line %d: %s %s", i+1, line.Op, line.Request)
		require.Equal(t, Status(code), r.status)
		return
	}
	require.Equal(t, http.StatusOK, r.status, "line %d: %s %s: %s", i+1, line.Op, line.Request, r.body)
	answer := r.body
	if line.Op == "create-topics" { // whose items say why for people
		answer = regexp.MustCompile(`,"message":"[^"]*"`).ReplaceAll(answer, nil)
	}
	require.Equal(t, canonical(t, line.Response), canonical(t, answer), "line %d: %s %s", i+1, line.Op, line.Request)
}

func TestGoldenTracesOverHTTP(t *testing.T) {
	files, err := filepath.Glob("../testdata/golden/*.jsonl")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			validate := answerValidator(t)
			replay(t, readTrace(t, file), func(i int, line *traceLine, r reply) {
				line.matches(t, i, r)
				validate(line.Op, r)
			})
		})
	}
}

// TestExamples replays the examples of the reference. With -update it writes the
// answers that it got.
func TestExamples(t *testing.T) {
	const file = "examples.jsonl"
	lines := readTrace(t, file)
	var out bytes.Buffer
	validate := answerValidator(t)
	replay(t, lines, func(i int, line *traceLine, r reply) {
		require.Equal(t, http.StatusOK, r.status, "line %d: %s", i+1, r.body)
		validate(line.Op, r)
		if !*update {
			line.matches(t, i, r)
			return
		}
		line.Response = r.body
		text, err := json.Marshal(line)
		require.NoError(t, err)
		out.Write(append(text, '\n'))
	})
	if *update {
		require.NoError(t, os.WriteFile(file, out.Bytes(), 0o644))
	}
}
