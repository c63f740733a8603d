package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func binary(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "cpnode")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

func exitCode(t *testing.T, bin string, args ...string) (int, string) {
	out, err := exec.Command(bin, args...).CombinedOutput()
	if err == nil {
		return exitOK, string(out)
	}
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	return exit.ExitCode(), string(out)
}

// The demo is the end-to-end test: three processes, writes through followers, the
// leader killed under load, every acknowledged batch found on every node,
// a topic drained, equal digests on the stopped directories.
func TestDemoHoldsWhatItTells(t *testing.T) {
	code, out := exitCode(t, binary(t), "demo", "--once")
	require.Equal(t, exitOK, code, out)
	require.Contains(t, out, "acknowledged = found")
	require.Equal(t, 3, strings.Count(out, "clean, applied index"), out)
}

func TestReplayVerify(t *testing.T) {
	bin := binary(t)
	trace, err := os.ReadFile("../../testdata/golden/maintenance-21.jsonl")
	require.NoError(t, err)
	altered := filepath.Join(t.TempDir(), "altered.jsonl")
	lines := bytes.SplitAfter(trace, []byte("\n"))
	for i, line := range lines {
		if i > 40 && bytes.Contains(line, []byte(`"high_watermark":`)) {
			lines[i] = bytes.Replace(line, []byte(`"high_watermark":`), []byte(`"high_watermark":9`), 1)
			break
		}
	}
	require.NoError(t, os.WriteFile(altered, bytes.Join(lines, nil), 0o600))

	code, out := exitCode(t, bin, "replay", "--verify", "../../testdata/golden/maintenance-21.jsonl")
	require.Equal(t, exitOK, code, out)
	code, out = exitCode(t, bin, "replay", "--verify", altered)
	require.Equal(t, exitFailed, code)
	require.Regexp(t, `altered\.jsonl:\d+: .* answers otherwise at response\.`, out)
}

func TestBadCommandLines(t *testing.T) {
	bin := binary(t)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"serve"}, exitUsage, "node.id: must be given"},
		{[]string{"serve", "--node-id", "a", "--data-dir", t.TempDir(), "--http-addr", "0.0.0.0:0"}, exitUsage, "--insecure"},
		{[]string{"serve", "--node-id", "a", "--data-dir", t.TempDir(), "--peers", "a"}, exitUsage, "id=host:port"},
		{[]string{"serve", "--nod-id", "a"}, exitUsage, "did you mean node-id?"},
		{[]string{"check", filepath.Join(t.TempDir(), "none")}, exitFailed, "no such file"},
		{[]string{"check", t.TempDir()}, exitFailed, "not a cpnode data directory"},
		{[]string{"replay"}, exitUsage, "at least one argument"},
		{[]string{"nonsense"}, exitUsage, "unknown command"},
	} {
		code, out := exitCode(t, bin, c.args...)
		require.Equal(t, c.code, code, "%v: %s", c.args, out)
		require.Contains(t, out, c.says)
	}
}
