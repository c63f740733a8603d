package api

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/api/wire"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/raftnode"
)

// contracts runs a test over every implementation of ControlPlane, each with a
// cluster of its own.
func contracts(t *testing.T, test func(t *testing.T, cp ControlPlane, now *clock)) {
	contractsWith(t, func([]*served) {}, test)
}

// contractsWith are contracts of nodes, the leader first, that were prepared.
func contractsWith(t *testing.T, prepare func([]*served), test func(t *testing.T, cp ControlPlane, now *clock)) {
	client := func(t *testing.T, f wire.Format, nodes ...*served) ControlPlane {
		config := DefaultClientConfig()
		for _, s := range nodes {
			config.Endpoints = append(config.Endpoints, s.url)
		}
		config.Format = f
		c, err := NewClient(config)
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return c
	}
	for name, open := range map[string]func(t *testing.T, nodes []*served) ControlPlane{
		"embedded in the leader": func(_ *testing.T, nodes []*served) ControlPlane { return nodes[0].embedded },
		"embedded in a follower": func(_ *testing.T, nodes []*served) ControlPlane { return nodes[1].embedded },
		"client of the leader":   func(t *testing.T, nodes []*served) ControlPlane { return client(t, wire.JSON, nodes[0]) },
		"client of a follower":   func(t *testing.T, nodes []*served) ControlPlane { return client(t, wire.Msgpack, nodes[1]) },
		"client of all, with JSON": func(t *testing.T, nodes []*served) ControlPlane {
			return client(t, wire.JSON, nodes[1], nodes[2], nodes[0])
		},
	} {
		t.Run(name, func(t *testing.T) {
			var now clock
			now.ms.Store(time.Now().UnixMilli())
			// The clock of a trace leaps, which the leader would see before the others.
			const anySkew = 100 * 365 * 24 * time.Hour
			nodes := three(t, func(c *raftnode.Config) { c.Now, c.ClockMaxSkew = now.now, anySkew })
			prepare(nodes)
			test(t, open(t, nodes), &now)
		})
	}
}

