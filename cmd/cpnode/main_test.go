package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/internal/loopback"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// TestMain is also main: the children that tests start are this binary.
func TestMain(m *testing.M) {
	store.ChildMain()
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		main()
	}
	os.Exit(m.Run())
}

// result is what a command line came to.
type result struct {
	code           int
	stdout, stderr string
}

// cpnode runs a command line in this process.
func cpnode(t *testing.T, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// mustRun runs a command line that must succeed, and returns what it printed.
func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	r := cpnode(t, args...)
	require.Equal(t, exitOK, r.code, "%v: %s", args, r.stderr)
	return r.stdout
}

func TestBadCommandLines(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	busy := l.Addr().String()
	serve := func(args ...string) []string {
		return append([]string{"serve", "--node-id", "a", "--data-dir", filepath.Join(t.TempDir(), "data"), "--http-addr", "127.0.0.1:0", "--raft-addr", "127.0.0.1:0"}, args...)
	}
	other := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(other, "photo.jpg"), nil, 0o600))
	damaged := filepath.Join(t.TempDir(), "state.db")
	require.NoError(t, os.WriteFile(damaged, make([]byte, 16384), 0o600))
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"nonsense"}, exitUsage, `unknown command "nonsense"`},
		{[]string{"serv"}, exitUsage, "did you mean serve?"},
		{[]string{"topic", "remove"}, exitUsage, `unknown command "remove"`},
		{[]string{"serve"}, exitUsage, "node.id: must be given"},
		{[]string{"serve", "--nod-id", "a"}, exitUsage, "did you mean --node-id?"},
		{[]string{"serve", "extra"}, exitUsage, "takes 0 arguments, not 1"},
		{serve("--http-addr", "0.0.0.0:0"), exitUsage, "--insecure"},
		{serve("--raft-addr", "0.0.0.0:0"), exitUsage, "--insecure"},
		{serve("--peers", "a"), exitUsage, "id=host:port"},
		{serve("--peers", "b=127.0.0.1:1"), exitUsage, "peers: this node (a) is missing"},
		{serve("--config", t.TempDir()), exitUsage, "config file: "},
		{serve("--http-addr", busy), exitFailed, "http.addr: " + busy + " is in use by another process; stop it or name another port"},
		{serve("--raft-addr", busy), exitFailed, "raft.addr: " + busy + " is in use by another process; stop it or name another port"},
		{serve("--data-dir", other), exitFailed, "not a cpnode data directory"},
		{[]string{"check"}, exitUsage, "takes 1 argument, not 0"},
		{[]string{"check", filepath.Join(other, "none")}, exitFailed, "no such file"},
		{[]string{"check", other}, exitFailed, "not a cpnode data directory"},
		{[]string{"check", damaged, "-o", "xml"}, exitUsage, "not text or json"},
		{[]string{"restore", damaged}, exitUsage, "--data-dir: must be given"},
		{[]string{"restore", damaged, "--data-dir", "d"}, exitUsage, "--node-id: must be given"},
		{[]string{"restore", damaged, "--data-dir", filepath.Join(t.TempDir(), "d"), "--node-id", "a"}, exitFailed, "it does not begin as one"},
		{[]string{"backup"}, exitUsage, "takes 1 argument, not 0"},
		{[]string{"dump", other, "--log", "--state"}, exitUsage, "give one of them"},
		{[]string{"dump", other}, exitFailed, "not a cpnode data directory"},
		{[]string{"recover", other, "--dry-run"}, exitFailed, "not a cpnode data directory"},
		{[]string{"recover", other, other}, exitUsage, "--dry-run compares several"},
		{[]string{"recover", other, "--peers", "x"}, exitUsage, "--peers: "},
		{[]string{"cluster", "join", "n4"}, exitUsage, "is not NAME=ADDR"},
		{[]string{"cluster", "transfer", "a", "b"}, exitUsage, "takes at most one argument"},
		{[]string{"replay"}, exitUsage, "takes at least one argument"},
		{[]string{"replay", filepath.Join(other, "none")}, exitFailed, "no such file"},
		{[]string{"replay", filepath.Join(other, "photo.jpg"), "--data-dir", other}, exitFailed, "not a cpnode data directory"},
		{[]string{"topic", "list", "--endpoints", "localhost"}, exitUsage, `--endpoints or CPNODE_ENDPOINTS: "localhost" is not http://host:port`},
		{[]string{"topic", "create", "x", "--id", "y"}, exitUsage, "--id: "},
		{[]string{"files", "list", "--limit", "-1"}, exitUsage, "--limit: must be >= 0"},
		{[]string{"purge", "run", "--max-batches", "-1"}, exitUsage, "--max-batches: must be >= 0"},
		{[]string{"switch", "override", "x", "y"}, exitUsage, "is not a number of a partition"},
		{[]string{"switch", "override", "x", "0"}, exitUsage, "give one of --seal, --abort and --arm"},
		{[]string{"switch", "override", "x", "0", "--arm", "--abort"}, exitUsage, "give one of --seal, --abort and --arm"},
		{[]string{"switch", "override", "x", "0", "--seal", "3"}, exitUsage, "--seal: needs --log-start-offset"},
		{[]string{"switch", "watch", "--events", "-1"}, exitUsage, "--events: must be >= 0"},
	} {
		r := cpnode(t, c.args...)
		require.Equal(t, c.code, r.code, "%v: %s", c.args, r.stderr)
		require.Contains(t, r.stderr, c.says)
		require.Empty(t, r.stdout, c.args)
	}
	r := cpnode(t, "check", damaged)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stdout, "DAMAGED")
}

