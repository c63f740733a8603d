package ops_test

import (
	"encoding/json"
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// The steps of brokers. Epochs count from 1 in the order of registrations.

func registers(broker int, incarnation string, clean bool) step {
	return step{"register-broker", fmt.Sprintf(`{"broker_id": %d, "incarnation_id": %q, "endpoints": ["b%d:9092"], "clean_shutdown": %t}`, broker, incarnation, broker, clean), "", 1}
}

func heartbeats(broker, epoch int) step {
	return step{"broker-heartbeat", fmt.Sprintf(`{"broker_id": %d, "broker_epoch": %d}`, broker, epoch), `{"error": "NONE", "fenced": false, "session_ms": 9000}`, 1}
}

func fences(broker int) step {
	return step{"fence-broker", fmt.Sprintf(`{"broker_id": %d}`, broker), `{"error": "NONE"}`, 1}
}

func unfences(broker int) step {
	return step{"unfence-broker", fmt.Sprintf(`{"broker_id": %d}`, broker), `{"error": "NONE"}`, 1}
}

// liveBrokers are the steps after which brokers 1 to n live, with epochs 1 to n.
func liveBrokers(n int) (steps []step) {
	for id := 1; id <= n; id++ {
		steps = append(steps, registers(id, fmt.Sprint("i", id), true), heartbeats(id, id))
	}
	return steps
}

// partitions registers partitions 0 to n-1 of topic @a, each with the replicas.
func partitions(n int, replicas, config string, more ...string) step {
	var list []byte
	for p := range n {
		list = fmt.Appendf(list, `, {"partition": %d, "replicas": [%s]}`, p, replicas)
	}
	extra := ""
	for _, m := range more {
		extra += ", " + m
	}
	return step{"register-partitions", fmt.Sprintf(`{"topic_id": "@a", "topic_name": "a", "partitions": [%s], "config": {%s}%s}`, list[min(2, len(list)):], config, extra), `{"error": "NONE"}`, 1}
}

const tiered = `"remote.storage.enable": "true"`

var beginA = step{"begin-switch", `{"topic_id": "@a"}`, `{"error": "NONE"}`, 1}

func seals(partition, broker, epoch, start, offset int) step {
	return step{"commit-seal", fmt.Sprintf(`{"requests": [{"topic_id": "@a", "partition": %d, "broker_id": %d, "leader_epoch": %d, "log_start_offset": %d, "diskless_start_offset": %d}]}`,
		partition, broker, epoch, start, offset), "", 1}.item(partition, ops.None)
}

func flags(partition, broker, epoch, start, remote int) step {
	return step{"commit-prefix-in-remote-storage", fmt.Sprintf(`{"requests": [{"topic_id": "@a", "partition": %d, "broker_id": %d, "leader_epoch": %d, "log_start_offset": %d, "highest_remote_offset": %d}]}`,
		partition, broker, epoch, start, remote), "", 1}.item(partition, ops.None)
}

// item wants one answer with an error, which logs nothing unless it is NONE.
func (s step) item(partition int, code ops.Code) step {
	s.want = fmt.Sprintf(`{"responses": [{"topic_id": "@a", "partition": %d, "error": %q}]}`, partition, code)
	if code != ops.None {
		s.entries = 0
	}
	return s
}

// refused wants the answer of an operation on a single thing to be an error.
func (s step) refused(code ops.Code) step {
	s.want, s.entries = fmt.Sprintf(`{"error": %q}`, code), 0
	return s
}

func alters(partition, broker, leaderEpoch, partitionEpoch int, members string) step {
	return step{"alter-partition", fmt.Sprintf(`{"topic_id": "@a", "partition": %d, "broker_id": %d, "leader_epoch": %d, "partition_epoch": %d, "new_isr": [%s]}`,
		partition, broker, leaderEpoch, partitionEpoch, members), `{"error": "NONE"}`, 1}
}

// member is a broker whose epoch is its id.
func member(id int) string { return fmt.Sprintf(`{"broker_id": %d, "broker_epoch": %d}`, id, id) }

func elects(partition int, election string) step {
	return step{"elect-leader", fmt.Sprintf(`{"topic_id": "@a", "partition": %d, "election": %q}`, partition, election), `{"error": "NONE"}`, 1}
}

func overrides(partition, seal, start, end int, more string) step {
	return step{"override-switch", fmt.Sprintf(`{"topic_id": "@a", "partition": %d, "seal_offset": %d, "log_start_offset": %d, "log_end_offset": %d%s}`, partition, seal, start, end, more), "", 1}
}

// stands is what describe-partitions says of a partition of topic @a.
func (n *node) stands(partition int) (d ops.DescribedPartition) {
	n.t.Helper()
	answer, code := n.do("describe-partitions", startMs, fmt.Appendf(nil, `{"requests": [{"topic_id": %q, "partition": %d}]}`, expand("@a"), partition))
	require.Empty(n.t, code)
	var all ops.DescribePartitionsResponse
	require.NoError(n.t, json.Unmarshal(answer, &all))
	return all.Responses[0]
}

// is compares what matters most of a partition.
func (n *node) is(partition int, state ops.PartitionState, leader, leaderEpoch, partitionEpoch int32, isr ...int32) {
	n.t.Helper()
	d := n.stands(partition)
	require.Equal(n.t, ops.None, d.Error)
	require.Equal(n.t, []any{state, leader, leaderEpoch, partitionEpoch, append([]int32{}, isr...)},
		[]any{d.State, d.Leader, d.LeaderEpoch, d.PartitionEpoch, d.ISR})
}

// later plays steps at a time after all others.
func (n *node) later(steps ...step) {
	n.t.Helper()
	n.play(n.meta().LastClockMs+tick, steps...)
}

// broker is the row of a broker.
func (n *node) broker(id int32) (b store.Broker) {
	n.t.Helper()
	require.NoError(n.t, n.store.View(func(tx *store.ReadTx) (err error) {
		b, _, err = tx.Broker(id)
		return err
	}))
	return b
}
