package main

import (
	"bufio"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzReplayLine: whatever a line of a trace says, it is answered or refused, and
// the state stays one that can go on.
func FuzzReplayLine(f *testing.F) {
	golden, err := os.Open("../../testdata/golden/maintenance-22.jsonl")
	require.NoError(f, err)
	defer golden.Close()
	lines := bufio.NewScanner(golden)
	for n := 0; lines.Scan() && n < 60; n++ {
		f.Add(lines.Text())
	}
	f.Add(`{"op":"delete-topics","now_ms":-9223372036854775808,"request":null}`)
	f.Add(`{"op":"delete-topics","now_ms":1e3,"request":{}}`)
	f.Fuzz(func(t *testing.T, line string) {
		r, err := newReplayer("")
		require.NoError(t, err)
		defer func() { require.NoError(t, r.close()) }()
		if err := replayLine(r, []byte(line), false, io.Discard); err != nil {
			require.ErrorContains(t, err, "not a recorded operation")
		}
		require.NoError(t, replayLine(r, []byte(`{"op":"list-files","now_ms":1,"request":{}}`), false, io.Discard))
	})
}
