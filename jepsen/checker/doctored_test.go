package checker

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/jepsen/history"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

var topic = store.TopicID{1, 6: 0x40, 8: 0x80, 15: 1}

const batchSize = 100

// script writes the history of one partition that behaves, one operation after the
// other.
type script struct {
	records    []*history.Record
	clock      int64
	index      uint64
	start, end int64
	batches    []ops.FoundBatch
}

func (s *script) add(op string, request, response any) *history.Record {
	r := &history.Record{Op: op, Node: "a", Logs: []string{history.Log(topic, 0)}, Outcome: history.OK}
	r.Request, r.Response = encode(request), encode(response)
	r.Invoke, r.Return = s.clock, s.clock+5
	s.clock += 10
	s.records = append(s.records, r)
	return r
}

func encode(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain data
	}
	return data
}

// request is a commit of so many records.
func request(key string, records int64, sequence int32) *ops.CommitFileRequest {
	b := ops.CommitBatch{
		TopicID: topic, ByteSize: batchSize, LastOffset: records - 1,
		ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1,
	}
	if sequence >= 0 {
		b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.LastSequence = 7, 0, sequence, sequence+int32(records)-1
	}
	return &ops.CommitFileRequest{ObjectKey: key, Batches: []ops.CommitBatch{b}}
}

func (s *script) commit(key string, records int64) *history.Record {
	return s.commitSequence(key, records, -1)
}

func (s *script) commitSequence(key string, records int64, sequence int32) *history.Record {
	answer := &ops.CommitFileResponse{Batches: []ops.CommittedBatch{{TopicID: topic, Error: ops.None, AssignedBaseOffset: s.end, LogStartOffset: s.start}}}
	s.append(key, records)
	r := s.add("commit-file", request(key, records, sequence), answer)
	s.index++
	r.Index = s.index
	return r
}

func (s *script) append(key string, records int64) {
	s.batches = append(s.batches, ops.FoundBatch{ObjectKey: key, TopicID: topic, BaseOffset: s.end, LastOffset: s.end + records - 1, ByteSize: batchSize})
	s.end += records
}

// outcome makes an operation one without an answer.
func outcome(r *history.Record, o history.Outcome, code ops.Code) {
	r.Outcome, r.Error, r.Response, r.Index = o, code, nil, 0
}

func (s *script) delete(offset int64) *history.Record {
	s.start = max(s.start, offset)
	s.batches = slices.DeleteFunc(s.batches, func(b ops.FoundBatch) bool { return b.LastOffset < s.start })
	r := s.add("delete-records", &ops.DeleteRecordsRequest{Requests: []ops.DeleteRecords{{TopicID: topic, Offset: offset}}},
		&ops.DeleteRecordsResponse{Responses: []ops.DeletedRecords{{TopicID: topic, Error: ops.None, LogStartOffset: s.start}}})
	s.index++
	r.Index = s.index
	return r
}

func (s *script) find() *history.Record {
	answer := ops.FoundBatches{TopicID: topic, Error: ops.None, LogStartOffset: s.start, HighWatermark: s.end, Batches: s.batches}
	r := s.add("find-batches", &ops.FindBatchesRequest{Requests: []ops.FindBatches{{TopicID: topic, StartingOffset: s.start}}},
		&ops.FindBatchesResponse{Responses: []ops.FoundBatches{answer}})
	r.AppliedIndex = s.index
	return r
}

func (s *script) info() *history.Record {
	answer := ops.LogInfo{TopicID: topic, Error: ops.None, LogStartOffset: s.start, HighWatermark: s.end, ByteSize: int64(len(s.batches)) * batchSize}
	r := s.add("get-log-info", &ops.GetLogInfoRequest{Requests: []ops.LogRef{{TopicID: topic}}}, &ops.GetLogInfoResponse{Responses: []ops.LogInfo{answer}})
	r.AppliedIndex = s.index
	return r
}

// finish reads all from both nodes.
func (s *script) finish() {
	for _, node := range []string{"a", "b"} {
		r := s.find()
		r.Node, r.Final, r.Stale, r.MinIndex = node, true, true, s.index
	}
}

