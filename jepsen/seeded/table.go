package main

import (
	"github.com/cpnode/cpnode/internal/overlay"
	"github.com/cpnode/cpnode/jepsen/checker"
)

// operationsPerFault is a busy load: about a hundred operations a second.
const operationsPerFault = 250

// bug is a line of cpnode that is wrong, and what is said about it by what finds it.
type bug struct {
	name string
	// file is below the module's root; old occurs in it exactly once.
	file, old, new string
	// found by processes under so many faults, by the simulator within so many seeds, or
	// where both are 0 by the tour of membership
	faults, seeds int
	// everyone: also by clients with objects and brokers, not only those who share partitions
	everyone bool
	says     string
}

func (b bug) change() overlay.Change { return overlay.Change{File: b.file, Old: b.old, New: b.new} }

var bugs = []bug{
	{
		name: "linearizable read of a node that thinks it leads",
		file: "raftnode/view.go", old: "	r, err := n.confirmer.lead(ctx)\n", new: "	if n.leading() != nil {\n		return nil\n	}\n	r, err := n.confirmer.lead(ctx)\n",
		faults: 40, says: checker.CheckFresh,
	},
	{
		name: "linearizable read from any node's state",
		file: "raftnode/view.go", old: "if o.Level == Linearizable {", new: "if o.Level == Linearizable && ctx == nil {",
		faults: 6, says: checker.CheckLinearizable,
	},
	{
		name: "unknown outcome said to be refused",
		file: "raftnode/propose.go", old: `return unknown("%v", err)`, new: "return ErrNotLeader",
		faults: 40, says: checker.CheckRefused,
	},
	{
		name: "stale read that does not wait for min_index",
		file: "raftnode/view.go", old: "n.fsm.Wait(ctx, least)", new: "n.fsm.Wait(ctx, min(least, 1))",
		faults: 6, says: checker.CheckMinIndex,
	},
	{
		name: "producer's batch accepted twice",
		file: "ops/commit_plan.go",
		old: `		if e := remembered(s, b); e != nil {
			return outcomeDuplicate, e, nil
		}
		if s.Count > 0 && b.BaseSequence != nextSequence(s.Entries[s.Count-1].LastSequence) {`,
		new:    `		if s.Count > 0 && remembered(s, b) == nil && b.BaseSequence != nextSequence(s.Entries[s.Count-1].LastSequence) {`,
		faults: 20, says: checker.CheckRetries,
	},
	{
		name: "producer's batch forgotten",
		file: "ops/commit_plan.go", old: "if e := remembered(s, b); e != nil {", new: "if e := remembered(s, b); e != nil && e.BaseSequence < 0 {",
		faults: 20, says: checker.CheckAnswers,
	},
	{
		name: "delete-records answered and not done",
		file: "ops/delete_records.go", old: "d.log.LogStartOffset = max(d.log.LogStartOffset, start)", new: "d.log.LogStartOffset = max(d.log.LogStartOffset, min(start, first.BaseOffset))",
		faults: 6, says: checker.CheckLogStart,
	},
	{
		name: "delete-records takes the batch that straddles",
		file: "ops/delete_records.go", old: "return b.LastOffset < d.target }", new: "return b.BaseOffset < d.target }",
		faults: 6, says: checker.CheckHoles,
	},
	{
		name: "a file's references not counted down",
		file: "store/files.go", old: "if s.value.BatchCount--; s.value.BatchCount > 0 {", new: "if s.value.BatchCount > 0 {",
		faults: 6, says: checker.CheckFiles,
	},
	{
		name: "a file goes with its first batch",
		file: "store/files.go", old: "if s.value.BatchCount--; s.value.BatchCount > 0 {", new: "if s.value.BatchCount--; s.value.BatchCount != 1 {",
		faults: 15, everyone: true, says: "file of a batch is missing",
	},
	{
		name: "another leader in the same epoch, seen by brokers",
		file: "ops/partition.go", old: "if newEpoch || r.Leader != p.reg.Leader {", new: "if newEpoch {",
		faults: 8, everyone: true, says: checker.CheckLeaders,
	},
	{
		name: "flag before the prefix is in remote storage",
		file: "ops/commit_prefix_in_remote_storage.go", old: "return r.HighestRemoteOffset >= seal-1 ||", new: "return r.HighestRemoteOffset >= 0 ||",
		faults: 15, everyone: true, says: checker.CheckEarlyFlag,
	},
	{
		name: "a wiped node takes itself for the one that it was",
		file: "raftnode/identity.go", old: "if _, err := io.ReadFull(rand.Reader, id.Instance[:]); err != nil {",
		new:  `if _, err := io.ReadFull(io.MultiReader(strings.NewReader(strings.Repeat(nodeID, len(id.Instance))), rand.Reader), id.Instance[:]); err != nil {`,
		says: "without a majority",
	},
	{
		name: "a wiped node is taken back as a voter",
		file: "raftnode/membership.go", old: `return addLearner(p.serverID(), raft.ServerAddress(addr), "joins")`, new: `return addVoter(p.serverID(), raft.ServerAddress(addr), "joins")`,
		says: "votes without having been a learner",
	},
	{
		name: "a removed node is not told",
		file: "raftnode/report.go", old: "	return standsRemoved\n", new: "	return standsUnknown\n",
		says: `to say "was removed from the cluster"`,
	},
	{
		name: "an address that changed is not written down",
		file: "raftnode/manage.go", old: "n.replaced, n.moved, n.promotable", new: "n.replaced, n.promotable",
		says: "each at its address",
	},
	{
		name: "a recovered cluster keeps its id",
		file: "raftnode/recover.go", old: "copy(next.Cluster[:], h[:])", new: "_ = h",
		says: `to say "belongs to cluster"`,
	},
	{
		name: "entries applied by the local clock",
		file: "fsm/fsm.go", old: "		return ops.Apply(tx, e)\n",
		new: `		now, end := context.WithTimeout(context.Background(), 0)
		defer end()
		at, _ := now.Deadline()
		e.NowMs = at.UnixMilli()
		return ops.Apply(tx, e)
`,
		seeds: 10, says: "has the same digest",
	},
	{
		name: "a record before its state is synced",
		file: "store/point.go",
		old: `	if err := s.disk.syncDB(s.path, p.db); err != nil {
		return s.failSync(err)
	}
	if err := s.records.write(&rec)`,
		new:   `	if err := s.records.write(&rec)`,
		seeds: 40, says: "the cluster is not whole again",
	},
	{
		name: "pages of the newest record written over",
		file: "store/point.go", old: "s.pinned, p.tx = p.tx, nil", new: "s.pinned = nil",
		seeds: 40, says: "damaged",
	},
	{
		name: "fenced object committed",
		file: "ops/commit_replay.go", old: "if fenced && nowMs < until {", new: "if fenced && nowMs > until {",
		seeds: 5, says: "was safe to delete, and committed afterwards",
	},
	{
		name: "entries of a restart applied twice",
		file: "fsm/fsm.go", old: "if entry.Index <= tx.Meta().AppliedIndex {", new: "if entry.Index == 0 {",
		seeds: 20, says: "has stopped by itself",
	},
	{
		name: "another leader in the same epoch",
		file: "ops/partition.go", old: "if newEpoch || r.Leader != p.reg.Leader {", new: "if newEpoch {",
		seeds: 5, says: "lead in epoch",
	},
	{
		name: "linearizable read from any node's state, simulated",
		file: "raftnode/view.go", old: "if o.Level == Linearizable {", new: "if o.Level == Linearizable && ctx == nil {",
		seeds: 3, says: "the log ends at",
	},
	{
		name: "unknown outcome said to be refused, simulated",
		file: "raftnode/propose.go", old: `return unknown("%v", err)`, new: "return ErrNotLeader",
		seeds: 10, says: checker.CheckRefused,
	},
	{
		name: "stale read that does not wait for min_index, simulated",
		file: "raftnode/view.go", old: "n.fsm.Wait(ctx, least)", new: "n.fsm.Wait(ctx, min(least, 1))",
		seeds: 3, says: checker.CheckMinIndex,
	},
	{
		name: "a file's references not counted down, simulated",
		file: "store/files.go", old: "if s.value.BatchCount--; s.value.BatchCount > 0 {", new: "if s.value.BatchCount > 0 {",
		seeds: 3, says: "batch_count",
	},
}
