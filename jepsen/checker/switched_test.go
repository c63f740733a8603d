package checker

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/jepsen/history"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

var switchTopic = store.TopicID{0x05, 6: 0x40, 8: 0x80, 15: 1}

// described is a partition that brokers 0 and 1 keep.
func described(state ops.PartitionState, leaderEpoch, partitionEpoch int32, seal int64) ops.DescribedPartition {
	return ops.DescribedPartition{TopicID: switchTopic, Error: ops.None, State: state, Replicas: []int32{0, 1}, ISR: []int32{0, 1}, LeaderEpoch: leaderEpoch,
		PartitionEpoch: partitionEpoch, ClassicToDisklessStartOffset: seal, ClassicPrefixInRemoteStorage: state == ops.StatePrefixInRemoteStorage}
}

// switchedHistory is a switch from the begin to the flag: lines 1 to 8, and what two
// nodes say at the end.
func switchedHistory() *script {
	s := &script{}
	see := func(index uint64, p ops.DescribedPartition) *history.Record {
		r := s.group(history.GroupSwitch, "describe-partitions", &ops.DescribePartitionsRequest{Requests: []ops.LogRef{{TopicID: switchTopic}}},
			&ops.DescribePartitionsResponse{Responses: []ops.DescribedPartition{p}})
		r.AppliedIndex = index
		return r
	}
	act := func(index uint64, op string, request, response any) {
		s.group(history.GroupSwitch, op, request, response).Index = index
	}
	see(1, described(ops.StateClassic, 0, 0, -1)) // 1
	act(2, "begin-switch", &ops.BeginSwitchRequest{TopicID: switchTopic}, &ops.BeginSwitchResponse{Error: ops.None})
	see(2, described(ops.StateSwitchPending, 1, 1, -2)) // 3
	act(3, "commit-seal", &ops.CommitSealRequest{Requests: []ops.CommitSeal{{TopicID: switchTopic, LeaderEpoch: 1, DisklessStartOffset: 7, ProducerStates: []ops.ProducerState{}}}},
		&ops.CommitSealResponse{Responses: []ops.CommittedSeal{{TopicID: switchTopic, Error: ops.None}}}) // 4
	see(3, described(ops.StatePrefixWaitingForUpload, 1, 2, 7))                                                                                                            // 5
	act(4, "elect-leader", &ops.ElectLeaderRequest{TopicID: switchTopic, Election: ops.ElectionUnclean}, &ops.ElectLeaderResponse{Error: ops.EligibleLeadersNotAvailable}) // 6
	act(5, "commit-prefix-in-remote-storage", &ops.CommitPrefixInRemoteStorageRequest{Requests: []ops.CommitPrefix{{TopicID: switchTopic, LeaderEpoch: 1, HighestRemoteOffset: 6}}},
		&ops.CommitPrefixInRemoteStorageResponse{Responses: []ops.CommittedPrefix{{TopicID: switchTopic, Error: ops.None}}}) // 7
	see(5, described(ops.StatePrefixInRemoteStorage, 2, 3, 7)) // 8
	for _, node := range []string{"a", "b"} {                  // 9, 10
		r := see(5, described(ops.StatePrefixInRemoteStorage, 2, 3, 7))
		r.Node, r.Final, r.Stale = node, true, true
	}
	return s
}

func TestBrokerEpochsOnlyGrow(t *testing.T) {
	register := func(s *script, broker int32, code ops.Code, epoch int64) {
		s.group(history.GroupSwitch, "register-broker", &ops.RegisterBrokerRequest{BrokerID: broker, IncarnationID: "i", Endpoints: []string{}},
			&ops.RegisterBrokerResponse{Error: code, BrokerEpoch: epoch})
	}
	s, v := &script{}, &Verdict{}
	register(s, 1, ops.None, 2)
	register(s, 2, ops.None, 1)
	register(s, 1, ops.DuplicateBroker, -1)
	register(s, 1, ops.None, 3)
	require.NoError(t, checkSwitched(v, s.records))
	require.Empty(t, v.Violations)
	for _, epoch := range []int64{3, 2} { // again, and back
		register(s, 1, ops.None, epoch)
	}
	require.NoError(t, checkSwitched(v, s.records))
	require.Len(t, v.Violations, 2)
	require.Equal(t, []any{CheckLeaders, []int{4, 5}}, []any{v.Violations[0].Check, v.Violations[0].Lines})
	require.Equal(t, []int{5, 6}, v.Violations[1].Lines)
}