// judge is the verdict of the history, without files of nodes.
func judge(t *testing.T, records []*history.Record) *Verdict {
	v := &Verdict{}
	_, err := v.checkHistory(records, Config{Budget: 10 * time.Second, Parallel: 1}, "")
	require.NoError(t, err)
	return v
}

// usual is a history with all that clients do: lines 1 to 13, and the two final
// reads.
func usual() *script {
	s := &script{}
	s.commit("k1", 10)           // 1
	s.commit("k2", 5)            // 2
	s.find()                     // 3
	s.commitSequence("p1", 3, 0) // 4
	s.delete(10)                 // 5
	s.info()                     // 6
	r := s.commit("k3", 4)       // 7: no answer, retried
	outcome(r, history.Unknown, ops.OutcomeUnknown)
	s.retry("k3", 4)                 // 8
	r = s.commitSequence("p2", 6, 3) // 9: no answer; the retry in another object finds it
	outcome(r, history.Unknown, ops.OutcomeUnknown)
	s.duplicate("p2-again", 6, 3) // 10
	s.never("never", 2)           // 11
	s.commit("k4", 1)             // 12
	r = s.info()                  // 13: what was just written, read from the other node
	r.Node, r.Stale, r.MinIndex = "b", true, s.index
	s.finish()
	return s
}

// retry is the answer to the latest commit, sent again.
func (s *script) retry(key string, records int64) {
	answer := ops.CommittedBatch{TopicID: topic, Error: ops.None, AssignedBaseOffset: s.end - records, LogStartOffset: s.start}
	s.add("commit-file", request(key, records, -1), &ops.CommitFileResponse{Batches: []ops.CommittedBatch{answer}, Replayed: true})
}

// duplicate is the answer to the latest sequence, sent again in another object.
func (s *script) duplicate(key string, records int64, sequence int32) {
	answer := ops.CommittedBatch{TopicID: topic, Error: ops.None, AssignedBaseOffset: s.end - records, LogStartOffset: s.start, Duplicate: true}
	s.add("commit-file", request(key, records, sequence), &ops.CommitFileResponse{Batches: []ops.CommittedBatch{answer}})
}

// never is a commit of unknown outcome that had no effect.
func (s *script) never(key string, records int64) *history.Record {
	r := s.add("commit-file", request(key, records, -1), nil)
	outcome(r, history.Unknown, ops.OutcomeUnknown)
	return r
}

func TestHistoryThatHolds(t *testing.T) {
	v := judge(t, usual().records)
	require.Empty(t, v.Violations)
	require.Empty(t, v.Unknown)
}

