package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Who finds nothing is told what there is none of, and how to get some; who is refused is
// told why.
func TestEmptyListsAndRefusalsSayWhatToDo(t *testing.T) {
	before := program
	t.Cleanup(func() { program = before })
	program = "cpnode"
	n := startDev(t, filepath.Join(t.TempDir(), "data"))
	endpoint := "--endpoints=" + n.url
	for want, args := range map[string][]string{
		"no topics yet; `cpnode topic create NAME --partitions 3` makes one\n": {"topic", "list"},
		"no files; brokers make them with commit-file\n":                       {"files", "list"},
		"no files in state deleting; brokers make them with commit-file\n":     {"files", "list", "--state=deleting"},
		"no files behind 7\n": {"files", "list", "--after=7"},
		"no classic topics; brokers register them with register-partitions\n":  {"switch", "status"},
		"no deleted topic waits to be purged\nobjects to be deleted: 0, 0 B\n": {"purge", "status"},
	} {
		require.Equal(t, want, mustRun(t, append(args, endpoint)...), args)
	}
	mustRun(t, "topic", "create", "orders", endpoint)
	require.Equal(t, "topic orders has no registered partitions: there is nothing to switch\n", mustRun(t, "switch", "status", "orders", endpoint))
	require.NoError(t, registerDemoBrokers(t.Context(), n.client))
	require.NoError(t, registerDemoLedger(t.Context(), n.client))
	require.Contains(t, mustRun(t, "topic", "describe", "ledger", endpoint), "no diskless logs yet; `cpnode switch status ledger` shows its classic partitions\n")

	for want, args := range map[string][]string{
		"topic a/b: INVALID_REQUEST: the name must be 1 to 249 letters":       {"a/b"},
		"topic orders: TOPIC_ALREADY_EXISTS: the name is that of topic ":      {"orders", "--id=965eda32-dae4-4550-8201-e2bd73ab4876"},
		"topic orders: INVALID_REQUEST: num_partitions must be at most 10000": {"orders", "--partitions=10001"},
		"topic orders: INVALID_REQUEST: diskless.enable of an existing topic": {"orders", "--config=diskless.enable=true"},
		"topic ledger: INVALID_REQUEST: the topic":                            {"ledger", "--partitions=3"},
	} {
		r := cpnode(t, append([]string{"topic", "create", endpoint}, args...)...)
		require.Equal(t, exitFailed, r.code, args)
		require.Contains(t, r.stderr, want)
	}
}

// A person is told who did not answer as a node would, without a code for programs.
func TestNoNodeAnswers(t *testing.T) {
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	r := cpnode(t, "cluster", "status", "--endpoints", other.URL)
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, "cpnode: no answer: status 404 from "+strings.TrimPrefix(other.URL, "http://")+", which is no node (--endpoints names others)\n", r.stderr)
	r = cpnode(t, "purge", "run", "--endpoints", other.URL)
	require.Contains(t, r.stderr, "OUTCOME_UNKNOWN: ", "what may have been done stays said")
}

// A node that waits for others says so; what to try comes when it can be tried.
func TestInvitationComesWhenTheNodeIsReady(t *testing.T) {
	c, err := newCluster(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(c.kill)
	first := c.nodes[0]
	require.NoError(t, first.start())
	var said string
	require.NoError(t, eventually(t.Context(), "the node to say for whom it waits", func() (bool, error) {
		r, err := http.Get(first.url + "/readyz")
		if err != nil {
			return false, nil //nolint:nilerr // it does not listen yet
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		said = string(body)
		return strings.Contains(said, "b: is not reached at "+c.nodes[1].raftAddr), err
	}))
	require.Contains(t, said, "not part of a cluster yet: ")
	require.Contains(t, said, "start it there, or correct the peers")
	log, err := os.ReadFile(first.logFile())
	require.NoError(t, err)
	require.Contains(t, string(log), "cpnode "+release()+": node a\n  http  "+first.url+"\n  raft  "+first.raftAddr+"\n")

	require.NoError(t, c.startAll(t.Context()))
	require.NoError(t, eventually(t.Context(), "the invitation", func() (bool, error) {
		log, err = os.ReadFile(first.logFile())
		return strings.Count(string(log), "Ready. Try:\n  ") == 1, err
	}))
	before, _, _ := strings.Cut(string(log), "Ready. Try:")
	require.Contains(t, before, "part of the cluster", "it is ready before it invites")
}

// Where others look for a node is said when it is not where the node listens.
func TestGreetingNamesTheAdvertisedRaftAddress(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	out := &listening{onWrite: stop}
	code := run(ctx, []string{"dev", "--ephemeral", "--http-addr", "127.0.0.1:0", "--raft-advertise", "127.0.0.1:9", "--log-level", "error"}, strings.NewReader(""), out, io.Discard)
	require.Equal(t, exitOK, code)
	require.Regexp(t, `\n  raft  127\.0\.0\.1:\d+, reached by the other nodes at 127\.0\.0\.1:9\n`, out.text.String())
}

// A node that serves on every address says one that can be dialled.
func TestWildcardIsNotAdvertised(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	out := &listening{onWrite: stop}
	code := run(ctx, []string{"dev", "--ephemeral", "--http-addr", "0.0.0.0:0", "--insecure", "--raft-advertise", "localhost:9", "--log-level", "error"}, strings.NewReader(""), out, io.Discard)
	require.Equal(t, exitOK, code)
	require.Regexp(t, `\n  http  http://localhost:\d+\n`, out.text.String())
}
