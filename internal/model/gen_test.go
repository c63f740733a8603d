package model

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	seed  = 1
	steps = 20_000
)

// wanted are the outcomes that a run must have reached: the operation, and the code of the error object, the error of an
// item, or a field of the answer that was true, not empty or not zero.
var wanted = []string{
	"create-topics NONE", "create-topics INVALID_REQUEST", "create-topics TOPIC_ALREADY_EXISTS", "create-topics error INVALID_REQUEST",
	"delete-topics logs_deleted", "list-topics topics", "list-topics next", "list-topics error INVALID_REQUEST",
	"describe-topic NONE", "describe-topic UNKNOWN_TOPIC_OR_PARTITION", "describe-topic error INVALID_REQUEST",
	"commit-file NONE", "commit-file UNKNOWN_TOPIC_OR_PARTITION", "commit-file INVALID_PRODUCER_EPOCH",
	"commit-file OUT_OF_ORDER_SEQUENCE_NUMBER", "commit-file duplicate", "commit-file replayed", "commit-file empty",
	"commit-file error INVALID_REQUEST", "commit-file error OBJECT_KEY_CONFLICT", "commit-file error OBJECT_KEY_FENCED",
	"commit-file wrapped inside", "commit-file wrapped between", "commit-file bumped", "commit-file joined",
	"commit-file clock went back",
	"find-batches NONE", "find-batches UNKNOWN_TOPIC_OR_PARTITION", "find-batches OFFSET_OUT_OF_RANGE", "find-batches batches",
	"list-offsets NONE", "list-offsets UNKNOWN_TOPIC_OR_PARTITION", "list-offsets UNSUPPORTED_VERSION", "list-offsets timestamp",
	"get-log-info NONE", "get-log-info UNKNOWN_TOPIC_OR_PARTITION", "get-log-info remote_log_start_offset",
	"get-producer-state NONE", "get-producer-state UNKNOWN_TOPIC_OR_PARTITION", "get-producer-state entries",
	"get-cross-tier-log-start NONE", "get-cross-tier-log-start UNKNOWN_TOPIC_OR_PARTITION",
	"delete-records NONE", "delete-records UNKNOWN_TOPIC_OR_PARTITION", "delete-records OFFSET_OUT_OF_RANGE",
	"prune-diskless-logs NONE", "prune-diskless-logs UNKNOWN_TOPIC_OR_PARTITION", "prune-diskless-logs batches_deleted",
	"prune-diskless-logs more_remain", "prune-diskless-logs start moved without a batch",
	"enforce-retention NONE", "enforce-retention UNKNOWN_TOPIC_OR_PARTITION", "enforce-retention batches_deleted",
	"purge-deleted-logs batches_deleted", "purge-deleted-logs logs_purged", "purge-deleted-logs files_marked",
	"purge-deleted-logs more_remain", "purge-deleted-logs cap_reached",
	"get-files-to-delete files",
	"delete-files NONE", "delete-files FILE_IN_USE", "delete-files error INVALID_REQUEST",
	"is-safe-to-delete-file safe", "is-safe-to-delete-file fenced", "is-safe-to-delete-file error INVALID_REQUEST",
	"list-files files", "list-files next",
	"advance-cross-tier-log-start NONE", "advance-cross-tier-log-start UNKNOWN_TOPIC_OR_PARTITION",
	"init-diskless-log NONE", "init-diskless-log INVALID_REQUEST", "init-diskless-log ALREADY_INITIALIZED",
	"init-diskless-log UNKNOWN_TOPIC_OR_PARTITION", "init-diskless-log TOPIC_ALREADY_EXISTS",
	"repair-diskless-log NONE", "repair-diskless-log UNKNOWN_TOPIC_OR_PARTITION",
	"register-broker NONE", "register-broker DUPLICATE_BROKER_REGISTRATION", "register-broker error INVALID_REQUEST",
	"broker-heartbeat NONE", "broker-heartbeat STALE_BROKER_EPOCH", "broker-heartbeat BROKER_ID_NOT_REGISTERED",
	"fence-broker NONE", "fence-broker BROKER_ID_NOT_REGISTERED", "unfence-broker NONE",
	"register-partitions NONE", "register-partitions INVALID_REQUEST", "register-partitions TOPIC_ALREADY_EXISTS",
	"alter-partition NONE", "alter-partition UNKNOWN_TOPIC_ID", "alter-partition UNKNOWN_TOPIC_OR_PARTITION", "alter-partition FENCED_LEADER_EPOCH",
	"alter-partition NOT_CONTROLLER", "alter-partition INVALID_REQUEST", "alter-partition INVALID_UPDATE_VERSION", "alter-partition INELIGIBLE_REPLICA",
	"elect-leader NONE", "elect-leader ELECTION_NOT_NEEDED", "elect-leader PREFERRED_LEADER_NOT_AVAILABLE", "elect-leader ELIGIBLE_LEADERS_NOT_AVAILABLE",
	"begin-switch NONE", "begin-switch INVALID_REQUEST", "begin-switch UNKNOWN_TOPIC_ID",
	"commit-seal NONE", "commit-seal INVALID_REQUEST", "commit-seal FENCED_LEADER_EPOCH", "commit-seal NOT_CONTROLLER",
	"commit-prefix-in-remote-storage NONE", "commit-prefix-in-remote-storage INVALID_REQUEST",
	"override-switch NONE", "override-switch INVALID_REQUEST", "override-switch to_offset",
	"describe-partitions NONE", "describe-partitions advertised_replicas", "describe-partitions producer_states",
	"expire-producers removed", "expire-fences removed", "expire-replays removed",
}