// Each kind of wrong is named, with the lines of the operations concerned.
func TestDoctoredHistory(t *testing.T) {
	// What lines 14 and 15, the final reads of nodes a and b, say.
	final := func(s *script, each func(*ops.FoundBatches)) {
		for _, r := range s.records[13:] {
			change(r, func(a *ops.FindBatchesResponse) { each(&a.Responses[0]) })
		}
	}
	remove := func(key string) func(*ops.FoundBatches) {
		return func(a *ops.FoundBatches) {
			a.Batches = slices.DeleteFunc(a.Batches, func(b ops.FoundBatch) bool { return b.ObjectKey == key })
		}
	}
	for name, test := range map[string]struct {
		doctor func(s *script)
		check  string
		lines  []int
	}{
		"acknowledged commit is gone": {func(s *script) { final(s, remove("k2")) }, CheckAcknowledged, []int{2, 14}},
		"acknowledged commit is gone on one node": {func(s *script) {
			change(s.records[14], func(a *ops.FindBatchesResponse) { remove("k2")(&a.Responses[0]) })
		}, CheckReplicas, []int{14, 15}},
		"hole":                  {func(s *script) { final(s, remove("k2")) }, CheckHoles, []int{14}},
		"last batch is missing": {func(s *script) { final(s, remove("k4")) }, CheckHoles, []int{14}},
		"offset given twice": {func(s *script) {
			change(s.records[11], func(a *ops.CommitFileResponse) { a.Batches[0].AssignedBaseOffset = 27 })
		}, CheckOffsets, []int{10, 12}},
		"offset given twice, both acknowledged": {func(s *script) {
			change(s.records[1], func(a *ops.CommitFileResponse) { a.Batches[0].AssignedBaseOffset = 9 })
		}, CheckOffsets, []int{1, 2}},
		"retry in another place": {func(s *script) {
			change(s.records[7], func(a *ops.CommitFileResponse) { a.Batches[0].AssignedBaseOffset = 40 })
		}, CheckRetries, []int{8, 14}},
		"sequence in two objects": {func(s *script) {
			change(s.records[14], func(a *ops.FindBatchesResponse) {
				i := slices.IndexFunc(a.Responses[0].Batches, func(b ops.FoundBatch) bool { return b.ObjectKey == "p2" })
				a.Responses[0].Batches[i].ObjectKey = "p2-again"
			})
		}, CheckRetries, []int{10, 15}},
		"refused commit is there":              {func(s *script) { outcome(s.records[11], history.Refused, ops.NoLeader) }, CheckRefused, []int{12, 14}},
		"refused attempt of a repeated answer": {func(s *script) { outcome(s.records[6], history.Refused, ops.NoLeader) }, CheckRefused, []int{7, 8}},
		"refused attempt in another object":    {func(s *script) { outcome(s.records[8], history.Refused, ops.NoLeader) }, CheckRefused, []int{9, 14}},
		"repeated answer of what was never sent": {func(s *script) {
			change(s.records[11], func(a *ops.CommitFileResponse) { a.Replayed = true })
		}, CheckRefused, []int{12}},
		"lost delete-records": {func(s *script) {
			final(s, func(a *ops.FoundBatches) {
				a.LogStartOffset = 0
				a.Batches = slices.Insert(a.Batches, 0, ops.FoundBatch{ObjectKey: "k1", TopicID: topic, LastOffset: 9, ByteSize: batchSize})
			})
		}, CheckLogStart, []int{5, 14}},
		"records deleted that nobody asked to delete": {func(s *script) {
			final(s, func(a *ops.FoundBatches) { a.LogStartOffset, a.Batches = 15, a.Batches[1:] })
		}, CheckLogStart, []int{5, 14}},
		"stale linearizable read": {func(s *script) {
			change(s.records[2], func(a *ops.FindBatchesResponse) {
				a.Responses[0].HighWatermark, a.Responses[0].Batches = 10, a.Responses[0].Batches[:1]
			})
		}, CheckFresh, []int{2, 3}},
		"stale linearizable read of the log start": {func(s *script) {
			change(s.records[5], func(a *ops.GetLogInfoResponse) { a.Responses[0].LogStartOffset = 0 })
		}, CheckFresh, []int{5, 6}},
		"stale read older than asked": {func(s *script) { s.records[12].AppliedIndex = 5 }, CheckMinIndex, []int{13}},
		"stale read without what its index has": {func(s *script) {
			change(s.records[12], func(a *ops.GetLogInfoResponse) { a.Responses[0].HighWatermark = 28 })
		}, CheckIndex, []int{12, 13}},
		"read with more than its index has": {func(s *script) { s.records[2].AppliedIndex = 1 }, CheckIndex, []int{2, 3}},
		"error that no fault excuses": {func(s *script) {
			change(s.records[11], func(a *ops.CommitFileResponse) { a.Batches[0].Error = ops.OutOfOrderSequence })
		}, CheckAnswers, []int{12}},
		"object that nobody sent": {func(s *script) { final(s, func(a *ops.FoundBatches) { a.Batches[0].ObjectKey = "other" }) }, CheckOffsets, []int{14}},
	} {
		t.Run(name, func(t *testing.T) {
			s := usual()
			test.doctor(s)
			v := judge(t, s.records)
			if test.check == CheckRefused { // the rest of the history holds
				require.Len(t, v.Violations, 1)
			}
			require.True(t, slices.ContainsFunc(v.Violations, func(f Violation) bool {
				return f.Check == test.check && slices.Equal(f.Lines, test.lines)
			}), "want %s %v, got %v", test.check, test.lines, v.Violations)
		})
	}
}

