package main

import (
	"slices"

	"github.com/cpnode/cpnode/internal/overlay"
)

// mutation is one wrong line of our own code, and the test that must notice it.
type mutation struct {
	name string
	// file is below the module's root; old occurs in it exactly once.
	file, old, new string
	// pkg and run are what go test is given to kill it.
	pkg, run string
}

func (m mutation) change() overlay.Change {
	return overlay.Change{File: m.file, Old: m.old, New: m.new}
}

var mutations = slices.Concat(nodeMutations, gateMutations)

// nodeMutations are those of a control-plane node; gateMutations of a broker's gate.
var nodeMutations = []mutation{
	{
		name: "refcount not decremented",
		file: "store/files.go", old: "if s.value.BatchCount--; s.value.BatchCount > 0 {", new: "if s.value.BatchCount > 0 {",
		pkg: "./store", run: "TestTrim|TestRandom",
	},
	{
		name: "file marked at the time of its commit",
		file: "store/files.go", old: "f.State, f.MarkedForDeletionAt = FileDeleting, nowMs", new: "f.State, f.MarkedForDeletionAt = FileDeleting, f.CommittedAt",
		pkg: "./ops", run: "TestPurgeDeletedLogs|TestGoldenTraces",
	},
	{
		name: "file handed out in the millisecond of its mark",
		file: "store/files.go", old: "decodeTime(k) < beforeMs", new: "decodeTime(k) <= beforeMs",
		pkg: "./ops", run: "TestDeleteFiles",
	},
	{
		name: "epoch reset dropped",
		file: "ops/commit_plan.go", old: "*s = store.Producer{Epoch: b.ProducerEpoch}", new: "s.Epoch = b.ProducerEpoch",
		pkg: "./ops", run: "TestCommitEpochs",
	},
	{
		name: "lower epoch accepted",
		file: "ops/commit_plan.go", old: "case pr.known && b.ProducerEpoch < s.Epoch:", new: "case pr.known && b.ProducerEpoch < s.Epoch-1:",
		pkg: "./ops", run: "TestCommitEpochs",
	},
	{
		name: "sequence wrap dropped",
		file: "ops/commit_plan.go", old: "if s == math.MaxInt32 {", new: "if s == math.MaxInt32-1 {",
		pkg: "./ops", run: "TestSequencesWrap",
	},
	{
		name: "duplicate found by its first sequence alone",
		file: "ops/commit_plan.go", old: "e.BaseSequence == b.BaseSequence && e.LastSequence == b.LastSequence", new: "e.BaseSequence == b.BaseSequence",
		pkg: "./ops", run: "TestDuplicateHasBothSequences",
	},
	{
		name: "coalescing without adjacency",
		file: "ops/commit_plan.go", old: " && b.ByteOffset-row.batch.ByteOffset == row.batch.ByteSize", new: "",
		pkg: "./ops", run: "TestCommitCoalesces$|TestGoldenTraces",
	},
	{
		name: "replay without looking at the content",
		file: "ops/commit_replay.go", old: " || p.Digest != digest {", new: " || len(digest) == 0 {",
		pkg: "./ops", run: "TestCommitReplays",
	},
	{
		name: "replay that never ends",
		file: "ops/commit_replay.go", old: "nowMs-f.CommittedAt > c.replayRetentionMs", new: "nowMs-f.CommittedAt < 0",
		pkg: "./ops", run: "TestCommitReplays",
	},
	{
		name: "fence ignored",
		file: "ops/commit_replay.go", old: "if fenced && nowMs < until {", new: "if fenced && nowMs > until {",
		pkg: "./ops", run: "TestIsSafeToDeleteFile|TestExpireFences",
	},
	{
		name: "fence shortened",
		file: "ops/is_safe_to_delete_file.go", old: "fenced && until >= deadline(nowMs, c.fenceMs)", new: "fenced && until == deadline(nowMs, c.fenceMs)",
		pkg: "./ops", run: "TestFencesAreNotShortened",
	},
	{
		name: "budget of a fetch crossed twice",
		file: "ops/find_batches.go", old: "(partitionLeft > 0 && f.bytesLeft > 0)", new: "(partitionLeft >= 0 && f.bytesLeft > 0)",
		pkg: "./ops", run: "TestFindBatchesBudgets",
	},
	{
		name: "fetch at the high watermark refused",
		file: "ops/find_batches.go", old: "r.StartingOffset > l.HighWatermark", new: "r.StartingOffset >= l.HighWatermark",
		pkg: "./ops", run: "TestFindBatchesOffsets",
	},
	{
		name: "soft-deleted logs visible",
		file: "store/logs.go", old: "if err != nil || !ok || l.Deleted {", new: "if err != nil || !ok {",
		pkg: "./ops", run: "TestDeleteTopics",
	},
	{
		name: "purge window one too wide",
		file: "ops/purge_deleted_logs.go", old: "return seen < s.command.left", new: "return seen <= s.command.left",
		pkg: "./ops", run: "TestPurgeWindowOfEmptyLogs",
	},
	{
		name: "purge cap one too high",
		file: "ops/purge_deleted_logs.go", old: "limit := min(p.rows, p.cmd.left-p.result.batches)", new: "limit := min(p.rows, p.cmd.left-p.result.batches+1)",
		pkg: "./ops", run: "TestPurgeDeletedLogs",
	},
	{
		name: "log start goes back",
		file: "ops/delete_records.go", old: "None, max(l.LogStartOffset, d.target)", new: "None, d.target",
		pkg: "./ops", run: "TestDeleteRecords",
	},
	{
		name: "remote log start not kept by prune",
		file: "ops/prune_diskless_logs.go", old: "if l.RemoteLogStartOffset == store.Absent {", new: "if l.RemoteLogStartOffset != store.Absent {",
		pkg: "./ops", run: "TestPruneDisklessLogs",
	},
	{
		name: "retention one millisecond too eager",
		file: "ops/enforce_retention.go", old: "timestamp < c.asOfMs-c.ms", new: "timestamp <= c.asOfMs-c.ms",
		pkg: "./ops", run: "TestEnforceRetention",
	},
	{
		name: "retention without a cut-off of its own",
		file: "ops/trim.go", old: "if !c.fixed {", new: "if !c.fixed || true {",
		pkg: "./ops", run: "TestRetentionKeepsItsCutOff",
	},
	{
		name: "a look at the state before each part of a drain",
		file: "ops/run.go", old: "ok && parts > 0", new: "ok && parts < 0",
		pkg: "./ops", run: "TestDrainLooksAtTheStateOnce",
	},
	{
		name: "drains give no way",
		file: "raftnode/pace.go", old: "if p.number == latest {", new: "if p.number == latest || true {",
		pkg: "./raftnode", run: "TestPacer",
	},
	{
		name: "clock without a floor",
		file: "ops/entry.go", old: "max(e.NowMs, tx.Meta().LastClockMs), tx.Changes()", new: "e.NowMs, tx.Changes()",
		pkg: "./ops", run: "TestClockNeverGoesBack",
	},
	{
		name: "clock moved by a refused command",
		file: "ops/entry.go", old: "if tx.Changes() != before {", new: "if tx.Changes() >= before {",
		pkg: "./ops", run: "TestCommitRaces",
	},
	{
		name: "checksum of an entry not compared",
		file: "ops/entry.go", old: "castagnoli) != binary.BigEndian.Uint32(data[1:]):", new: "castagnoli)^binary.BigEndian.Uint32(data[1:]) == 1:",
		pkg: "./ops", run: "TestDamagedEntriesAreRefused",
	},
	{
		name: "checksum of a row not compared",
		file: "store/rows.go", old: "if rowCRC(key, payload) != binary.BigEndian.Uint32(sum) {", new: "if rowCRC(key, payload)^binary.BigEndian.Uint32(sum) == 1 {",
		pkg: "./store", run: "TestRowsAreChecked",
	},
	{
		name: "digest of an old row not subtracted",
		file: "store/table.go", old: "tx.meta.Digest.sub(s.hash)", new: "tx.meta.Digest.sub(Digest{})",
		pkg: "./store", run: "TestFileLifeCycle",
	},
	{
		name: "largest timestamp of a group is its first",
		file: "store/times.go", old: "g.max = max(g.max, b.Timestamp())", new: "g.max = max(g.max, g.max)",
		pkg: "./store", run: "TestTimestampGroups",
	},
	{
		name: "index gate open",
		file: "fsm/fsm.go", old: "if entry.Index <= tx.Meta().AppliedIndex {", new: "if entry.Index < tx.Meta().AppliedIndex {",
		pkg: "./fsm", run: "TestEntriesAreAppliedOnceHoweverTheyAreCut",
	},
	{
		name: "older snapshot installed",
		file: "fsm/snapshot.go", old: "r.Info().Index <= f.Applied()", new: "r.Info().Index == 0",
		pkg: "./fsm", run: "TestInstallKeepsAStateThatIsNewer",
	},
	{
		name: "checksum of the raft log not compared",
		file: "raftnode/logstore.go", old: "if entryCRC(entry) != binary.BigEndian.Uint32(sum) {", new: "if entryCRC(entry)^binary.BigEndian.Uint32(sum) == 1 {",
		pkg: "./raftnode", run: "TestLogFindsDamage",
	},
	{
		name: "answer from reading not confirmed",
		file: "raftnode/propose.go", old: "if out.FromRead {", new: "if out.FromRead && err != nil {",
		pkg: "./raftnode", run: "TestAnswerFromReadingIsConfirmed",
	},
	{
		name: "later term taken for a confirmation",
		file: "raftnode/confirm.go", old: "if term > l.term {", new: "if term < l.term {",
		pkg: "./raftnode", run: "TestLaterTermEndsReads|TestOwnLaterTermEndsReads",
	},
	{
		name: "one proposal too many in flight",
		file: "raftnode/propose.go", old: "f.entries >= f.maxEntries", new: "f.entries > f.maxEntries",
		pkg: "./raftnode", run: "TestOverload",
	},
	{
		name: "newest record not pinned",
		file: "store/point.go", old: "s.pinned, p.tx = p.tx, nil", new: "s.pinned = nil",
		pkg: "./store", run: "TestPowerCuts$",
	},
	{
		name: "no sync point when a state is opened",
		file: "store/recover.go", old: "return p.Commit(nil)", new: "return nil",
		pkg: "./store", run: "TestOpenGoesByTheRecords",
	},
	{
		name: "record before the state is synced",
		file: "store/point.go", old: "if err := s.disk.syncDB(s.path, p.db); err != nil {", new: "if p.db == nil {\n\t\tvar err error",
		pkg: "./store", run: "TestPowerCuts$",
	},
	{
		name: "new state in place before its record",
		file: "store/recover.go", old: "if err := s.records.write(&rec); err != nil {\n\t\treturn rec, err\n\t}\n\tif err := s.disk.rename(beside, s.path); err != nil {",
		new: "if err := errors.Join(s.disk.rename(beside, s.path), s.records.write(&rec)); err != nil {",
		pkg: "./store", run: "TestCrashInAnInstall",
	},
	{
		name: "own record written over, not that of a state that is gone",
		file: "store/recover.go", old: "s.records.keep(rec)", new: "_ = rec",
		pkg: "./store", run: "TestRecordOfTheStateInPlaceStays",
	},
	{
		name: "log deleted beyond the newest record",
		file: "raftnode/logstore.go", old: "return s.deleteOldest(min(last, snapshot.Index))", new: "return s.deleteOldest(last)",
		pkg: "./raftnode", run: "TestLogDeletesFromBothEnds",
	},
	{
		name: "compaction beyond the newest record taken for a conflict",
		file: "raftnode/logstore.go", old: "if err != nil || last < newest {", new: "if err != nil || last < newest-newest {",
		pkg: "./raftnode", run: "TestLogIsNotCutBeyondTheState",
	},
	{
		name: "damage in the raft log before whole appends taken for its end",
		file: "raftnode/wal/scan.go", old: "case r.torn && followed(data[r.end:], next):", new: "case false:",
		pkg: "./raftnode/wal", run: "TestFlippedBytes",
	},
	{
		name: "segment that ends before what was durable",
		file: "raftnode/wal/scan.go", old: "case r.end < s.Durable:", new: "case false:",
		pkg: "./raftnode/wal", run: "TestFlippedBytes",
	},
	{
		name: "what is durable is not noted at the end",
		file: "raftnode/wal/log.go", old: "err = l.save(l.segments, l.nextID)", new: "err = nil",
		pkg: "./raftnode/wal", run: "TestFlippedBytes",
	},
	{
		name: "torn append left in its place",
		file: "raftnode/wal/log.go", old: "if found.torn && !l.options.ReadOnly {", new: "if false {",
		pkg: "./raftnode/wal", run: "TestTornAppendIsDropped",
	},
	{
		name: "full segment not followed by another",
		file: "raftnode/wal/write.go", old: "case full:", new: "case full && index == 0:",
		pkg: "./raftnode/wal", run: "TestFullSegmentIsFollowed",
	},
	{
		name: "entries that were deleted come back with the segment",
		file: "raftnode/wal/write.go", old: "head.Min = last + 1", new: "_ = last",
		pkg: "./raftnode/wal", run: "TestLogIsWhatWasDoneToIt",
	},
	{
		name: "position of a record goes back",
		file: "fsm/position.go", old: "if err != nil || at.Index <= before.Index {", new: "if err != nil || at.Index == 0 {",
		pkg: "./fsm", run: "TestRecordsNeverGoBack|TestConfiguration",
	},
	{
		name: "entry without space left out",
		file: "fsm/fsm.go", old: "if !store.NoSpace(err) {", new: "if store.NoSpace(err) {\n\t\t\treturn nil\n\t\t}\n\t\tif err == nil || err != nil {",
		pkg: "./fsm", run: "TestNoSpaceIsWaitedFor",
	},
	{
		name: "checkpoint without what is only staged",
		file: "store/tx.go", old: "	err := tx.flush()\n	return tx.meta.Digest, err", new: "	return tx.meta.Digest, nil",
		pkg: "./ops", run: "TestCheckpointDigest",
	},
	{
		name: "feature level lowered",
		file: "ops/raise_feature_level.go", old: "if c.level <= present {", new: "if c.level == present {",
		pkg: "./ops", run: "TestRaiseFeatureLevel",
	},
	{
		name: "feature level beyond the release applied",
		file: "ops/raise_feature_level.go", old: "	if err := Supported(c.level); err != nil {\n		return change", new: "	if err := Supported(0); err != nil {\n		return change",
		pkg: "./fsm", run: "TestWhatCannotBeAppliedStops",
	},
	{
		name: "upgrade without asking who is away",
		file: "raftnode/upgrade.go", old: "case !m.Reachable:", new: "case m.ID == \"\":",
		pkg: "./raftnode", run: "TestUpgrade",
	},
	{
		name: "upgrade past an older release",
		file: "raftnode/upgrade.go", old: "case m.FeatureLevel < level:", new: "case m.FeatureLevel == 0:",
		pkg: "./raftnode", run: "TestUpgrade",
	},
	{
		name: "stream taken without its hash",
		file: "store/stream_copy.go", old: "if !bytes.Equal(trailer[:], want) {", new: "if len(trailer) != len(want) {",
		pkg: "./store", run: "TestCopyStream",
	},
	{
		name: "restore into a directory that holds something",
		file: "raftnode/restore.go", old: "	if err := mustBeEmpty(dir); err != nil {", new: "	if err := mustBeEmpty(os.TempDir() + \"/none\"); err != nil && !errors.Is(err, os.ErrNotExist) {",
		pkg: "./raftnode", run: "TestRestoreRefuses",
	},
	{
		name: "log without its beginning replayed",
		file: "cmd/cpnode/replay_log.go", old: "case head.FirstIndex <= applied+1:", new: "case head.FirstIndex <= applied+1 || r.from == \"\":",
		pkg: "./cmd/cpnode", run: "TestDumpAndReplayOfALog",
	},
	{
		name: "write decided on a state that lacks answered entries",
		file: "raftnode/flush.go", old: "n.fsm.Wait(wait, n.fsm.Answered())", new: "n.fsm.Wait(wait, 0)",
		pkg: "./raftnode", run: "TestWhatWasAnsweredIsNotMissed",
	},
	{
		name: "held entries forgotten with their transaction",
		file: "fsm/fsm.go", old: "f.held.rollback()\n\tif store.NoSpace(err) {", new: "f.held.rollback()\n\tf.held.forget()\n\tif store.NoSpace(err) {",
		pkg: "./fsm", run: "TestHeldEntriesComeAgain",
	},
	{
		name: "a snapshot without the entries that found no space",
		file: "fsm/snapshot.go", old: "if err := f.flush(); err != nil {\n\t\treturn nil, err\n\t}\n\ts,", new: "if err := f.flush(); err != nil && !store.NoSpace(err) {\n\t\treturn nil, err\n\t}\n\ts,",
		pkg: "./fsm", run: "TestHeldEntriesComeAgain",
	},
	{
		name: "anyone behind an address answers for a node",
		file: "raftnode/node.go", old: "from.Want != \"\" && from.Want != self.serverID()", new: "from.Want != \"\" && nameOf(from.Want) != self.NodeID",
		pkg: "./raftnode", run: "TestJudge$",
	},
	{
		name: "an answer of another directory believed",
		file: "raftnode/network.go", old: "other.serverID() != mine.Want", new: "other.NodeID != nameOf(mine.Want)",
		pkg: "./raftnode", run: "TestJudgeAnswer",
	},
	{
		name: "votes by address",
		file: "raftnode/transport.go", old: "[]byte(string(id) + \"@\" + string(addr))", new: "[]byte(nameOf(id) + \"@\" + string(addr))",
		pkg: "./raftnode", run: "TestVotesAreForDirectories",
	},
	{
		name: "strangers among members",
		file: "raftnode/node.go", old: "return n.raft.State() == raft.Leader || n.hearsLeader()", new: "return n.raft.State() == raft.Leader",
		pkg: "./raftnode", run: "TestJudge$",
	},
	{
		name: "a running node replaced",
		file: "raftnode/membership.go", old: "n.answersAt(ctx, s.ID); err == nil {", new: "n.answersAt(ctx, s.ID); err == nil && addr == \"\" {",
		pkg: "./raftnode", run: "TestSecondNodeOfANameIsNotReadmitted",
	},
	{
		name: "a learner promoted before it has caught up",
		file: "raftnode/manage.go", old: ".caughtUp >= pollsToPromote", new: ".caughtUp >= 0",
		pkg: "./raftnode", run: "TestPromotionOnlyWhenCaughtUp",
	},
	{
		name: "a dead voter removed from three",
		file: "raftnode/manage.go", old: "len(all) <= minVoters", new: "len(all) < minVoters",
		pkg: "./raftnode", run: "TestDeadNodeCleanup",
	},
	{
		name: "a majority removed",
		file: "raftnode/manage.go", old: "return answer > rest/2", new: "return answer >= rest/2",
		pkg: "./raftnode", run: "TestRemovalThatWouldCostTheMajority",
	},
	{
		name: "a proof sent back as one's own",
		file: "raftnode/hello.go", old: "macAcceptor = \"cpnode acceptor\\n\"", new: "macAcceptor = macDialer",
		pkg: "./raftnode", run: "TestProofsAreOfNoUseElsewhere",
	},
	{
		name: "recovered under the old cluster's id",
		file: "raftnode/recover.go", old: "copy(next.Cluster[:], h[:])", new: "copy(next.Cluster[:0], h[:])",
		pkg: "./raftnode", run: "TestRecover$",
	},
	{
		name: "state ahead of its log recovered by the log",
		file: "raftnode/recover.go", old: "r.LastIndex, r.LastTerm, r.ahead = at.Index, at.Term, r.AppliedIndex > at.Index", new: "r.LastIndex, r.LastTerm = at.Index, at.Term",
		pkg: "./raftnode", run: "TestRecoverFromAStateAheadOfItsLog",
	},
	{
		name: "readiness by the node's own log",
		file: "raftnode/status.go", old: "max(n.raft.CommitIndex(), n.fresh.committed())", new: "n.raft.CommitIndex()",
		pkg: "./raftnode", run: "TestFollowerFarBehindIsNotReady",
	},
	{
		name: "snapshots for ever below a diverged tail",
		file: "raftnode/logstore.go", old: "if last > snapshot.Index {", new: "if last < snapshot.Index {",
		pkg: "./raftnode", run: "TestSnapshotBelowADivergedTail",
	},
	{
		name: "files are closed while raft runs",
		file: "raftnode/node.go", old: "		<-n.raftEnded            // what raft calls is closed below\n", new: "",
		pkg: "./raftnode", run: "TestCloseWaitsForRaft",
	},
	{
		name: "entries are applied behind ones that were refused",
		file: "raftnode/metrics_fsm.go", old: "		t.End(entries[0].Index, err)\n", new: "",
		pkg: "./raftnode", run: "TestNothingIsAppliedBehindAGap",
	},
	{
		name: "leader without its state founds a cluster",
		file: "raftnode/leader.go", old: "err = await(ctx, n.awaitState) // a barrier does not wait for it", new: "err = nil",
		pkg: "./raftnode", run: "TestLeaderWithoutItsStateFoundsNothing",
	},
	{
		name: "leader without its state knows of no other",
		file: "raftnode/leader.go", old: "		if n.missing.Load() != nil {", new: "		if false {",
		pkg: "./raftnode", run: "TestLeaderWithoutItsStateMakesWay",
	},
	{
		name: "each reader has a confirmation of its own",
		file: "raftnode/confirm.go", old: "	if c.next == nil {", new: "	if c.next == nil || true {",
		pkg: "./raftnode", run: "TestConfirmationIsShared",
	},
	{
		name: "two states are received into one file",
		file: "store/install.go", old: "if !s.receiving.CompareAndSwap(false, true) {", new: "if false {",
		pkg: "./store", run: "TestOneStateIsReceivedAtATime",
	},
	{
		name: "what is given up after it was installed is another's file",
		file: "store/install.go", old: "	r.left()\n	return nil\n", new: "	s.receiving.Store(false)\n	return nil\n",
		pkg: "./store", run: "TestOneStateIsReceivedAtATime",
	},
	{
		name: "present state passes for a snapshot that was given up",
		file: "raftnode/snapshots.go", old: "	if id == s.given {", new: "	if id == s.given+s.given {",
		pkg: "./raftnode", run: "TestStateIsFetchedBesideASnapshot",
	},
	{
		name: "fetch waits for a snapshot that waits for it",
		file: "raftnode/snapshots.go", old: "if r := s.received; r != nil {", new: "if r := s.received; r != nil && false {",
		pkg: "./raftnode", run: "TestStateIsFetchedBesideASnapshot",
	},
	{
		name: "fetched state is put in place after another one",
		file: "raftnode/refetch.go", old: "if n.missing.Load() != m {", new: "if false {",
		pkg: "./raftnode", run: "TestFetchedStateIsTooLate",
	},
	{
		name: "no vote for a voter that is not known as one",
		file: "raftnode/votes.go", old: "if len(from.ID) > 0 &&", new: "if len(from.ID) < 0 &&",
		pkg: "./raftnode", run: "TestVoterThatIsNotKnownAsOneIsElected",
	},
	{
		name: "heartbeat of an earlier term beside a vote",
		file: "raftnode/node.go", old: "return term > n.raft.CurrentTerm()", new: "return false",
		pkg: "./raftnode", run: "TestVoterTakesNothingFromAnEarlierTerm",
	},
	{
		name: "hung leader goes on sending heartbeats",
		file: "raftnode/watch.go", old: "		n.transport.layer.mute()\n", new: "",
		pkg: "./raftnode", run: "TestHungLeaderMakesWay",
	},
	{
		name: "mute leader keeps its connections",
		file: "raftnode/mute.go", old: "for c := range cut {", new: "for c := range map[*mutableConn]struct{}{} {\n\t\t_ = cut",
		pkg: "./raftnode", run: "TestHungLeaderMakesWay",
	},
	{
		name: "writes taken without space",
		file: "raftnode/propose.go", old: "if err := n.refusesSpace(op); err != nil && !later {", new: "if err := n.refusesSpace(op); err != nil && later {",
		pkg: "./raftnode", run: "TestWritesAreRefusedWithoutSpace",
	},
	{
		name: "deletes refused without space",
		file: "raftnode/disk.go", old: "if op.RunsWhenFull {", new: "if op.IsInternal() {",
		pkg: "./raftnode", run: "TestWritesAreRefusedWithoutSpace",
	},
	{
		name: "entry stamped by a clock that is off",
		file: "raftnode/propose.go", old: "if err := n.refusesClock(); err != nil {", new: "if err := n.refusesClock(); err != nil && later {",
		pkg: "./raftnode", run: "TestLeaderWhoseClockIsOff",
	},
	{
		name: "own clock not watched between two polls",
		file: "raftnode/clock.go", old: "p.offset-moved, passed", new: "p.offset, moved == moved && passed",
		pkg: "./raftnode", run: "TestLeaderWhoseClockIsOff",
	},
	{
		name: "half of the voters are a majority of digests",
		file: "raftnode/checkpoint.go", old: "if votes[digest] <= len(all)/2 {", new: "if votes[digest] < len(all)/2 {",
		pkg: "./raftnode", run: "TestJudgeDigests",
	},
	{
		name: "a minority decides about the majority",
		file: "raftnode/checkpoint.go", old: "return judgement{inMinority, digest}", new: "return judgement{sameAsMajority, digest}",
		pkg: "./raftnode", run: "TestJudgeDigests|TestMinorityStops",
	},
	{
		name: "damaged state forgotten at the next start",
		file: "raftnode/node.go", old: "{ id.Corrupt = err.Error() }", new: "{ _ = id }",
		pkg: "./raftnode", run: "TestMinorityStops",
	},
	{
		name: "entries applied while the state is missing",
		file: "raftnode/refetch.go", old: "	case <-m.there:\n		return nil\n", new: "	default:\n		return nil\n",
		pkg: "./raftnode", run: "TestDamagedStateIsFetched|TestNobodyToFetchFrom",
	},
	{
		name: "pipeline stops at a failed append",
		file: "raftnode/pipeline.go", old: "if ended {\n				continue", new: "if ended {\n				return",
		pkg: "./raftnode", run: "TestPipelineOutlivesAFailedAppend",
	},
	{
		name: "a batch of a partition log not checked",
		file: "switch/segmentlog/reader.go", old: "if crc != h.crc {", new: "if crc != h.crc && h.crc == 0 {",
		pkg: "./switch/segmentlog", run: "TestTornEndIsCut|TestDamageBelow",
	},
	{
		name: "a read answered from a deleted segment",
		file: "switch/segmentlog/read.go", old: "	if l.unchanged(p) {", new: "	if l.unchanged(p) || err == nil {",
		pkg: "./switch/segmentlog", run: "TestReadRacesDeletion",
	},
	{
		name: "files vanish before the local log start is on disk",
		file: "switch/segmentlog/delete.go", old: "	if err := l.save(); err != nil {\n		return err\n	}\n", new: "	defer l.save()\n",
		pkg: "./switch/segmentlog", run: "TestLocalLogStartAdvances",
	},
	{
		name: "flushed records cut as a torn end",
		file: "switch/segmentlog/open.go", old: "errors.Is(err, io.EOF), s.next < l.flushed", new: "errors.Is(err, io.EOF), s.next < s.base",
		pkg: "./switch/segmentlog", run: "TestDamageBelow",
	},
	{
		name: "a truncation leaves a promise of what it removes",
		file: "switch/segmentlog/truncate.go", old: "	l.flushed = min(l.flushed, p.end)\n", new: "",
		pkg: "./switch/segmentlog", run: "TestTruncationThatTheDiskRefuses",
	},
	{
		name: "half a write stays",
		file: "switch/segmentlog/append.go", old: "if undo := s.file.Truncate(s.size); undo != nil {", new: "if undo := error(nil); undo != nil {",
		pkg: "./switch/segmentlog", run: "TestHalfWritten",
	},
	{
		name: "a sealed log takes classic records",
		file: "switch/segmentlog/append.go", old: "	if l.sealed {", new: "	if l.sealed && l.closed {",
		pkg: "./switch/segmentlog", run: "TestSealRefuses",
	},
	{
		name: "remote records behind a gap are covered",
		file: "switch/remotestore/view.go", old: "		if s.Base > end {\n			break\n		}\n", new: "",
		pkg: "./switch/remotestore", run: "TestHighestOffset",
	},
	{
		name: "unclean election while only local disks have the prefix",
		file: "ops/elect_leader.go", old: "	if p.state().ClassicPrefixOnlyOnLocalDisks() {\n		return false\n	}\n	return p.state().Diskless()", new: "	return p.state().ClassicPrefixOnlyOnLocalDisks() || p.state().Diskless()",
		pkg: "./ops", run: "TestNoUncleanElectionWhilePrefixIsLocal",
	},
	{
		name: "unclean election allowed by the config while only local disks have the prefix",
		file: "ops/register_partitions.go", old: "if p.state().ClassicPrefixOnlyOnLocalDisks() {", new: "if p.state().ClassicPrefixWaitingForUpload() {",
		pkg: "./ops", run: "TestNoUncleanElectionWhilePrefixIsLocal",
	},
	{
		name: "flag with the last record of the prefix missing",
		file: "ops/commit_prefix_in_remote_storage.go", old: "r.HighestRemoteOffset >= seal-1 ||", new: "r.HighestRemoteOffset >= seal-2 ||",
		pkg: "./ops", run: "TestFlagNeedsCoverage",
	},
	{
		name: "flag leaves the ISR as it is",
		file: "ops/commit_prefix_in_remote_storage.go", old: "liveOf(tx, reg.Replicas)", new: "liveOf(tx, reg.ISR)",
		pkg: "./ops", run: "TestFlagTakesEveryLiveReplica",
	},
	{
		name: "flag under the leader epoch of before",
		file: "ops/commit_prefix_in_remote_storage.go", old: "return p.put(tx, reg, true)", new: "return p.put(tx, reg, false)",
		pkg: "./ops", run: "TestFlagTakesEveryLiveReplica",
	},
	{
		name: "change of a registration under the same partition epoch",
		file: "ops/partition.go", old: "r.PartitionEpoch++", new: "r.PartitionEpoch += 0",
		pkg: "./ops", run: "TestFlagTakesEveryLiveReplica",
	},
	{
		name: "seal by a leader of before",
		file: "ops/partition.go", old: "case epoch < p.reg.LeaderEpoch:", new: "case epoch < p.reg.LeaderEpoch-1:",
		pkg: "./ops", run: "TestCommitSealRefuses",
	},
	{
		name: "seal by a follower",
		file: "ops/partition.go", old: "case broker != p.reg.Leader || broker == noBroker:", new: "case broker == noBroker:",
		pkg: "./ops", run: "TestCommitSealRefuses",
	},
	{
		name: "seal without the diskless log",
		file: "ops/commit_seal.go", old: "return log.write(tx, nil, false, nowMs)", new: "_ = log\n	return nil",
		pkg: "./ops", run: "TestSealBeginsTheLog",
	},
	{
		name: "fence takes the last member out",
		file: "ops/broker_walk.go", old: "if err != nil || len(live) == 0 {", new: "if err != nil || len(live) < 0 {",
		pkg: "./ops", run: "TestFenceKeepsALoneLastMember",
	},
	{
		name: "unfenced broker joins ISRs that need its records",
		file: "ops/broker_walk.go", old: "case kind == store.WalkUnfence && diskless:", new: "case kind == store.WalkUnfence && (diskless || len(others) > 0):",
		pkg: "./ops", run: "TestFenceKeepsALoneLastMember",
	},
	{
		name: "broker without its disks stays the last member",
		file: "ops/broker_walk.go", old: "case kind == store.WalkWipe && !diskless:", new: "case kind == store.WalkWipe && !diskless && len(others) > 0:",
		pkg: "./ops", run: "TestUncleanShutdownLeavesISRs",
	},
	{
		name: "broker unfenced before it has left all ISRs",
		file: "ops/unfence_broker.go", old: "case b.Walk.Kind == store.WalkWipe:", new: "case b.Walk.Kind == store.WalkWipe && c.rows == 0:",
		pkg: "./ops", run: "TestUnfenceWaitsForTheWipe",
	},
}
