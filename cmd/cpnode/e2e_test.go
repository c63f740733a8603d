package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// The demo is the main job, told: it fails when any of what it tells does not hold.
func TestDemoHoldsWhatItTells(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: starts three processes and kills them for ten seconds")
	}
	out := mustRun(t, "demo", "--once")
	require.Regexp(t, `acknowledged = found: (\d+) = \d+ batches`, out)
	require.Contains(t, out, "three clean nodes, one digest")
}

func testCluster(t *testing.T) *cluster {
	c, err := startCluster(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(c.kill)
	return c
}

// Writers go through all nodes while the leader is killed, twice; the files of the
// stopped nodes are whole and equal.
func TestNothingAcknowledgedIsLost(t *testing.T) {
	c := testCluster(t)
	l, err := startLoad(t.Context(), c, 4, demoOrders)
	require.NoError(t, err)
	for range 2 {
		before, _ := l.progress()
		awaitFiles(t, l, before+50)
		leader, err := c.leader(t.Context())
		require.NoError(t, err)
		leader.kill()
		before, _ = l.progress()
		awaitFiles(t, l, before+50)
		require.NoError(t, leader.start())
		require.NoError(t, leader.awaitReady(t.Context()))
	}
	require.NoError(t, l.finish())
	require.Less(t, l.gap, 10*time.Second)
	found, err := l.verify(t.Context())
	require.NoError(t, err)
	require.Equal(t, len(l.acked), found)
	require.NoError(t, l.retryFirst(t.Context()))

	verifyNotices(t, l)

	_, err = c.settle(t.Context())
	require.NoError(t, err)
	require.NoError(t, c.stop())
	_, err = checkNodes(t.Context(), c, io.Discard)
	require.NoError(t, err)
}

func awaitFiles(t *testing.T, l *load, files int) {
	t.Helper()
	require.NoError(t, eventually(t.Context(), "files to be acknowledged", func() (bool, error) {
		select {
		case <-l.failed:
			return false, l.writers.Wait()
		default:
		}
		n, _ := l.progress()
		return n >= files, nil
	}))
}

// verifyNotices makes sure that verify can fail.
func verifyNotices(t *testing.T, l *load) {
	some := ackedBatch{store.LogKey{Topic: demoOrders.id, Partition: 1}, 0}
	key := l.acked[some]
	require.NotEmpty(t, key)
	l.acked[some] = "another object"
	_, err := l.verify(t.Context())
	require.ErrorContains(t, err, `acknowledged was "another object"`)
	l.acked[some] = key

	lost := ackedBatch{some.log, 1 << 40}
	l.acked[lost] = key
	_, err = l.verify(t.Context())
	require.ErrorContains(t, err, "were acknowledged")
	delete(l.acked, lost)
}

// A person with curl and the client verbs, on any node.
func TestOneClusterSeenFromOutside(t *testing.T) {
	c := testCluster(t)
	leader, err := c.leader(t.Context())
	require.NoError(t, err)
	var followers []*child
	for _, n := range c.nodes {
		if n != leader {
			followers = append(followers, n)
		}
	}
	endpoints := "--endpoints=" + followers[0].url + "," + followers[1].url
	require.Contains(t, mustRun(t, "topic", "create", "orders", "--partitions=2", endpoints), "partitions created: 2")
	var topic struct {
		ID string `json:"topic_id"`
	}
	require.NoError(t, json.Unmarshal([]byte(mustRun(t, "topic", "describe", "orders", "-o=json", endpoints)), &topic))
	commit := `{"object_key": "wal/1", "uploader_broker_id": 1, "file_size": 1024, "batches": [{"topic_id": "` + topic.ID + `", "partition": 0,
		"byte_offset": 0, "byte_size": 1024, "base_offset": 0, "last_offset": 9, "batch_max_timestamp": 1700000000000}]}`
	find := `{"requests": [{"topic_id": "` + topic.ID + `", "partition": 0, "starting_offset": 0, "max_partition_fetch_bytes": 1000000}], "fetch_max_bytes": 1000000}`

	status, answer, header := post(t, followers[0], "commit-file", commit)
	require.Equal(t, http.StatusOK, status, answer)
	require.Contains(t, answer, `"assigned_base_offset":0`)
	require.Equal(t, leader.id, header.Get("X-Cpnode-Leader"))
	for _, query := range []string{"", "?consistency=linearizable", "?consistency=stale&min_index=" + header.Get("X-Cpnode-Index")} {
		status, found, _ := post(t, followers[1], "find-batches"+query, find)
		require.Equal(t, http.StatusOK, status, found)
		require.Contains(t, found, `"object_key":"wal/1"`)
	}
	status, refusal, _ := post(t, followers[1], "find-batches", strings.Replace(find, "fetch_max_bytes\": 1000000}", "fetch_max_byte\": 1}", 1))
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, refusal, "fetch_max_byte: unknown field (did you mean fetch_max_bytes?)")

	leader.kill()
	require.NoError(t, eventually(t.Context(), "the commit to be answered again", func() (bool, error) {
		status, again, _ := post(t, followers[0], "commit-file", commit)
		return status == http.StatusOK && again == strings.Replace(answer, `"replayed":false`, `"replayed":true`, 1), nil
	}))
	require.NoError(t, leader.start())
	require.NoError(t, leader.awaitReady(t.Context()))
	clientVerbs(t, endpoints, topic.ID)
}