func TestSwitched(t *testing.T) {
	see := func(line int, fn func(*ops.DescribedPartition)) func(*script) {
		return func(s *script) {
			change(s.records[line-1], func(a *ops.DescribePartitionsResponse) { fn(&a.Responses[0]) })
		}
	}
	for name, test := range map[string]struct {
		wrong func(*script)
		check string
		lines []int
	}{
		"holds":                     {func(*script) {}, "", nil},
		"a flag that stood already": {func(s *script) { s.records[6].Index = 0 }, "", nil},
		"two lead in one epoch":     {see(5, func(p *ops.DescribedPartition) { p.Leader = 1 }), CheckLeaders, []int{3, 5}},
		"leader outside of the ISR": {see(5, func(p *ops.DescribedPartition) { p.ISR = []int32{1} }), CheckLeaders, []int{5}},
		"epoch goes back":           {see(8, func(p *ops.DescribedPartition) { p.LeaderEpoch = 0 }), CheckLeaders, []int{5, 8}},
		"one epoch, two things":     {see(9, func(p *ops.DescribedPartition) { p.ISR = []int32{0} }), CheckLeaders, []int{8, 9}},
		"seal moves":                {see(8, func(p *ops.DescribedPartition) { p.ClassicToDisklessStartOffset = 8 }), CheckSwitch, []int{5, 8}},
		"flag is taken back": {see(9, func(p *ops.DescribedPartition) {
			p.State, p.ClassicPrefixInRemoteStorage, p.PartitionEpoch = ops.StatePrefixWaitingForUpload, false, 4
		}), CheckSwitch, []int{8, 9}},
		"seal is not done": {see(5, func(p *ops.DescribedPartition) { p.State, p.ClassicToDisklessStartOffset = ops.StateSwitchPending, -2 }), CheckSwitch, []int{4, 5}},
		"unclean election of a local prefix": {func(s *script) {
			change(s.records[5], func(a *ops.ElectLeaderResponse) { a.Error = ops.None })
			s.records[5].Index = 3
		}, CheckUnclean, []int{3, 5, 6}},
		"flag before its time": {func(s *script) {
			var q ops.CommitPrefixInRemoteStorageRequest
			require.NoError(t, json.Unmarshal(s.records[6].Request, &q))
			q.Requests[0].HighestRemoteOffset--
			s.records[6].Request = encode(&q)
		}, CheckEarlyFlag, []int{7, 8}},
		"linearizable read from before": {func(s *script) {
			change(s.records[7], func(a *ops.DescribePartitionsResponse) { a.Responses[0] = described(ops.StateSwitchPending, 1, 1, -2) })
			s.records[7].AppliedIndex = 2
		}, CheckFresh, []int{5, 8}},
		"nodes differ at the end": {func(s *script) {
			see(10, func(p *ops.DescribedPartition) { p.PartitionEpoch = 9 })(s)
		}, CheckReplicas, []int{9, 10}},
	} {
		t.Run(name, func(t *testing.T) {
			s := switchedHistory()
			test.wrong(s)
			v := &Verdict{}
			require.NoError(t, checkSwitched(v, s.records))
			if test.check == "" {
				require.Empty(t, v.Violations)
				return
			}
			require.True(t, slices.ContainsFunc(v.Violations, func(f Violation) bool { return f.Check == test.check && slices.Equal(f.Lines, test.lines) }),
				"want %s %v, got %v", test.check, test.lines, v.Violations)
		})
	}
}
