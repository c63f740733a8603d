package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// What a deleted topic held is purged, its object deleted and its file forgotten, with
// nobody asking for it; a batch that is too old goes as well.
func TestWorkersRunByThemselves(t *testing.T) {
	objects := t.TempDir()
	object := filepath.Join(objects, "in", "wal-1")
	require.NoError(t, os.Mkdir(filepath.Dir(object), 0o700))
	require.NoError(t, os.WriteFile(object, make([]byte, 1024), 0o600))
	n := startDev(t, filepath.Join(t.TempDir(), "data"),
		"--topic.purger.interval.ms=50", "--file.cleaner.interval.ms=50", "--file.cleaner.retention.period.ms=0",
		"--retention.enforcement.interval.ms=50", "--object.store.type=directory", "--object.store.directory="+objects, "--object.store.prefix=in/")
	ctx := t.Context()
	_, err := n.client.CreateTopics(ctx, &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{
		{TopicID: demoOrders.id, TopicName: "orders", NumPartitions: 1, Config: map[string]string{"retention.ms": "604800000"}},
		{TopicID: demoAudit.id, TopicName: "audit", NumPartitions: 1},
	}})
	require.NoError(t, err)
	batch := func(topic loadTopic, at time.Time) ops.CommitBatch {
		return ops.CommitBatch{TopicID: topic.id, Magic: 2, ByteSize: 512, LastOffset: 9, BatchMaxTimestamp: at.UnixMilli(), ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1}
	}
	old, fresh := batch(demoOrders, time.Now().AddDate(0, 0, -8)), batch(demoAudit, time.Now())
	fresh.ByteOffset = 512
	_, err = n.client.CommitFile(ctx, &ops.CommitFileRequest{ObjectKey: "wal-1", FileSize: 1024, Batches: []ops.CommitBatch{old, fresh}})
	require.NoError(t, err)
	_, err = n.client.DeleteTopics(ctx, &ops.DeleteTopicsRequest{TopicIDs: []store.TopicID{demoAudit.id}})
	require.NoError(t, err)
	require.NoError(t, eventually(ctx, "the object to be deleted and the file forgotten", func() (bool, error) {
		files, err := n.client.ListFiles(ctx, &ops.ListFilesRequest{Limit: 10})
		if err != nil || len(files.Files) > 0 {
			return false, err
		}
		_, err = os.Stat(object)
		require.ErrorIs(t, err, os.ErrNotExist)
		return true, nil
	}))
	r, err := http.Get(n.url + "/metrics")
	require.NoError(t, err)
	defer r.Body.Close()
	metrics, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	for _, line := range []string{
		"cpnode_topic_purger_logs_total 1", "cpnode_file_cleaner_objects_deleted_total 1", "cpnode_retention_enforcer_deleted_batches_total 1",
		`cpnode_expirer_errors_total{kind="fences"} 0`,
	} {
		require.Contains(t, string(metrics), line+"\n")
	}
}

// What brokers report of tiered storage is pruned, when an operator asks for it.
func TestWorkersRunOnRequest(t *testing.T) {
	n := startDev(t, filepath.Join(t.TempDir(), "data"), "--consolidation.cleanup.interval.ms=86400000")
	ctx := t.Context()
	_, err := n.client.CreateTopics(ctx, &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{{TopicID: demoOrders.id, TopicName: "orders", NumPartitions: 1}}})
	require.NoError(t, err)
	batch := ops.CommitBatch{TopicID: demoOrders.id, Magic: 2, ByteSize: 512, LastOffset: 9, BatchMaxTimestamp: time.Now().UnixMilli(), ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1}
	_, err = n.client.CommitFile(ctx, &ops.CommitFileRequest{ObjectKey: "wal-1", FileSize: 512, Batches: []ops.CommitBatch{batch}})
	require.NoError(t, err)
	prune := func() map[string]int64 {
		ran, err := n.client.RunWorker(ctx, &api.RunWorkerRequest{Worker: "consolidation-pruner"})
		require.NoError(t, err)
		totals := map[string]int64{}
		for _, total := range ran.Totals {
			totals[total.Name] = total.Value
		}
		return totals
	}
	require.Zero(t, prune()["partitions"], "nothing was reported yet")
	reported, err := n.client.ReportRemoteOffsets(ctx, &api.ReportRemoteOffsetsRequest{Offsets: []ops.PruneLog{{TopicID: demoOrders.id, HighestRemoteOffset: 9}}})
	require.NoError(t, err)
	require.True(t, reported.Complete)
	require.Equal(t, map[string]int64{"partitions": 1, "batches_deleted": 1, "bytes_deleted": 512, "more_remain": 0}, prune())

	for _, name := range []string{"topic-purger", "retention-enforcer", "producer-expirer", "fence-expirer", "replay-expirer"} {
		_, err := n.client.RunWorker(ctx, &api.RunWorkerRequest{Worker: name})
		require.NoError(t, err, name)
	}
	_, err = n.client.RunWorker(ctx, &api.RunWorkerRequest{Worker: "file-cleaner"})
	require.ErrorContains(t, err, `"file-cleaner" is none of consolidation-pruner`, "there is no object store")
}