func TestGeneratorReachesEveryOutcome(t *testing.T) {
	m, g := New(DefaultConfig()), NewGen(rand.New(rand.NewSource(seed)))
	reached := map[string]int{}
	for step := range steps {
		op, nowMs, request := g.Next(m)
		before := m.Clone()
		response, code := m.Do(op, nowMs, request)
		require.NoError(t, m.Invariants(), "step %d: %s %s", step, op, request)
		count(t, reached, op, response, code)
		countChange(reached, op, before, m, nowMs)
	}
	for _, outcome := range wanted {
		require.NotZero(t, reached[outcome], "%s never happened: %v", outcome, reached)
	}
}

// count notes the error object, or what the answer and each of its items hold.
func count(t *testing.T, reached map[string]int, op string, response any, code string) {
	if code != "" {
		reached[op+" error "+code]++
		return
	}
	text, err := json.Marshal(response)
	require.NoError(t, err)
	var answer map[string]any
	require.NoError(t, json.Unmarshal(text, &answer))
	countFields(reached, op, answer)
	if op == "commit-file" && len(answer["batches"].([]any)) == 0 {
		reached["commit-file empty"]++
	}
}

func countFields(reached map[string]int, op string, fields map[string]any) {
	for name, value := range fields {
		switch value := value.(type) {
		case string:
			if name == "error" {
				reached[op+" "+value]++
			} else if value != "" {
				reached[op+" "+name]++
			}
		case bool:
			if value {
				reached[op+" "+name]++
			}
		case float64:
			if value > 0 {
				reached[op+" "+name]++
			}
		case []any:
			for _, item := range value {
				reached[op+" "+name]++
				if item, ok := item.(map[string]any); ok {
					countFields(reached, op, item)
				}
			}
		}
	}
}

// countChange notes what only the state shows.
func countChange(reached map[string]int, op string, before, after *Model, nowMs int64) {
	if op == "is-safe-to-delete-file" && after.changed {
		reached[op+" fenced"]++
	}
	if op == "commit-file" && after.changed && nowMs < after.lastClockMs {
		reached[op+" clock went back"]++
	}
	for id, t := range after.topics {
		for p, l := range t.logs {
			if old := before.log(target{id, p}); old != nil && after.changed {
				countLog(reached, op, old, l)
			}
		}
	}
}

func countLog(reached map[string]int, op string, before, after *log) {
	if after.start > before.start && len(after.batches) == len(before.batches) {
		reached[op+" start moved without a batch"]++
	}
	if op != "commit-file" {
		return
	}
	for _, b := range after.batches {
		if len(after.batches) > len(before.batches) && b.byteSize > 300 { // more than the generator gives one batch
			reached[op+" joined"]++
		}
	}
	for id, p := range after.producers {
		old := before.producers[id]
		if old != nil && p.epoch > old.epoch {
			reached[op+" bumped"]++
		}
		last := p.entries[len(p.entries)-1]
		if old == nil || p.epoch != old.epoch || last == old.entries[len(old.entries)-1] {
			continue
		}
		if last.last < last.base {
			reached[op+" wrapped inside"]++
		}
		if last.base == 0 {
			reached[op+" wrapped between"]++
		}
	}
}

func TestOnlyChangesMoveTheClock(t *testing.T) {
	m, g := New(DefaultConfig()), NewGen(rand.New(rand.NewSource(seed)))
	for step := range 3000 {
		op, nowMs, request := g.Next(m)
		before := m.Clone()
		response, code := m.Do(op, nowMs, request)
		what := fmt.Sprintf("step %d: %s %s: %v %s", step, op, request, response, code)
		if m.changed {
			require.Equal(t, max(nowMs, before.lastClockMs), m.lastClockMs, what)
			thereAndBack := op == "repair-diskless-log" || op == "create-topics" // two items of one request can undo each other
			require.True(t, thereAndBack || !assert.ObjectsAreEqual(before.state(), m.state()), what)
		} else {
			require.Equal(t, before.lastClockMs, m.lastClockMs, what)
			require.Equal(t, before.state(), m.state(), what)
		}
	}
}

// state is what must differ when an operation changed something.
func (m *Model) state() *Model {
	s := m.Clone()
	s.lastClockMs, s.now, s.changed, s.marks = 0, 0, false, nil
	return s
}

func TestCloneIsIndependent(t *testing.T) {
	m, untouched := New(DefaultConfig()), New(DefaultConfig())
	both := NewGen(rand.New(rand.NewSource(seed)))
	for range 1000 {
		op, nowMs, request := both.Next(m)
		m.Do(op, nowMs, request)
		untouched.Do(op, nowMs, request)
	}
	clone, other := m.Clone(), NewGen(rand.New(rand.NewSource(seed+1)))
	for range 1000 { // each goes its own way, the one without a clone along with the clone
		op, nowMs, request := other.Next(clone)
		clone.Do(op, nowMs, request)
		untouched.Do(op, nowMs, request)
		op, nowMs, request = both.Next(m)
		m.Do(op, nowMs, request)
	}
	require.True(t, assert.ObjectsAreEqual(untouched.state(), clone.state()))
	require.False(t, assert.ObjectsAreEqual(m.state(), clone.state()))
}

func TestGeneratorRepeatsItself(t *testing.T) {
	m, g, again := New(DefaultConfig()), NewGen(rand.New(rand.NewSource(seed))), NewGen(rand.New(rand.NewSource(seed)))
	for range 2000 {
		op, nowMs, request := g.Next(m)
		op2, nowMs2, request2 := again.Next(m)
		require.Equal(t, fmt.Sprint(op, nowMs, string(request)), fmt.Sprint(op2, nowMs2, string(request2)))
		m.Do(op, nowMs, request)
	}
}
