package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

// objectsWorld is a node, and a directory of objects that differs from its files in every
// way.
type objectsWorld struct {
	*child
	t   *testing.T
	dir string
}

func newObjectsWorld(t *testing.T) *objectsWorld {
	w := &objectsWorld{startDev(t, filepath.Join(t.TempDir(), "data")), t, t.TempDir()}
	_, err := w.client.CreateTopics(t.Context(), &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{{TopicID: demoOrders.id, TopicName: "orders", NumPartitions: 1}}})
	require.NoError(t, err)
	return w
}

// put makes an object that is so old.
func (w *objectsWorld) put(key string, bytes int, age time.Duration) {
	path := filepath.Join(w.dir, key)
	require.NoError(w.t, os.WriteFile(path, make([]byte, bytes), 0o600))
	require.NoError(w.t, os.Chtimes(path, time.Time{}, time.Now().Add(-age)))
}

func (w *objectsWorld) commit(key string) {
	batch := ops.CommitBatch{TopicID: demoOrders.id, Magic: 2, ByteSize: 512, BatchMaxTimestamp: time.Now().UnixMilli(), ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1}
	_, err := w.client.CommitFile(w.t.Context(), &ops.CommitFileRequest{ObjectKey: key, FileSize: 512, Batches: []ops.CommitBatch{batch}})
	require.NoError(w.t, err)
}

// check runs the verb with what a person types.
func (w *objectsWorld) check(typed string, args ...string) result {
	var stdout, stderr bytes.Buffer
	all := append([]string{"check", "--objects", "--endpoints", w.url, "--object.store.type=directory", "--object.store.directory=" + w.dir}, args...)
	return result{run(w.t.Context(), all, strings.NewReader(typed), &stdout, &stderr), stdout.String(), stderr.String()}
}

func (w *objectsWorld) keys() (keys []string) {
	entries, err := os.ReadDir(w.dir)
	require.NoError(w.t, err)
	for _, e := range entries {
		keys = append(keys, e.Name())
	}
	return keys
}

// An operator finds what is wrong, and deletes orphans when that was confirmed.
func TestCheckObjects(t *testing.T) {
	w := newObjectsWorld(t)
	r := w.check("", "--delete", "--yes")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "this cluster knows no file")
	r = w.check("")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stdout, "0 orphans")

	for _, key := range []string{"fine", "gone", "short"} {
		w.commit(key)
	}
	w.put("fine", 512, time.Hour)
	w.put("short", 511, 48*time.Hour)
	w.put("old-orphan", 10, 25*time.Hour)
	w.put("young-orphan", 20, time.Hour)
	r = w.check("", "-o", "json")
	require.Equal(t, exitFailed, r.code)
	var found objectsFound
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &found))
	require.False(t, found.Clean)
	kinds := map[string]string{}
	for _, f := range found.Findings {
		kinds[f.ObjectKey] = string(f.Kind)
	}
	require.Equal(t, map[string]string{"old-orphan": "orphan", "gone": "missing", "short": "size_differs"}, kinds)
	require.EqualValues(t, 2, found.Totals.YoungObjects)

	r = w.check("", "--limit", "1")
	require.Contains(t, r.stdout, "and 2 more: --limit 0 lists all")
	r = w.check("n\n", "--delete")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "Delete 1 objects (10 B) older than 24h0m0s")
	require.Equal(t, []string{"fine", "old-orphan", "short", "young-orphan"}, w.keys())
	r = w.check("y\n", "--delete")
	require.Equal(t, exitFailed, r.code, "others are still wrong")
	require.Regexp(t, `orphan +old-orphan +10 +- +\S+ +deleted`, r.stdout)
	require.Equal(t, []string{"fine", "short", "young-orphan"}, w.keys())

	w.put("gone", 512, 0)
	w.put("short", 512, 0)
	r = w.check("", "--delete", "--yes", "--older-than", "30m")
	require.Equal(t, exitOK, r.code, r.stdout)
	require.Equal(t, []string{"fine", "gone", "short"}, w.keys())

	// What was deleted was fenced: a late commit of it is refused.
	_, err := w.client.CommitFile(t.Context(), &ops.CommitFileRequest{ObjectKey: "old-orphan", FileSize: 10, Batches: []ops.CommitBatch{{
		TopicID: demoOrders.id, Magic: 2, ByteSize: 10, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1}}})
	require.ErrorIs(t, err, &ops.Error{Code: ops.ObjectKeyFenced})
}

func TestCheckObjectsSaysWhatItNeeds(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{nil, exitUsage, `object.store.type: "none" holds no objects`},
		{[]string{"--object.store.type=directory"}, exitUsage, "object.store.directory: must be given"},
		{[]string{"--object.store.type=directory", "--object.store.directory=" + filepath.Join(t.TempDir(), "none")}, exitFailed, "no such file or directory: mount the directory, or make it"},
		{[]string{"--object.store.type=directory", "--object.store.directory=" + t.TempDir(), "--endpoints", "http://127.0.0.1:1"}, exitFailed, "nothing listens at"},
		{[]string{"dir"}, exitUsage, "takes no dir"},
		{[]string{"--older-than=-1h"}, exitUsage, "--older-than"},
		{[]string{"--limit=-1"}, exitUsage, "--limit"},
	} {
		r := cpnode(t, append([]string{"check", "--objects"}, c.args...)...)
		require.Equal(t, c.code, r.code, "%v: %s", c.args, r.stderr)
		require.Contains(t, r.stderr, c.says)
	}
}
