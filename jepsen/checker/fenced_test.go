package checker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/jepsen/history"
	"github.com/cpnode/cpnode/ops"
)

// An attempt that comes after the object was committed, emptied and deleted is refused;
// this was once taken for a wrong answer. Without that story it is one.
func TestFencedCommits(t *testing.T) {
	unknown := func(r *history.Record) { outcome(r, history.Unknown, ops.OutcomeUnknown) }
	refused := func(r *history.Record) { outcome(r, history.Refused, ops.NoLeader) }
	for name, test := range map[string]struct {
		story func(s *script) // before the attempt that is refused
		holds bool
	}{
		"deleted":                     {func(s *script) { s.commit("k", 5); s.delete(5) }, true},
		"unknown, and deleted":        {func(s *script) { unknown(s.commit("k", 5)); s.delete(5) }, true},
		"perhaps deleted":             {func(s *script) { s.commit("k", 5); unknown(s.delete(5)) }, true},
		"deleted up to the end":       {func(s *script) { s.commit("k", 5); s.deleteAll() }, true},
		"not deleted":                 {func(s *script) { s.commit("k", 5) }, false},
		"not deleted to its end":      {func(s *script) { s.commit("k", 5); s.delete(4) }, false},
		"deletion refused":            {func(s *script) { s.commit("k", 5); refused(s.delete(0)) }, false},
		"never sent before":           {func(s *script) { s.commit("other", 5); s.delete(5) }, false},
		"refused before":              {func(s *script) { refused(s.never("k", 5)); s.delete(0) }, false},
		"perhaps without any effect":  {func(s *script) { s.never("k", 5) }, false},
		"deleted before it was begun": {func(s *script) { s.commit("other", 5); s.delete(5); s.commit("k", 5) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{}
			test.story(s)
			s.fenced("k", 5, -1)
			s.finish()
			requireAnswers(t, s, test.holds)
		})
	}
}

// A batch that is a duplicate of one in another object is none of its own object's.
func TestFencedDuplicate(t *testing.T) {
	for _, duplicate := range []bool{true, false} {
		s := &script{}
		s.commitSequence("first", 5, 0)
		again := s.add("commit-file", request("k", 5, 0), nil)
		outcome(again, history.Unknown, ops.OutcomeUnknown)
		if !duplicate {
			outcome(s.records[0], history.Refused, ops.NoLeader)
			s.batches, s.end = nil, 0
		}
		s.fenced("k", 5, 0)
		s.finish()
		requireAnswers(t, s, duplicate)
	}
}

// fenced is a late attempt.
func (s *script) fenced(key string, records int64, sequence int32) {
	outcome(s.add("commit-file", request(key, records, sequence), nil), history.Refused, ops.ObjectKeyFenced)
}

// deleteAll deletes up to the high watermark.
func (s *script) deleteAll() {
	r := s.delete(s.end)
	r.Request = encode(&ops.DeleteRecordsRequest{Requests: []ops.DeleteRecords{{TopicID: topic, Offset: -1}}})
}

func requireAnswers(t *testing.T, s *script, hold bool) {
	t.Helper()
	v := judge(t, s.records)
	if hold {
		require.Empty(t, v.Violations)
		return
	}
	require.Len(t, v.Violations, 1)
	require.Equal(t, CheckAnswers, v.Violations[0].Check)
	require.Contains(t, v.Violations[0].Text, "k was fenced, and its batch in "+history.Log(topic, 0)+" was not deleted")
}
