package ops_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

func TestRegisterBroker(t *testing.T) {
	answer := func(s step, want string, entries int) step { return s.wants(want).logs(entries) }
	n := play(t, ops.DefaultSettings(),
		answer(registers(1, "x", true), `{"error": "NONE", "broker_epoch": 1}`, 1),
		answer(registers(1, "x", true), `{"error": "NONE", "broker_epoch": 1}`, 0),
		answer(registers(1, "y", true), `{"error": "NONE", "broker_epoch": 2}`, 1), // no session yet
		heartbeats(1, 1).wants(`{"error": "STALE_BROKER_EPOCH", "fenced": true, "session_ms": -1}`).logs(0),
		heartbeats(1, -1).wants(`{"error": "STALE_BROKER_EPOCH", "fenced": true, "session_ms": -1}`).logs(0),
		heartbeats(2, 1).wants(`{"error": "BROKER_ID_NOT_REGISTERED", "fenced": true, "session_ms": -1}`).logs(0),
		heartbeats(-1, 1).wants(`{"error": "BROKER_ID_NOT_REGISTERED", "fenced": true, "session_ms": -1}`).logs(0),
		heartbeats(1, 2),
		heartbeats(1, 2).logs(0),
		answer(registers(1, "z", true), `{"error": "DUPLICATE_BROKER_REGISTRATION", "broker_epoch": -1}`, 0),
		answer(registers(1, "y", false), `{"error": "NONE", "broker_epoch": 2}`, 0),
		fences(1), fences(1).logs(0), fences(7).refused(ops.BrokerIDNotRegistered), fences(-1).refused(ops.BrokerIDNotRegistered),
		answer(registers(1, "z", true), `{"error": "NONE", "broker_epoch": 3}`, 1),
		unfences(1), unfences(1).logs(0), unfences(7).refused(ops.BrokerIDNotRegistered),
	)
	require.Equal(t, store.Broker{Epoch: 3, IncarnationID: "z", Endpoints: []string{"b1:9092"}}, n.broker(1))
}

// Fencing takes a broker out of every ISR that keeps a live member; a lone last member
// stays, without a leader, and leads again when it is back.
func TestFenceKeepsALoneLastMember(t *testing.T) {
	n := play(t, ops.DefaultSettings(), append(liveBrokers(3), partitions(1, "1, 2", ""), fences(1))...)
	n.is(0, ops.StateClassic, 2, 1, 1, 2)
	n.later(fences(2))
	n.is(0, ops.StateClassic, -1, 2, 2, 2)
	n.later(unfences(1)) // which is not in the ISR: classic partitions stay as they are
	n.is(0, ops.StateClassic, -1, 2, 2, 2)
	n.later(unfences(2))
	n.is(0, ops.StateClassic, 2, 3, 3, 2)
}

// Re-election goes by the order of the replicas, over the members that live.
func TestFenceElectsInReplicaOrder(t *testing.T) {
	n := play(t, ops.DefaultSettings(), append(liveBrokers(4), partitions(1, "2, 4, 1, 3", ""), fences(4))...)
	n.is(0, ops.StateClassic, 2, 0, 1, 2, 1, 3)
	n.later(fences(2))
	n.is(0, ops.StateClassic, 1, 1, 2, 1, 3)
}

// Unfencing puts a broker back into the ISRs of diskless partitions alone.
func TestUnfenceJoinsDisklessISRs(t *testing.T) {
	n := play(t, ops.DefaultSettings(), append(liveBrokers(2), partitions(1, "1, 2", "", `"diskless": true`), fences(2), fences(1))...)
	n.is(0, ops.StateBornDiskless, -1, 1, 2, 1)
	n.later(unfences(2))
	n.is(0, ops.StateBornDiskless, 2, 2, 3, 1, 2)
	n.later(unfences(1))
	n.is(0, ops.StateBornDiskless, 2, 2, 3, 1, 2)
}

