package pruner

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

func TestPolicyOf(t *testing.T) {
	for config, want := range map[[3]string]policy{
		{"", "", ""}:                         {-1, -1},
		{"delete", "5", "6"}:                 {6, 5},
		{"compact,delete", "5", ""}:          {-1, 5},
		{"compact", "5", "6"}:                {-1, -1},
		{"", "-1", ""}:                       {-1, -1},
		{"", "-1", "0"}:                      {0, -1},
		{"", "soon", "99999999999999999999"}: {-1, -1},
	} {
		keys := map[string]string{}
		for i, key := range []string{"cleanup.policy", "retention.ms", "retention.bytes"} {
			if config[i] != "" {
				keys[key] = config[i]
			}
		}
		require.Equal(t, want, policyOf(keys), "%v", keys)
	}
}

func retentionConfig() Config {
	config := DefaultConfig()
	config.RetentionMaxBatches, config.PartitionsPerRequest = 3, 2
	return config
}

func TestRetentionOnce(t *testing.T) {
	c := newCluster(t)
	c.create(1, 3, map[string]string{"retention.bytes": "500"})
	c.create(2, 1, map[string]string{"retention.ms": "1000"})
	c.create(3, 1, map[string]string{"cleanup.policy": "compact", "retention.bytes": "0"})
	c.create(4, 1, nil) // no limit is named
	for _, l := range []ops.LogRef{ref(1, 0), ref(1, 2), ref(2, 0), ref(3, 0), ref(4, 0)} {
		c.commit(l.TopicID[15], l.Partition, 7)
	}
	c.clock.Advance(2 * time.Second)
	c.commit(2, 0, 1)

	e := NewRetentionEnforcer(c, retentionConfig(), c.deps)
	totals, err := e.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, RetentionTotals{Partitions: 4, BatchesDeleted: 7, BytesDeleted: 700}, totals, "two and two by size, three by age as the cap allows")
	require.Equal(t, []int64{20, 0, 20, 30, 0, 0}, []int64{c.logStart(1, 0), c.logStart(1, 1), c.logStart(1, 2), c.logStart(2, 0), c.logStart(3, 0), c.logStart(4, 0)})
	require.Equal(t, 7.0, c.value("cpnode_retention_enforcer_deleted_batches_total"))
	require.Equal(t, 1.0, c.value("cpnode_retention_enforcer_capped_turns_total"))
	require.Equal(t, 2, c.called("enforce-retention"), "four partitions, two a request")
}

// Ten expired batches and a cap of three: passes of 3, 3, 3 and 1, one soon after the
// other, and then the ordinary interval.
func TestRetentionSaturated(t *testing.T) {
	c := newCluster(t)
	c.create(1, 1, map[string]string{"retention.bytes": "0"})
	c.commit(1, 0, 10)
	e := NewRetentionEnforcer(c, retentionConfig(), c.deps)
	run(t, e)
	c.pass(1, time.Minute) // random is a half: the first turn comes after an interval
	for _, start := range []int64{30, 60, 90} {
		c.waiting(1)
		require.Equal(t, start, c.logStart(1, 0))
		c.clock.Advance(time.Second)
	}
	c.waiting(1)
	require.Equal(t, int64(100), c.logStart(1, 0))
	c.pass(1, 59*time.Second)
	c.waiting(1)
	require.Equal(t, 4, c.called("enforce-retention"))
	c.pass(1, time.Second)
	c.waiting(1)
	require.Equal(t, 5, c.called("enforce-retention"))
}

// New partitions, new topics and new policies are taken up, and deleted topics let go
// of, at the latest an interval later.
func TestRetentionFollowsTopics(t *testing.T) {
	c := newCluster(t)
	s := newSchedule(c, 1000, time.Minute, c.deps.Random)
	refresh := func() []string {
		require.NoError(t, s.refresh(t.Context(), c.clock.Now()))
		var logs []string
		for _, d := range s.due {
			if !d.topic.gone {
				logs = append(logs, fmt.Sprintf("%d/%d %d", d.topic.id[15], d.partition, d.topic.policy.ms))
			}
		}
		return logs
	}
	c.create(1, 2, map[string]string{"retention.ms": "1"})
	c.create(2, 1, map[string]string{"retention.ms": "-1"})
	require.ElementsMatch(t, []string{"1/0 1", "1/1 1"}, refresh())
	c.create(1, 3, map[string]string{"retention.ms": "3"})
	c.create(2, 1, map[string]string{"retention.ms": "2"})
	require.ElementsMatch(t, []string{"1/0 3", "1/1 3", "1/2 3", "2/0 2"}, refresh())
	described := c.called("describe-topic")
	require.ElementsMatch(t, []string{"1/0 3", "1/1 3", "1/2 3", "2/0 2"}, refresh())
	require.Equal(t, described, c.called("describe-topic"), "partitions are read when their number changed only")
	c.create(1, 3, map[string]string{"cleanup.policy": "compact"})
	require.ElementsMatch(t, []string{"2/0 2"}, refresh())
	c.create(1, 3, map[string]string{"cleanup.policy": "delete"})
	require.ElementsMatch(t, []string{"1/0 3", "1/1 3", "1/2 3", "2/0 2"}, refresh())
	_, err := c.DeleteTopics(t.Context(), &ops.DeleteTopicsRequest{TopicIDs: []store.TopicID{topicID(2)}})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"1/0 3", "1/1 3", "1/2 3"}, refresh())
	require.Len(t, s.take(c.clock.Now().Add(time.Hour)), 3)
	require.Empty(t, s.due, "turns of topics that are gone are dropped when they come")
}

