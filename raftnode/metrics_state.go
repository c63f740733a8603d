package raftnode

import (
	"os"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// stateCollector reads the totals of the state, which cost one row, and the sizes
// of the files each time it is asked.
type stateCollector struct{ node *Node }

var (
	descTopics    = stateDesc("cpnode_topics", "Live topics.")
	descLogs      = stateDesc("cpnode_logs", "Logs (partitions), by state.", "state")
	descBatches   = stateDesc("cpnode_batches", "Retained batches.")
	descFiles     = stateDesc("cpnode_files", "Files, by state.", "state")
	descReplays   = stateDesc("cpnode_commit_replays", "Commits that can be answered again.")
	descProducers = stateDesc("cpnode_producer_states", "States of idempotent producers.")
	descFences    = stateDesc("cpnode_object_fences", "Fenced object keys.")
	descBrokers   = stateDesc("cpnode_brokers", "Brokers that have registered.")
	descSwitch    = stateDesc("cpnode_switch_partitions", "Registered partitions, by where their classic records are: the state that describe-partitions names.", "state")
	descNoLeader  = stateDesc("cpnode_switch_partitions_without_leader", "Registered partitions that have no leader.")
	descFileBytes = stateDesc("cpnode_store_file_bytes", "Size of what the node keeps, by file: state; raft_log, which holds the votes, and the entries with raft.log.store boltdb; raft_wal, the segments of the entries.", "file")
	descFreeBytes = stateDesc("cpnode_store_free_bytes", "Of a file what its free pages hold for later transactions, by file.", "file")
)

func stateDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (stateCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descTopics, descLogs, descBatches, descFiles, descReplays, descProducers, descFences, descBrokers, descSwitch, descNoLeader, descFileBytes, descFreeBytes} {
		to <- d
	}
}

// Collect implements prometheus.Collector. What cannot be read is left out.
func (c stateCollector) Collect(to chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, v int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(v), labels...)
	}
	var t store.Totals
	if err := c.node.store.View(func(tx *store.ReadTx) error { t = tx.Meta().Totals; return nil }); err == nil {
		gauge(descTopics, t.Topics)
		gauge(descLogs, t.LiveLogs, "live")
		gauge(descLogs, t.DeletedLogs, "deleted")
		gauge(descBatches, t.Batches)
		gauge(descFiles, t.FilesUploaded, "uploaded")
		gauge(descFiles, t.FilesDeleting, "deleting")
		gauge(descReplays, t.Replays)
		gauge(descProducers, t.ProducerStates)
		gauge(descFences, t.Fences)
		gauge(descBrokers, t.Brokers)
		gauge(descNoLeader, t.Leaderless)
		for stage, partitions := range t.ByStage {
			gauge(descSwitch, partitions, string(ops.PartitionStates[stage]))
		}
	}
	if s, err := c.node.store.Stats(); err == nil {
		gauge(descFileBytes, s.FileBytes, "state")
		gauge(descFreeBytes, s.FreePages*s.PageBytes, "state")
	}
	if info, err := os.Stat(c.node.log.path); err == nil { // none on a LogDisk
		b := c.node.log.bolt.Stats()
		gauge(descFileBytes, info.Size(), "raft_log")
		gauge(descFreeBytes, int64((b.FreePageN+b.PendingPageN)*os.Getpagesize()), "raft_log")
	}
	if c.node.log.kind == LogStoreWAL {
		if size, err := filesBytes(walDir(c.node.log.path)); err == nil {
			gauge(descFileBytes, size, "raft_wal")
		}
	}
}

// filesBytes is the size of the files in a directory, of which some may go meanwhile.
func filesBytes(dir string) (total int64, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			total += info.Size()
		}
	}
	return total, err
}