// method is the one of an operation: CommitFile of commit-file.
func method(cp ControlPlane, operation string) reflect.Value {
	var name strings.Builder
	for word := range strings.SplitSeq(operation, "-") {
		name.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return reflect.ValueOf(cp).MethodByName(name.String())
}

func TestEveryMethodAnswersItsExample(t *testing.T) {
	contracts(t, func(t *testing.T, cp ControlPlane, now *clock) {
		called := map[string]bool{}
		for i, line := range readTrace(t, "examples.jsonl") {
			now.ms.Store(line.NowMs)
			called[line.Op] = true
			op, _ := ops.Lookup(line.Op)
			request := op.NewRequest()
			require.NoError(t, wire.Decode(wire.JSON, line.Request, request, wire.Limits{}))
			out := method(cp, line.Op).Call([]reflect.Value{reflect.ValueOf(t.Context()), reflect.ValueOf(request)})
			require.True(t, out[1].IsNil(), "line %d: %v", i+1, out[1])
			answer, err := wire.Append(wire.JSON, nil, out[0].Interface())
			require.NoError(t, err)
			require.Equal(t, canonical(t, line.Response), canonical(t, answer), "line %d: %s", i+1, line.Op)
		}
		require.Len(t, called, len(ops.All()))
		require.Equal(t, len(ops.All()), reflect.TypeFor[ControlPlane]().NumMethod())
	})
}

func TestContract(t *testing.T) {
	contracts(t, func(t *testing.T, cp ControlPlane, _ *clock) {
		ctx := t.Context()
		var info Info
		_, err := cp.CreateTopics(ctx, newTopic(2), Observe(&info))
		require.NoError(t, err)
		require.NotZero(t, info.Index)
		require.NotEmpty(t, info.Leader)

		first, err := cp.CommitFile(ctx, commitOf("a", 2), Observe(&info))
		require.NoError(t, err)
		require.False(t, first.Replayed)
		again, err := cp.CommitFile(ctx, commitOf("a", 2))
		require.NoError(t, err)
		require.True(t, again.Replayed)
		require.Equal(t, first.Batches, again.Batches)

		ref := &ops.GetLogInfoRequest{Requests: []ops.LogRef{{TopicID: testTopic, Partition: 1}}}
		written := info.Index
		seen, err := cp.GetLogInfo(ctx, ref, Stale(), MinIndex(written), MaxStaleness(time.Minute), Observe(&info))
		require.NoError(t, err)
		require.EqualValues(t, 10, seen.Responses[0].HighWatermark)
		require.GreaterOrEqual(t, info.AppliedIndex, written)
		require.Zero(t, info.Index)
		seen, err = cp.GetLogInfo(ctx, ref, Observe(&info))
		require.NoError(t, err)
		require.EqualValues(t, 10, seen.Responses[0].HighWatermark)
		require.Zero(t, info.Staleness)
	})
}

func TestContractOfRefusals(t *testing.T) {
	contracts(t, func(t *testing.T, cp ControlPlane, _ *clock) {
		ctx := t.Context()
		refused := func(err error, code ops.Code, message string) {
			t.Helper()
			requireCode(t, err, code)
			require.ErrorContains(t, err, message)
		}
		_, err := cp.CreateTopics(ctx, newTopic(1))
		require.NoError(t, err)
		_, err = cp.CommitFile(ctx, commitOf("a", 1))
		require.NoError(t, err)

		_, err = cp.CommitFile(ctx, commitOf("a", 2))
		refused(err, ops.ObjectKeyConflict, "object_key")
		_, err = cp.CommitFile(ctx, commitOf("", 1))
		refused(err, ops.InvalidRequest, "object_key:")
		_, err = cp.CommitFile(ctx, commitOf("b\xff", 1))
		refused(err, ops.InvalidRequest, "object_key: is not valid UTF-8")
		negative := commitOf("b", 3)
		negative.Batches[2].Partition = -1
		_, err = cp.CommitFile(ctx, negative)
		refused(err, ops.InvalidRequest, "batches[2].partition: must be >= 0")
		_, err = cp.CommitFile(ctx, commitOf("b", 10_001))
		refused(err, ops.RequestTooLarge, "batches")
		_, err = cp.ListFiles(ctx, &ops.ListFilesRequest{State: "gone"})
		refused(err, ops.InvalidRequest, "state: must be one of")
		_, err = cp.CommitFile(ctx, commitOf("b", 1), Stale())
		refused(err, ops.InvalidRequest, "commit-file: is a write")
		_, err = cp.ListTopics(ctx, &ops.ListTopicsRequest{}, MinIndex(1))
		refused(err, ops.InvalidRequest, "min_index")
		_, err = cp.ListTopics(ctx, &ops.ListTopicsRequest{}, Stale(), MaxStaleness(-1))
		refused(err, ops.InvalidRequest, "max_staleness_ms")

		ended, cancel := context.WithCancel(ctx)
		cancel()
		_, err = cp.CommitFile(ended, commitOf("c", 1))
		require.Error(t, err)
		files, err := cp.ListFiles(ctx, &ops.ListFilesRequest{})
		require.NoError(t, err)
		require.Len(t, files.Files, 1, "nothing that was refused left a trace")
	})
}

func TestQueryOptionsRoundTrip(t *testing.T) {
	for _, want := range []raftnode.ReadOptions{
		{}, {Level: raftnode.Stale}, {Level: raftnode.Stale, MinIndex: 1<<64 - 1}, {Level: raftnode.Stale, MaxStaleness: 1500 * time.Millisecond},
	} {
		got, err := parseQuery(queryOf(want), false)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	got, err := parseQuery(queryOf(raftnode.ReadOptions{Level: raftnode.Stale, MaxStaleness: 1}), false)
	require.NoError(t, err)
	require.Equal(t, time.Millisecond, got.MaxStaleness, "rounded up")
}

func TestReadExamplesIsTheFirstOfEach(t *testing.T) {
	var request ops.CreateTopicsRequest
	require.NoError(t, json.Unmarshal(readExamples()["create-topics"].Request, &request))
	require.Equal(t, "orders", request.Topics[0].TopicName)
}

// A partition may have more producers than a request may have items: the entry of its seal
// bounds them, whichever way it comes.
func TestContractOfSealsWithManyProducers(t *testing.T) {
	contracts(t, func(t *testing.T, cp ControlPlane, _ *clock) {
		states := make([]ops.ProducerState, ops.DefaultLimits().Items+1)
		for i := range states {
			states[i] = ops.ProducerState{ProducerID: int64(i)}
		}
		request := &ops.CommitSealRequest{Requests: []ops.CommitSeal{{TopicID: testTopic, BrokerID: 1, DisklessStartOffset: 5, ProducerStates: states}}}
		answer, err := cp.CommitSeal(t.Context(), request)
		require.NoError(t, err)
		require.Equal(t, ops.UnknownTopicID, answer.Responses[0].Error)
	})
}