// A partition of a topic deleted since the last look is let go of.
func TestRetentionOfDeletedTopic(t *testing.T) {
	c := newCluster(t)
	c.create(1, 2, map[string]string{"retention.ms": "1"})
	e := NewRetentionEnforcer(c, retentionConfig(), c.deps)
	s := newSchedule(c, 1000, 0, c.deps.Random)
	require.NoError(t, s.refresh(t.Context(), c.clock.Now()))
	_, err := c.DeleteTopics(t.Context(), &ops.DeleteTopicsRequest{TopicIDs: []store.TopicID{topicID(1)}})
	require.NoError(t, err)
	var totals RetentionTotals
	require.NoError(t, e.enforceDue(t.Context(), s, c.clock.Now(), &totals))
	require.Zero(t, totals)
	require.Empty(t, s.due)
}

// Turns are spread over twice the interval, by the source of randomness.
func TestRetentionSchedule(t *testing.T) {
	c := newCluster(t)
	c.create(1, 4, map[string]string{"retention.ms": "604800000"})
	draws := []float64{0.75, 0, 0.25, 0.999}
	s := newSchedule(c, 1000, time.Minute, func() (draw float64) {
		draw, draws = draws[0], draws[1:]
		return draw
	})
	began := c.clock.Now()
	require.NoError(t, s.refresh(t.Context(), began))
	var turns [][2]int64
	for ms := int64(0); ms <= 120_000; ms += 10 {
		for _, d := range s.take(began.Add(time.Duration(ms) * time.Millisecond)) {
			turns = append(turns, [2]int64{ms, int64(d.partition)})
		}
	}
	require.Equal(t, [][2]int64{{0, 1}, {30_000, 2}, {90_000, 0}, {119_880, 3}}, turns)
}

// Turns that come soon after one another share a request.
func TestRetentionGathersTurns(t *testing.T) {
	c := newCluster(t)
	c.create(1, 3, map[string]string{"retention.ms": "604800000"})
	draws := []float64{0.5, 0.502, 0.504, 0.9, 0.9, 0.9}
	c.deps.Random = func() (draw float64) {
		draw, draws = draws[0], draws[1:]
		return draw
	}
	run(t, NewRetentionEnforcer(c, retentionConfig(), c.deps))
	c.pass(1, time.Minute)
	c.waiting(1)
	require.Equal(t, 1, c.called("enforce-retention"))
	c.pass(1, 900*time.Millisecond)
	c.waiting(1)
	require.Equal(t, 1, c.called("enforce-retention"))
	c.pass(1, 100*time.Millisecond)
	c.waiting(1)
	require.Equal(t, 2, c.called("enforce-retention"))
	require.Len(t, draws, 0, "each has its next turn")
}

// Without a control plane partitions keep their turns: the lag shows it, and it ends
// by itself.
func TestRetentionScheduleLag(t *testing.T) {
	c := newCluster(t)
	c.create(1, 3, map[string]string{"retention.bytes": "0"})
	c.commit(1, 2, 1)
	e := NewRetentionEnforcer(c, retentionConfig(), c.deps)
	stop := run(t, e)
	c.waiting(1)
	require.Equal(t, 3.0, c.value("cpnode_retention_enforcer_partitions"))
	require.Zero(t, c.value("cpnode_retention_enforcer_schedule_lag_seconds"))
	c.fail("enforce-retention", ops.Errorf(ops.NoLeader, "none is known"))
	c.pass(1, 61*time.Second)
	c.waiting(1)
	require.Equal(t, 1.0, c.value("cpnode_retention_enforcer_schedule_lag_seconds"))
	require.Equal(t, 1.0, c.value("cpnode_retention_enforcer_unavailable_total"))
	require.InDelta(t, 0.075, c.value("cpnode_retention_enforcer_backoff_seconds"), 1e-9)
	require.Zero(t, c.value("cpnode_retention_enforcer_errors_total"))
	c.pass(1, 9*time.Second)
	c.waiting(1)
	require.Equal(t, 10.0, c.value("cpnode_retention_enforcer_schedule_lag_seconds"))
	c.fail("enforce-retention", nil)
	c.pass(1, 9*time.Second)
	c.waiting(1)
	require.Zero(t, c.value("cpnode_retention_enforcer_schedule_lag_seconds"))
	require.Zero(t, c.value("cpnode_retention_enforcer_backoff_seconds"))
	require.Equal(t, int64(10), c.logStart(1, 2))

	stop()
	require.Zero(t, c.value("cpnode_retention_enforcer_partitions"), "a node that no longer leads schedules nothing")
}

func TestRetentionFailureOfOnePartition(t *testing.T) {
	c := newCluster(t)
	c.create(1, 4, map[string]string{"retention.bytes": "0"})
	for p := range int32(4) {
		c.commit(1, p, 1)
	}
	c.poisoned = ref(1, 0)
	e := NewRetentionEnforcer(c, retentionConfig(), c.deps)
	totals, err := e.RunOnce(t.Context())
	require.ErrorIs(t, err, &ops.Error{Code: ops.Internal})
	require.Equal(t, RetentionTotals{Partitions: 3, BatchesDeleted: 3, BytesDeleted: 300}, totals)
	require.Zero(t, c.logStart(1, 0))
	require.Equal(t, 1.0, c.value("cpnode_retention_enforcer_errors_total"))
}
