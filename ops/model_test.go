package ops_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/cpnode/cpnode/internal/model"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

var modelOps = flag.Int("model.ops", 3000, "operations that the model test runs, about")

// TestModel drives a store and the model with the same random operations and
// compares every answer. The seeds of the operations are drawn from rapid, which
// prints its own seed on failure, takes it back (-rapid.seed) and shortens the run.
func TestModel(t *testing.T) {
	steps := max(300, *modelOps/40) // long runs fill blocks and groups of batches
	require.NoError(t, flag.Set("rapid.steps", fmt.Sprint(steps)))
	require.NoError(t, flag.Set("rapid.checks", fmt.Sprint(max(1, *modelOps/steps))))
	dir, runs := t.TempDir(), 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		r := newRun(rt, filepath.Join(dir, fmt.Sprint(runs)))
		defer r.close()
		rt.Repeat(map[string]func(*rapid.T){"operation": r.operation})
		r.compareState()
		r.catchUp()
	})
}

// modelRun is one state, the model of it, and a replica that gets the same
// entries later, many in one transaction.
type modelRun struct {
	rt      *rapid.T
	model   *model.Model
	gen     *model.Gen
	rand    *rand.Rand
	node    *node
	replica *node
	copied  int // entries that the replica has
}

func newRun(rt *rapid.T, path string) *modelRun {
	settings := rows(rapid.SampledFrom([]int64{1, 3, 7, 500}).Draw(rt, "rows an entry"))
	settings.Coalesce = rapid.Bool().Draw(rt, "coalesce")
	cfg := model.DefaultConfig()
	cfg.Coalesce = settings.Coalesce
	r := &modelRun{
		rt: rt, model: model.New(cfg), rand: rand.New(rand.NewSource(0)),
		node:    &node{t: rt, path: path, settings: settings},
		replica: &node{t: rt, path: path + "-replica", settings: settings},
	}
	r.gen = model.NewGen(r.rand)
	r.node.open()
	r.replica.open()
	r.node.level(0)
	r.replica.level(0)
	return r
}

func (r *modelRun) close() {
	r.node.close()
	r.replica.close()
}

func (r *modelRun) operation(rt *rapid.T) {
	// Small numbers are drawn more often than large ones: two make a fair seed.
	seed := rapid.Uint64().Draw(rt, "seed") ^ rapid.Uint64().Draw(rt, "seed")<<32
	r.rand.Seed(int64(seed))
	op, nowMs, request := r.gen.Next(r.model)
	before := r.node.meta()
	logged := len(r.node.log)
	r.node.removed = 0
	answer := r.both(op, nowMs, request)
	require.Equal(rt, r.model.ClockMs(), r.node.meta().LastClockMs, "clock after %s %s", op, request)
	r.checkEntries(op, request, before, len(r.node.log)-logged)
	if op == "commit-file" && answer != nil {
		r.both(op, nowMs, request) // the answer again, or the empty one
	}
	switch r.rand.Intn(100) {
	case 0:
		r.node.reopen() // which recounts the invariants and the digest
	case 1:
		r.compareState()
	case 2:
		r.installOnReplica()
	case 3, 4, 5, 6:
		r.catchUp()
	case 7, 8:
		r.internal(&ops.CheckpointDigest{})
	case 9:
		r.internal(&ops.RaiseFeatureLevel{Level: ops.FeatureLevel})
	}
}

// internal logs what only nodes propose, of which no operation must see anything.
func (r *modelRun) internal(w ops.Write) {
	answer, err := r.node.run(w, r.model.ClockMs())
	require.NoError(r.rt, err)
	if c, ok := answer.(ops.Checkpoint); ok {
		require.Equal(r.rt, r.node.recount(), c.Digest)
	}
	require.Equal(r.rt, r.model.ClockMs(), r.node.meta().LastClockMs)
}

// both runs one operation on the model and on the store and compares the answers.
func (r *modelRun) both(op string, nowMs int64, request []byte) []byte {
	want, wantCode := r.model.Do(op, nowMs, request)
	answer, code := r.node.do(op, nowMs, request)
	require.Equal(r.rt, wantCode, string(code), "%s at %d: %s", op, nowMs, request)
	if code != "" {
		return nil
	}
	text, err := json.Marshal(want)
	require.NoError(r.rt, err)
	require.Equal(r.rt, canonical(r.rt, text), withoutMessage(r.rt, answer), "%s at %d: %s", op, nowMs, request)
	return answer
}

