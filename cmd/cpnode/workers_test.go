package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
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

// A node starts while its object store is away, says so, and cleans once it is there.
func TestObjectStoreComesLate(t *testing.T) {
	objects := filepath.Join(t.TempDir(), "not-mounted")
	n := startDev(t, filepath.Join(t.TempDir(), "data"), "--topic.purger.interval.ms=50", "--file.cleaner.interval.ms=50",
		"--file.cleaner.retention.period.ms=0", "--object.store.type=directory", "--object.store.directory="+objects)
	ctx := t.Context()
	_, err := n.client.CreateTopics(ctx, &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{{TopicID: demoAudit.id, TopicName: "audit", NumPartitions: 1}}})
	require.NoError(t, err)
	batch := ops.CommitBatch{TopicID: demoAudit.id, Magic: 2, ByteSize: 512, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1}
	_, err = n.client.CommitFile(ctx, &ops.CommitFileRequest{ObjectKey: "wal-1", FileSize: 512, Batches: []ops.CommitBatch{batch}})
	require.NoError(t, err)
	_, err = n.client.DeleteTopics(ctx, &ops.DeleteTopicsRequest{TopicIDs: []store.TopicID{demoAudit.id}})
	require.NoError(t, err)
	require.NoError(t, eventually(ctx, "the cleaner to back off", func() (bool, error) {
		return metricValue(t, n, "cpnode_file_cleaner_backoff_seconds") > 0 && metricValue(t, n, "cpnode_file_cleaner_objects_failed_total") > 0, nil
	}))
	r := cpnode(t, "worker", "run", "file-cleaner", "--endpoints", n.url)
	require.Equal(t, exitFailed, r.code)
	require.Regexp(t, `objects_failed +1\n`, r.stdout)
	require.Contains(t, r.stderr, "no such file or directory")

	require.NoError(t, os.Mkdir(objects, 0o700))
	require.NoError(t, eventually(ctx, "the file to be forgotten", func() (bool, error) {
		files, err := n.client.ListFiles(ctx, &ops.ListFilesRequest{Limit: 10})
		return err == nil && len(files.Files) == 0, err
	}))
	require.NoError(t, eventually(ctx, "the cleaner to work again", func() (bool, error) {
		return metricValue(t, n, "cpnode_file_cleaner_backoff_seconds") == 0, nil
	}))
}

// metricValue is the value of a metric without labels.
func metricValue(t *testing.T, n *child, name string) (value float64) {
	t.Helper()
	r, err := http.Get(n.url + "/metrics")
	require.NoError(t, err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	_, after, found := strings.Cut(string(text), "\n"+name+" ")
	require.True(t, found, name)
	_, err = fmt.Sscan(after, &value)
	require.NoError(t, err)
	return value
}

// What brokers report of tiered storage's first offsets is written down soon after.
func TestLogStartsAreReported(t *testing.T) {
	n := startDev(t, filepath.Join(t.TempDir(), "data"), "--cross.tier.log.start.report.interval.ms=20")
	ctx := t.Context()
	_, err := n.client.CreateTopics(ctx, &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{{TopicID: demoOrders.id, TopicName: "orders", NumPartitions: 1}}})
	require.NoError(t, err)
	log := ops.LogRef{TopicID: demoOrders.id}
	reported, err := n.client.ReportRemoteOffsets(ctx, &api.ReportRemoteOffsetsRequest{LogStarts: []ops.AdvanceLogStart{{TopicID: log.TopicID, RemoteLogStartOffset: 7}}})
	require.NoError(t, err)
	require.True(t, reported.Complete)
	require.NoError(t, eventually(ctx, "the log start to be written down", func() (bool, error) {
		answer, err := n.client.GetCrossTierLogStart(ctx, &ops.GetCrossTierLogStartRequest{Requests: []ops.LogRef{log}})
		return err == nil && answer.Responses[0].RemoteLogStartOffset == 7, err
	}))
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

	for _, name := range []string{"topic-purger", "retention-enforcer", "cross-tier-reporter", "producer-expirer", "fence-expirer", "replay-expirer"} {
		require.Contains(t, mustRun(t, "worker", "run", name, "--endpoints", n.url), "TOTAL")
	}
	_, err = n.client.RunWorker(ctx, &api.RunWorkerRequest{Worker: "file-cleaner"})
	require.ErrorContains(t, err, "file-cleaner has no object store; give object.store.type")
}

// Workers ask for no more at a time than the limits that the node holds requests to.
func TestWorkersKeepSmallLimits(t *testing.T) {
	objects := t.TempDir()
	n := startDev(t, filepath.Join(t.TempDir(), "data"), "--request.max.items=2", "--list.max.rows=1", "--answer.max.rows=4",
		"--topic.purger.interval.ms=50", "--file.cleaner.interval.ms=50", "--file.cleaner.retention.period.ms=0", "--retention.enforcement.interval.ms=50",
		"--cross.tier.log.start.report.interval.ms=20", "--object.store.type=directory", "--object.store.directory="+objects)
	ctx, topics := t.Context(), []loadTopic{demoOrders, demoAudit}
	for _, topic := range topics {
		_, err := n.client.CreateTopics(ctx, &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{{TopicID: topic.id, TopicName: topic.name, NumPartitions: 3,
			Config: map[string]string{"retention.ms": "604800000"}}}})
		require.NoError(t, err)
		for p := range int32(3) {
			batch := ops.CommitBatch{TopicID: topic.id, Partition: p, Magic: 2, ByteSize: 512, BatchMaxTimestamp: time.Now().AddDate(0, 0, -8).UnixMilli(),
				ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1}
			_, err := n.client.CommitFile(ctx, &ops.CommitFileRequest{ObjectKey: fmt.Sprintf("%s-%d", topic.name, p), FileSize: 512, Batches: []ops.CommitBatch{batch}})
			require.NoError(t, err)
		}
	}
	for p := range int32(3) {
		_, err := n.client.ReportRemoteOffsets(ctx, &api.ReportRemoteOffsetsRequest{LogStarts: []ops.AdvanceLogStart{{TopicID: demoOrders.id, Partition: p, RemoteLogStartOffset: 7}}})
		require.NoError(t, err)
	}
	require.NoError(t, eventually(ctx, "all batches to go, and their files", func() (bool, error) {
		files, err := n.client.ListFiles(ctx, &ops.ListFilesRequest{Limit: 1})
		return err == nil && len(files.Files) == 0, err
	}))
	require.NoError(t, eventually(ctx, "all log starts to be written down", func() (bool, error) {
		for p := range int32(3) {
			answer, err := n.client.GetCrossTierLogStart(ctx, &ops.GetCrossTierLogStartRequest{Requests: []ops.LogRef{{TopicID: demoOrders.id, Partition: p}}})
			if err != nil || answer.Responses[0].RemoteLogStartOffset != 7 {
				return false, err
			}
		}
		return true, nil
	}))
	require.Contains(t, mustRun(t, "topic", "list", "--endpoints", n.url), "audit")
}