// Config.Doctor makes the usual history wrong, and names the lines that it is found by.
func TestDoctors(t *testing.T) {
	want := map[string]Violation{
		"lost-commit":  {Check: CheckAcknowledged, Lines: []int{2, 14}},
		"offset-twice": {Check: CheckOffsets, Lines: []int{1, 2}},
		"stale-read":   {Check: CheckFresh, Lines: []int{4, 6}},
	}
	require.Len(t, want, len(Doctors()))
	for _, way := range Doctors() {
		s := usual()
		said, err := doctor(s.records, way)
		require.NoError(t, err)
		v := judge(t, s.records)
		require.True(t, slices.ContainsFunc(v.Violations, func(f Violation) bool {
			return f.Check == want[way].Check && slices.Equal(f.Lines, want[way].Lines)
		}), "%s: %v", said, v.Violations)
		_, err = doctor(nil, way)
		require.ErrorIs(t, err, errNothingToDoctor)
	}
	_, err := doctor(nil, "hope")
	require.ErrorContains(t, err, `"hope", but by lost-commit, offset-twice, stale-read`)
}

// What only an order of all operations shows: each answer by itself is possible.
// A history that goes on is held against what was acknowledged, though nothing was
// read at the end: here a state that was set back by a commit, or lost one.
func TestCheckSoFar(t *testing.T) {
	for name, lose := range map[string]func(*ops.FindBatchesResponse){
		"nothing": func(*ops.FindBatchesResponse) {},
		"the end": func(a *ops.FindBatchesResponse) {
			a.Responses[0].HighWatermark, a.Responses[0].Batches = 5, a.Responses[0].Batches[:1]
		},
		"the middle": func(a *ops.FindBatchesResponse) { a.Responses[0].Batches = slices.Delete(a.Responses[0].Batches, 0, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{}
			s.commit("a", 5)
			s.commit("b", 5)
			change(s.find(), lose)
			v, err := CheckSoFar(s.records, DefaultConfig())
			require.NoError(t, err)
			require.Equal(t, name == "nothing", v.OK(), v.Violations)
		})
	}
}

func TestSearchFindsWhatHasNoOrder(t *testing.T) {
	s := &script{}
	s.commit("k1", 1) // 1
	late := s.never("late", 1)
	first := s.find() // 3: has it
	second := s.info()
	s.finish()
	late.Invoke = 0
	change(first, func(a *ops.FindBatchesResponse) {
		a.Responses[0].HighWatermark = 2
		a.Responses[0].Batches = append(a.Responses[0].Batches, ops.FoundBatch{ObjectKey: "late", TopicID: topic, BaseOffset: 1, LastOffset: 1, ByteSize: batchSize})
	})
	// The second read begins before the first has ended, so only the size tells.
	second.Invoke, second.Return = first.Invoke, first.Return
	change(second, func(a *ops.GetLogInfoResponse) { a.Responses[0].HighWatermark = 2 })
	for _, r := range s.records[4:] {
		change(r, func(a *ops.FindBatchesResponse) {
			a.Responses[0].HighWatermark = 2
			a.Responses[0].Batches = append(a.Responses[0].Batches, ops.FoundBatch{ObjectKey: "late", TopicID: topic, BaseOffset: 1, LastOffset: 1, ByteSize: batchSize})
		})
	}
	v := judge(t, s.records)
	require.Len(t, v.Violations, 1)
	require.Equal(t, CheckLinearizable, v.Violations[0].Check)
	require.Contains(t, v.Violations[0].Lines, 4)
	require.Contains(t, v.Violations[0].Text, "get-log-info at a: log start 0, high watermark 2 does not follow")

	change(second, func(a *ops.GetLogInfoResponse) { a.Responses[0].ByteSize = 2 * batchSize })
	require.True(t, judge(t, s.records).OK())
}