// withoutMessage is an answer without what it says to people.
func withoutMessage(t fataler, text []byte) string {
	var answer any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&answer))
	dropMessages(answer)
	rest, err := json.Marshal(answer)
	require.NoError(t, err)
	return string(rest)
}

func dropMessages(value any) {
	switch v := value.(type) {
	case map[string]any:
		delete(v, "message")
		for _, inner := range v {
			dropMessages(inner)
		}
	case []any:
		for _, inner := range v {
			dropMessages(inner)
		}
	}
}

// checkEntries holds the entries of an operation against what they changed.
func (r *modelRun) checkEntries(op string, request []byte, before store.Meta, entries int) {
	after := r.node.meta()
	if entries == 0 {
		require.True(r.rt, r.node.fromRead || before.Digest == after.Digest)
		return
	}
	// A request can name one log twice, and set it there and back.
	thereAndBack := op == "repair-diskless-log" || op == "create-topics"
	if op != "init-diskless-log" && op != "override-switch" { // these drop at once the producers that one entry brought
		require.LessOrEqual(r.rt, r.node.removed, r.node.settings.PurgeRows, "rows of an entry of %s: %s", op, request)
	}
	require.True(r.rt, thereAndBack || before.Digest != after.Digest, "%s logged %d entries that changed nothing: %s", op, entries, request)
}

// compareState reads all that can be read from both.
func (r *modelRun) compareState() {
	nowMs := r.model.ClockMs()
	r.both("list-files", nowMs, []byte(`{"limit": 0}`))
	r.both("get-files-to-delete", nowMs, fmt.Appendf(nil, `{"marked_before": %d}`, nowMs+1))
	var topics ops.ListTopicsResponse
	require.NoError(r.rt, json.Unmarshal(r.both("list-topics", nowMs, []byte(`{"limit": 0}`)), &topics))
	for _, topic := range topics.Topics {
		r.both("describe-topic", nowMs, fmt.Appendf(nil, `{"topic_id": %q}`, topic.TopicID))
		r.both("describe-partitions", nowMs, fmt.Appendf(nil, `{"requests": [{"topic_id": %[1]q, "partition": 0}, {"topic_id": %[1]q, "partition": 1}, {"topic_id": %[1]q, "partition": 2}]}`, topic.TopicID))
		for partition := range 4 {
			log := fmt.Sprintf(`"topic_id": %q, "partition": %d`, topic.TopicID, partition)
			r.both("get-producer-state", nowMs, fmt.Appendf(nil, `{"requests": [{%s}]}`, log))
			r.compareBatches(nowMs, log)
		}
	}
}

func (r *modelRun) compareBatches(nowMs int64, log string) {
	var info ops.GetLogInfoResponse
	require.NoError(r.rt, json.Unmarshal(r.both("get-log-info", nowMs, fmt.Appendf(nil, `{"requests": [{%s}]}`, log)), &info))
	r.both("find-batches", nowMs, fmt.Appendf(nil,
		`{"requests": [{%s, "starting_offset": %d, "max_partition_fetch_bytes": 2147483647}], "fetch_max_bytes": 2147483647}`,
		log, max(0, info.Responses[0].LogStartOffset)))
}

// catchUp gives the replica the entries it lacks, in one transaction: where
// transactions end must not matter.
func (r *modelRun) catchUp() {
	missing := r.node.log[r.copied:]
	if len(missing) == 0 {
		return
	}
	results, err := r.replica.apply(missing...)
	require.NoError(r.rt, err)
	for i, result := range results {
		if c, ok := result.(ops.Checkpoint); ok {
			require.Equal(r.rt, r.node.checkpoints[uint64(r.copied+i+1)], c.Digest)
		}
	}
	r.copied = len(r.node.log)
	require.Equal(r.rt, r.node.meta(), r.replica.meta())
}

// installOnReplica gives the replica the whole state instead.
func (r *modelRun) installOnReplica() {
	snapshot, err := r.node.store.Snapshot()
	require.NoError(r.rt, err)
	defer snapshot.Release()
	var stream bytes.Buffer
	_, err = snapshot.WriteTo(&stream)
	require.NoError(r.rt, err)
	received, err := r.replica.store.Receive()
	require.NoError(r.rt, err)
	_, err = io.Copy(received, &stream)
	require.NoError(r.rt, err)
	_, err = received.Finish()
	require.NoError(r.rt, err)
	require.NoError(r.rt, r.replica.store.Install(received, nil))
	r.copied, r.replica.index = len(r.node.log), r.node.index
	require.Equal(r.rt, r.node.meta(), r.replica.meta())
}