func TestHelpHasExamples(t *testing.T) {
	var visit func(args []string)
	visit = func(args []string) {
		c, _, err := rootCommand().Find(args)
		require.NoError(t, err)
		for _, sub := range c.Commands() {
			if !sub.Hidden {
				visit(append(args[:len(args):len(args)], sub.Name()))
			}
		}
		if !c.HasSubCommands() {
			require.Contains(t, mustRun(t, append(args, "--help")...), "Examples:", "%v", args)
		}
	}
	visit(nil)
}

func TestVersion(t *testing.T) {
	require.Contains(t, mustRun(t, "version"), fmt.Sprintf("feature level %d", ops.FeatureLevel))
	require.Contains(t, mustRun(t, "version", "-o", "json"), `"state_layout": 1`)
}

func TestVersionFlag(t *testing.T) {
	require.Equal(t, "cpnode "+release()+"\n", mustRun(t, "--version"))
}

// A person is told that nothing listens, not what that comes to for a program.
func TestNothingListens(t *testing.T) {
	addr, err := loopback.FreeAddr()
	require.NoError(t, err)
	r := cpnode(t, "topic", "list", "--endpoints", "http://"+addr)
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, "cpnode: nothing listens at "+addr+": is the node running? (--endpoints names others)\n", r.stderr)
	require.Contains(t, cpnode(t, "topic", "list", "--endpoints", "http://none.invalid:1").stderr, "no node was reached: lookup none.invalid")
}

// What is printed to be pasted begins as this program was called.
func TestProgramIsNamedAsItWasCalled(t *testing.T) {
	for arg0, want := range map[string]string{
		"cpnode": "cpnode", "bin/cpnode": "bin/cpnode", "/usr/bin/cpnode-2": "/usr/bin/cpnode-2",
		"/tmp/go-build123/b001/exe/cpnode": "go run ./cmd/cpnode", "/tmp/main.test": "cpnode",
	} {
		require.Equal(t, want, programOf(arg0))
	}
	before := program
	t.Cleanup(func() { program = before })
	program = "bin/cpnode"
	require.Contains(t, cpnode(t, "topic", "remove").stderr, "See: bin/cpnode topic --help")
}

func TestConfigCommands(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cpnode.yaml")
	require.NoError(t, os.WriteFile(file, []byte("node.id: a\nraft.trailing.logs: 10000\n"), 0o600))
	t.Setenv("CPNODE_LOG_LEVEL", "warn")
	require.Equal(t, "the configuration is valid\n", mustRun(t, "config", "validate", "--config", file))
	out := mustRun(t, "config", "print", "--config", file, "--log-format=json")
	for _, line := range []string{`log\.level +warn +CPNODE_LOG_LEVEL\n`, `log\.format +json +--log-format\n`, `raft\.trailing\.logs +10000 +.*cpnode\.yaml:2\n`, `state\.sync +interval +default\n`} {
		require.Regexp(t, line, out)
	}
	r := cpnode(t, "config", "validate")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "node.id: must be given")
}

func TestReplayVerify(t *testing.T) {
	const golden = "../../testdata/golden/maintenance-21.jsonl"
	require.Contains(t, mustRun(t, "replay", "--verify", golden), "maintenance-21.jsonl: 514 operations, no difference")

	trace, err := os.ReadFile(golden)
	require.NoError(t, err)
	lines := bytes.SplitAfter(trace, []byte("\n"))
	lines[41] = append([]byte("\n"), lines[41]...) // empty lines count too
	altered := -1
	for i := 42; altered < 0; i++ {
		if bytes.Contains(lines[i], []byte(`"high_watermark":`)) {
			lines[i], altered = bytes.Replace(lines[i], []byte(`"high_watermark":`), []byte(`"high_watermark":9`), 1), i+2
		}
	}
	file := filepath.Join(t.TempDir(), "altered.jsonl")
	require.NoError(t, os.WriteFile(file, bytes.Join(lines, nil), 0o600))
	r := cpnode(t, "replay", "--verify", file)
	require.Equal(t, exitFailed, r.code)
	require.Regexp(t, `altered\.jsonl:`+fmt.Sprint(altered)+`: .* answers otherwise at response\..*high_watermark\n  recorded  9`, r.stderr)
}

// A node refuses a body over the limit before it reads it; so does replay.
func TestReplayRefusesWhatANodeWould(t *testing.T) {
	key := strings.Repeat("k", 1000)
	keys := strings.Repeat(`"`+key+`",`, 9999) + `"` + key + `"`
	file := filepath.Join(t.TempDir(), "trace.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(`{"op":"delete-files","now_ms":1,"request":{"object_keys":[`+keys+`]}}`), 0o600))
	require.Equal(t, `{"error":{"code":"REQUEST_TOO_LARGE"}}`+"\n", mustRun(t, "replay", file))
}

func TestReplayWritesAnswers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(`{"op": "delete-topics", "now_ms": 1, "request": {"topic_ids": []}, "note": "ignored"}
{"op": "delete-topics", "now_ms": 2, "request": {"topics": []}}
{"op": "no-such", "now_ms": 2, "request": {}}
`), 0o600))
	require.Equal(t, `{"response":{"logs_deleted":0}}
{"error":{"code":"INVALID_REQUEST"}}
{"error":{"code":"UNKNOWN_OPERATION"}}
`, mustRun(t, "replay", file))
	r := cpnode(t, "replay", "--verify", file)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "trace.jsonl:1: the line has neither response nor error")
}