// A commit of unknown outcome may have been deleted before anybody saw it, or may
// never have been.
func TestUnknownOutcomes(t *testing.T) {
	s := &script{}
	s.commit("k1", 2)
	hidden := s.commit("hidden", 3)
	outcome(hidden, history.Unknown, ops.OutcomeUnknown)
	deleted := s.delete(5)
	s.commit("k2", 1)
	s.finish()
	require.True(t, judge(t, s.records).OK())

	outcome(deleted, history.Unknown, ops.OutcomeUnknown)
	require.True(t, judge(t, s.records).OK())

	hidden.Outcome = history.Refused // then nothing explains offsets 2 to 4
	v := judge(t, s.records)
	require.True(t, slices.ContainsFunc(v.Violations, func(f Violation) bool { return f.Check == CheckLinearizable }), v.Violations)
}

// What nobody was told of is put where something was deleted, if it alone fits there
// in size and time.
func TestFill(t *testing.T) {
	s := &script{}
	s.commit("k1", 2)
	outcome(s.commit("fits", 3), history.Unknown, ops.OutcomeUnknown)
	s.never("too short", 1)
	s.never("too long", 4)
	heard := s.delete(5)
	s.never("too late", 3)
	s.finish()
	p, err := parse(s.records, nil, &Verdict{})
	require.NoError(t, err)
	l := p.logs[p.names[0]]
	require.Equal(t, map[*commit]filling{l.byKey["fits"]: {2, heard.Return}}, l.fillings)

	s.never("the rest", 2).Invoke = 0 // with the short one it fits as well
	p, err = parse(s.records, nil, &Verdict{})
	require.NoError(t, err)
	l = p.logs[p.names[0]]
	open := filling{-1, math.MaxInt64}
	require.Equal(t, map[*commit]filling{l.byKey["fits"]: open, l.byKey["too short"]: open, l.byKey["the rest"]: open}, l.fillings)
}

// A commit of two partitions that is in one of them only.
func TestCommitInPart(t *testing.T) {
	s := &script{}
	r := s.commit("k1", 2)
	var q ops.CommitFileRequest
	require.NoError(t, json.Unmarshal(r.Request, &q))
	other := q.Batches[0]
	other.Partition = 1
	q.Batches = append(q.Batches, other)
	r.Request = encode(&q)
	outcome(r, history.Unknown, ops.OutcomeUnknown)
	s.finish()
	for _, node := range []string{"a", "b"} {
		empty := (&script{}).info()
		change(empty, func(a *ops.GetLogInfoResponse) { a.Responses[0].Partition = 1 })
		empty.Node, empty.Final, empty.Invoke, empty.Return = node, true, s.clock, s.clock+1
		s.records = append(s.records, empty)
	}
	v := judge(t, s.records)
	require.Len(t, v.Violations, 1)
	require.Equal(t, CheckWhole, v.Violations[0].Check)
	require.Equal(t, []int{1, 2}, v.Violations[0].Lines)
}

// A history that is too hard for the time there is, or too short, is no success.
func TestUndecided(t *testing.T) {
	s := usual()
	v := judge(t, s.records[:13])
	require.Empty(t, v.Violations)
	require.Equal(t, []string{"no node was read at the end"}, v.Unknown)
	require.False(t, v.OK())

	s = &script{}
	for i := range 24 {
		r := s.commit(fmt.Sprint("k", i), 2)
		outcome(r, history.Unknown, ops.OutcomeUnknown)
		r.Invoke = 0
	}
	s.delete(25)
	s.end = 25
	s.info() // no order of commits of two records ends there
	s.finish()
	v = &Verdict{}
	_, err := v.checkHistory(s.records, Config{Budget: 100 * time.Millisecond, Parallel: 1}, "")
	require.NoError(t, err)
	require.False(t, v.OK())
	require.Contains(t, v.Unknown[0], "nor that there is none")
}