func post(t *testing.T, n *child, operation, body string) (int, string, http.Header) {
	t.Helper()
	r, err := http.Post(n.url+"/v1/"+operation, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer r.Body.Close()
	answer, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return r.StatusCode, string(answer), r.Header
}

// clientVerbs deletes the topic that holds one batch and drains it.
func clientVerbs(t *testing.T, endpoints, topicID string) {
	require.Contains(t, mustRun(t, "topic", "create", "orders", "--partitions=3", endpoints), "partitions created: 1")
	require.Regexp(t, `orders +`+topicID+` +3 +diskless +-\n`, mustRun(t, "topic", "list", endpoints))
	require.Regexp(t, `wal/1 +uploaded +1\.0 KiB +1 `, mustRun(t, "files", "list", endpoints))
	require.Contains(t, mustRun(t, "topic", "describe", topicID, endpoints), "1.0 KiB")

	r := cpnode(t, "topic", "delete", "orders", endpoints) // the answer is empty
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "Delete topic orders ("+topicID+"): 3 partitions, 1.0 KiB? This cannot be undone. [y/N] cpnode: nothing was done")
	require.Contains(t, mustRun(t, "topic", "delete", "orders", "--yes", endpoints), "topic orders deleted (3 logs)")
	r = cpnode(t, "topic", "delete", "orders", "--yes", endpoints)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "topic orders: UNKNOWN_TOPIC_OR_PARTITION")

	require.Regexp(t, `orders +`+topicID+` +3 `, mustRun(t, "purge", "status", endpoints))
	require.Equal(t, "1 batches deleted, 3 logs purged, 1 files marked\n", mustRun(t, "purge", "run", endpoints))
	require.Equal(t, "no deleted topic waits to be purged\nobjects to be deleted: 1, 1.0 KiB\n", mustRun(t, "purge", "status", endpoints))
	var status purgeStatus
	require.NoError(t, json.Unmarshal([]byte(mustRun(t, "purge", "status", "-o=json", endpoints)), &status))
	require.Equal(t, "wal/1", status.Files[0].ObjectKey)
}

// A second process on a directory, a directory of another node, and a stop by
// SIGTERM that leaves a whole directory behind.
func TestDataDirectoryOfARunningNode(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	n := startDev(t, dir)
	serve := []string{"serve", "--node-id", "dev", "--data-dir", dir, "--http-addr", "127.0.0.1:0", "--raft-addr", "127.0.0.1:0"}
	for _, args := range [][]string{serve, {"check", dir}, {"replay", "--data-dir", dir, "../../testdata/golden/datapath-11.jsonl"}} {
		r := cpnode(t, args...)
		require.Equal(t, exitFailed, r.code, args)
		require.Contains(t, r.stderr, "data directory is in use by another process: "+dir)
	}
	_, err := n.client.CreateTopics(t.Context(), &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{{TopicID: demoOrders.id, TopicName: "orders", NumPartitions: 3}}})
	require.NoError(t, err)
	require.NoError(t, n.signal(syscall.SIGTERM))
	<-n.exited
	require.NoError(t, n.err)
	n.process = nil

	require.Regexp(t, `logs +3 live`, mustRun(t, "check", dir))
	trace := filepath.Join(t.TempDir(), "trace.jsonl")
	require.NoError(t, os.WriteFile(trace, []byte(`{"op": "describe-topic", "now_ms": 1, "request": {"topic_name": "orders"}}`), 0o600))
	require.Contains(t, mustRun(t, "replay", "--data-dir", dir, trace), `"partitions":3`)
	serve[2] = "other"
	r := cpnode(t, serve...)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "data directory of another node")
}

// startDev starts `cpnode dev` as a child and waits until it is ready.
func startDev(t *testing.T, dir string, flags ...string) *child {
	n, err := newChild("dev", t.TempDir())
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, append([]string{"dev", "--data-dir", dir, "--http-addr", n.httpAddr}, flags...)...)
	cmd.SysProcAttr = childAttributes()
	began := time.Now()
	require.NoError(t, cmd.Start())
	n.process, n.exited = cmd.Process, make(chan struct{})
	go func() {
		n.err = cmd.Wait()
		close(n.exited)
	}()
	t.Cleanup(n.kill)
	require.NoError(t, n.awaitReady(t.Context()))
	t.Logf("ready after %s", time.Since(began).Round(time.Millisecond))
	return n
}

// The first signal stops a node, and --ephemeral leaves nothing behind.
func TestDevIsEphemeral(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	ctx, stop := context.WithCancel(t.Context())
	out := &listening{onWrite: stop}
	code := run(ctx, []string{"dev", "--ephemeral", "--http-addr", "127.0.0.1:0", "--log-level", "error"}, strings.NewReader(""), out, io.Discard)
	require.Equal(t, exitOK, code)
	require.Contains(t, out.text.String(), "node dev")
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Empty(t, left)
}

// listening calls onWrite when something is written to it.
type listening struct {
	text    strings.Builder
	onWrite func()
}

func (l *listening) Write(p []byte) (int, error) {
	defer l.onWrite()
	return l.text.Write(p)
}