// A broker whose disks may be gone leaves the ISRs of partitions that need them, as
// the last member too.
func TestUncleanShutdownLeavesISRs(t *testing.T) {
	steps := append(liveBrokers(2), partitions(1, "1, 2", ""))
	steps = append(steps, step{"register-partitions", `{"topic_id": "@b", "topic_name": "b", "diskless": true, "partitions": [{"partition": 0, "replicas": [1]}]}`, "", 1})
	n := play(t, ops.DefaultSettings(), append(steps, fences(2), fences(1))...)
	n.is(0, ops.StateClassic, -1, 1, 2, 1)
	n.later(registers(1, "again", true), heartbeats(1, 3))
	n.is(0, ops.StateClassic, 1, 2, 3, 1)
	n.later(fences(1), registers(1, "anew", false), heartbeats(1, 4))
	n.is(0, ops.StateClassic, -1, 3, 5)
	d, err := n.run(&ops.DescribePartitionsRequest{Requests: []ops.LogRef{{TopicID: idOf("@b")}}}, startMs)
	require.NoError(t, err)
	require.Equal(t, []int32{1}, d.(*ops.DescribePartitionsResponse).Responses[0].ISR, "a diskless one stays")
}

// The walk over the partitions of a broker is many entries with a durable cursor. Who
// finds one goes on with it: nothing is left out, and nothing is done twice.
func TestBrokerWalkIsResumed(t *testing.T) {
	const count = 50
	for _, cut := range []int{0, 1, 4} {
		n := newNode(t, rows(7))
		n.play(startMs, append(liveBrokers(2), partitions(count, "1, 2", ""))...)
		before := len(n.log)
		n.interrupted(&ops.FenceBrokerRequest{BrokerID: 1}, 1+cut)
		require.Equal(t, 1+cut, len(n.log)-before)
		require.Equal(t, store.WalkFence, n.broker(1).Walk.Kind)
		n.is(0, ops.StateClassic, 2, 1, 1, 2)
		n.is(count-1, ops.StateClassic, 1, 0, 0, 1, 2)
		require.Equal(t, []int32{1}, n.unfinished())

		_, err := n.run(&ops.AdvanceBroker{BrokerID: 1}, 5000)
		require.NoError(t, err)
		require.Equal(t, before+(count+6)/7, len(n.log))
		for p := range count {
			n.is(p, ops.StateClassic, 2, 1, 1, 2)
		}
		require.Empty(t, n.unfinished())
		_, err = n.run(&ops.AdvanceBroker{BrokerID: 1}, 5000)
		require.NoError(t, err)
		require.True(t, n.fromRead)
	}
}

// unfinished is the brokers whose walks have not ended.
func (n *node) unfinished() (ids []int32) {
	require.NoError(n.t, n.store.View(func(tx *store.ReadTx) (err error) {
		ids, err = ops.UnfinishedWalks(tx)
		return err
	}))
	return ids
}

// interrupted carries a write out until it has logged a number of entries, as a leader
// that is lost then.
func (n *node) interrupted(w ops.Write, entries int) {
	_, err := ops.Run(w, n.settings, n.store.View, func() int64 { return 4000 }, func(cmd ops.Command) (any, error) {
		if entries--; entries < 0 {
			return nil, &ops.Error{Code: ops.NoLeader}
		}
		return n.propose(cmd, 4000)
	})
	require.Error(n.t, err)
}

// Unfencing gives up what is left of a fence, but not of taking a broker without its
// disks out of ISRs: it could be elected in one that has not been reached.
func TestUnfenceWaitsForTheWipe(t *testing.T) {
	n := newNode(t, rows(2))
	n.play(startMs, append(liveBrokers(2), partitions(9, "1, 2", ""))...)
	n.interrupted(&ops.FenceBrokerRequest{BrokerID: 1}, 1)
	n.later(unfences(1).logs(5))
	n.is(0, ops.StateClassic, 2, 1, 1, 2)
	n.is(8, ops.StateClassic, 1, 0, 0, 1, 2)

	n.later(fences(1).logs(5))
	n.interrupted(&ops.RegisterBrokerRequest{BrokerID: 1, IncarnationID: "anew"}, 1)
	require.Equal(t, store.WalkWipe, n.broker(1).Walk.Kind)
	n.later(fences(2).logs(5), heartbeats(1, 3).logs(4+5)) // the rest of the wipe, then the way back
	for p := range 9 {
		d := n.stands(p)
		require.Equal(t, []any{int32(-1), []int32{2}}, []any{d.Leader, d.ISR}, "only the fenced broker has the records")
	}
}

