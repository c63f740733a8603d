package checker

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/jepsen/history"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

var ownTopic = store.TopicID{0x0a, 6: 0x40, 8: 0x80, 15: 1}

// group adds a record of a group.
func (s *script) group(name, op string, request, response any) *history.Record {
	r := s.add(op, request, response)
	r.Group = name
	return r
}

// ownedHistory is that of a client with a topic of its own: lines 1 to 9, and what two
// nodes hold at the end.
func ownedHistory() *script {
	s := &script{}
	own := func(op string, request, response any) *history.Record {
		return s.group(history.GroupObjects, op, request, response)
	}
	var batches []ops.FoundBatch
	commit := func(key string, base int64) {
		b := ops.CommitBatch{TopicID: ownTopic, ByteSize: 8, LastOffset: 9, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1}
		own("commit-file", &ops.CommitFileRequest{ObjectKey: key, FileSize: 8, Batches: []ops.CommitBatch{b}},
			&ops.CommitFileResponse{Batches: []ops.CommittedBatch{{TopicID: ownTopic, Error: ops.None, AssignedBaseOffset: base}}})
		batches = append(batches, ops.FoundBatch{ObjectKey: key, TopicID: ownTopic, ByteSize: 8, BaseOffset: base, LastOffset: base + 9})
	}
	find := func() *history.Record {
		return own("find-batches", &ops.FindBatchesRequest{Requests: []ops.FindBatches{{TopicID: ownTopic}}},
			&ops.FindBatchesResponse{Responses: []ops.FoundBatches{{TopicID: ownTopic, Error: ops.None, HighWatermark: 20, Batches: slices.Clone(batches)}}})
	}
	own("create-topics", &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{{TopicID: ownTopic}}}, &ops.CreateTopicsResponse{Topics: []ops.CreatedTopic{{TopicID: ownTopic, Error: ops.None}}}) // 1
	commit("k1", 0)                                                                                                                                                                             // 2
	commit("k2", 10)                                                                                                                                                                            // 3
	find()                                                                                                                                                                                      // 4
	data := history.ObjectBytes("k1", 8)
	own(history.ReadObject, &batches[0], &history.Object{Found: true, Size: 8, Sum: history.ObjectSum(data)})                                        // 5
	own("is-safe-to-delete-file", &ops.IsSafeToDeleteFileRequest{ObjectKey: "never", Fence: true}, &ops.IsSafeToDeleteFileResponse{Safe: true})      // 6
	outcome(own("commit-file", &ops.CommitFileRequest{ObjectKey: "never", Batches: []ops.CommitBatch{}}, nil), history.Refused, ops.ObjectKeyFenced) // 7
	own("prune-diskless-logs", &ops.PruneDisklessLogsRequest{Requests: []ops.PruneLog{{TopicID: ownTopic, HighestRemoteOffset: 9}}, MaxBatches: 1},  // 8
		&ops.PruneDisklessLogsResponse{Responses: []ops.PrunedLog{{TopicID: ownTopic, Error: ops.None, LogStartOffset: 10}}})
	own("get-log-info", &ops.GetLogInfoRequest{Requests: []ops.LogRef{{TopicID: ownTopic}}},
		&ops.GetLogInfoResponse{Responses: []ops.LogInfo{{TopicID: ownTopic, Error: ops.None, LogStartOffset: 10, HighWatermark: 20}}}) // 9
	batches = batches[1:]
	for _, node := range []string{"a", "b"} { // 10 to 12, 13 to 15
		at := len(s.records)
		change(find(), func(a *ops.FindBatchesResponse) { a.Responses[0].LogStartOffset = 10 })
		own("list-topics", &ops.ListTopicsRequest{}, &ops.ListTopicsResponse{Topics: []ops.TopicInfo{{TopicID: ownTopic, DeletedAt: -1}}})
		own("list-files", &ops.ListFilesRequest{State: "deleting"}, &ops.ListFilesResponse{})
		for _, r := range s.records[at:] {
			r.Node, r.Final = node, true
		}
	}
	return s
}