// What a session's end asks for is nothing for the broker that has registered since.
func TestSilentBrokerIsFencedUnderItsEpoch(t *testing.T) {
	n := play(t, ops.DefaultSettings(), append(liveBrokers(1), fences(1), registers(1, "anew", true), heartbeats(1, 2))...)
	answer, err := n.run(&ops.FenceSilentBroker{BrokerID: 1, BrokerEpoch: 1}, 5000)
	require.NoError(t, err)
	require.Equal(t, &ops.FenceBrokerResponse{Error: ops.StaleBrokerEpoch}, answer)
	require.False(t, n.broker(1).Fenced)
	_, err = n.run(&ops.FenceSilentBroker{BrokerID: 1, BrokerEpoch: 2}, 5000)
	require.NoError(t, err)
	require.True(t, n.broker(1).Fenced)
}

// A command that lost the race for the log to another one like it does nothing, and
// one that meets a wipe is tried again.
func TestBrokerCommandsRace(t *testing.T) {
	n := newNode(t, rows(2))
	n.play(startMs, append(liveBrokers(2), partitions(9, "1, 2", ""), fences(1).logs(5))...)
	raced := false
	run := func(w ops.Write, first func()) any {
		out, err := ops.Run(w, n.settings, n.store.View, func() int64 { return 6000 }, func(cmd ops.Command) (any, error) {
			if !raced {
				raced = true
				first()
			}
			return n.propose(cmd, 6000)
		})
		require.NoError(t, err)
		return out.Answer
	}
	answer := run(&ops.UnfenceBrokerRequest{BrokerID: 1}, func() {
		n.interrupted(&ops.RegisterBrokerRequest{BrokerID: 1, IncarnationID: "anew"}, 1)
	})
	require.Equal(t, &ops.UnfenceBrokerResponse{Error: ops.None}, answer)
	require.Equal(t, store.Broker{Epoch: 3, IncarnationID: "anew"}, n.broker(1))
	raced = false
	digest := n.recount()
	answer = run(&ops.FenceSilentBroker{BrokerID: 1, BrokerEpoch: 3}, func() {
		n.later(fences(1).logs(5), registers(1, "third", true), heartbeats(1, 4).logs(5))
		digest = n.recount()
	})
	require.Equal(t, &ops.FenceBrokerResponse{Error: ops.StaleBrokerEpoch}, answer)
	require.Equal(t, digest, n.recount())
}

// Thousands of partitions: the walk takes each entry's budget, and no more.
func TestFenceOfManyPartitions(t *testing.T) {
	const count = 5000
	n := newNode(t, ops.DefaultSettings())
	n.play(startMs, append(liveBrokers(3), partitions(count, "1, 2, 3", ""))...)
	n.interrupted(&ops.FenceBrokerRequest{BrokerID: 1}, 4)
	n.reopen()
	_, err := n.run(&ops.AdvanceBroker{BrokerID: 1}, 5000)
	require.NoError(t, err)
	var refs []ops.LogRef
	for p := range int32(count) {
		refs = append(refs, ops.LogRef{TopicID: idOf("@a"), Partition: p})
	}
	answer, err := n.run(&ops.DescribePartitionsRequest{Requests: refs}, 5000)
	require.NoError(t, err)
	for _, d := range answer.(*ops.DescribePartitionsResponse).Responses {
		require.True(t, d.Leader == 2 && d.LeaderEpoch == 1 && slices.Equal(d.ISR, []int32{2, 3}))
	}
	require.Len(t, n.log, 7+count/int(n.settings.BrokerRows))
}

func idOf(name string) store.TopicID {
	id, err := store.ParseTopicID(expand(name))
	if err != nil {
		panic(err)
	}
	return id
}