func TestOwned(t *testing.T) {
	none := func(*script) {}
	for name, test := range map[string]struct {
		wrong func(*script)
		check string
		lines []int
	}{
		"holds": {none, "", nil},
		"offset was given twice": {func(s *script) {
			change(s.records[2], func(a *ops.CommitFileResponse) { a.Batches[0].AssignedBaseOffset = 0 })
		}, CheckOwned, []int{3}},
		"acknowledged commit is not found": {func(s *script) {
			change(s.records[3], func(a *ops.FindBatchesResponse) { a.Responses[0].Batches = a.Responses[0].Batches[:1] })
		}, CheckOwned, []int{4}},
		"object is gone": {func(s *script) { change(s.records[4], func(a *history.Object) { *a = history.Object{} }) }, CheckObjects, []int{5}},
		"object is another": {func(s *script) {
			change(s.records[4], func(a *history.Object) { a.Sum = history.ObjectSum(nil) })
		}, CheckObjects, []int{5}},
		"fenced object is committed": {func(s *script) {
			r := s.records[6]
			r.Outcome, r.Error, r.Response = history.OK, "", encode(&ops.CommitFileResponse{})
		}, CheckOwned, []int{6, 7}},
		"fenced, and nobody asked":         {func(s *script) { s.records = slices.Delete(s.records, 5, 6) }, CheckOwned, []int{6}},
		"request can never be carried out": {func(s *script) { outcome(s.records[6], history.Refused, ops.InvalidRequest) }, CheckOwned, []int{7}},
		"log start goes back": {func(s *script) {
			change(s.records[8], func(a *ops.GetLogInfoResponse) { a.Responses[0].LogStartOffset = 0 })
		}, CheckOwned, []int{9}},
		"deleted topic is left": {func(s *script) {
			change(s.records[13], func(a *ops.ListTopicsResponse) { a.Topics[0].DeletedAt = 7 })
		}, CheckLeftovers, []int{14}},
		"file is left": {func(s *script) {
			change(s.records[14], func(a *ops.ListFilesResponse) { a.Files = []ops.FileInfo{{ObjectKey: "k1"}} })
		}, CheckLeftovers, []int{15}},
		"nodes refer to different objects": {func(s *script) {
			change(s.records[12], func(a *ops.FindBatchesResponse) { a.Responses[0].Batches[0].ObjectKey = "k1" })
		}, CheckReplicas, []int{13}},
	} {
		t.Run(name, func(t *testing.T) {
			s := ownedHistory()
			test.wrong(s)
			v := &Verdict{}
			_, err := checkOwned(v, s.records)
			require.NoError(t, err)
			if test.check == "" {
				require.Empty(t, v.Violations)
				return
			}
			require.True(t, slices.ContainsFunc(v.Violations, func(f Violation) bool { return f.Check == test.check && slices.Equal(f.Lines, test.lines) }),
				"want %s %v, got %v", test.check, test.lines, v.Violations)
		})
	}
}

// The directory of objects holds what batches refer to at the end, and nothing else.
func TestStoreOfObjects(t *testing.T) {
	dir := t.TempDir()
	put := func(key string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, ObjectsDir, key), nil, 0o600))
	}
	judged := func() *Verdict {
		v := &Verdict{}
		o, err := checkOwned(v, ownedHistory().records)
		require.NoError(t, err)
		require.NoError(t, o.checkStore(dir))
		return v
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, ObjectsDir), 0o700))
	require.Equal(t, CheckObjects, judged().Violations[0].Check)
	put("k2")
	require.Empty(t, judged().Violations)
	put("k1")
	v := judged()
	require.Len(t, v.Violations, 1)
	require.Equal(t, CheckLeftovers, v.Violations[0].Check)
}
