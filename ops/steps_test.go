package ops_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

// step is one operation of a scenario. In request and answer @a to @d stand for
// topic ids. A want without a brace is the code of the error object.
type step struct {
	op      string
	request string
	want    string // "" = not compared
	entries int    // entries that are logged
}

// tick is how far the clock moves before each step.
const tick = 10

// startMs is the clock of the first step.
const startMs = 1000

func play(t *testing.T, settings ops.Settings, steps ...step) *node {
	t.Helper()
	n := newNode(t, settings)
	n.play(startMs, steps...)
	return n
}

// play carries out steps from a clock on and returns the clock of the next one.
func (n *node) play(nowMs int64, steps ...step) int64 {
	n.t.Helper()
	for i, s := range steps {
		logged := len(n.log)
		answer, code := n.do(s.op, nowMs, []byte(expand(s.request)))
		what := fmt.Sprintf("step %d: %s %s: %s%s", i, s.op, s.request, answer, code)
		if s.want != "" && !strings.HasPrefix(s.want, "{") {
			require.Equal(n.t, s.want, string(code), what)
		} else {
			require.Empty(n.t, string(code), what)
		}
		if strings.HasPrefix(s.want, "{") {
			require.Equal(n.t, canonical(n.t, []byte(expand(s.want))), canonical(n.t, answer), what)
		}
		require.Equal(n.t, s.entries, len(n.log)-logged, "entries of "+what)
		nowMs += tick
	}
	return nowMs
}

var topicIDs = strings.NewReplacer(
	"@a", "00000000-0000-4000-8000-00000000000a", "@b", "00000000-0000-4000-8000-00000000000b",
	"@c", "00000000-0000-4000-8000-00000000000c", "@d", "00000000-0000-4000-8000-00000000000d")

func expand(text string) string { return topicIDs.Replace(text) }

// createA makes topic @a with two partitions.
var createA = step{"create-topics", `{"topics": [{"topic_id": "@a", "topic_name": "a", "num_partitions": 2}]}`, "", 1}

var deleteA = step{"delete-topics", `{"topic_ids": ["@a"]}`, "", 1}

// commit is a commit of batches, each 100 bytes and apart from the one before.
func commit(key string, batches ...string) step {
	var list []string
	for i, b := range batches {
		list = append(list, fmt.Sprintf(`{"byte_offset": %d, "byte_size": 100, %s}`, 1000*i, b))
	}
	return step{"commit-file", fmt.Sprintf(`{"object_key": %q, "uploader_broker_id": 1, "file_size": 5000, "batches": [%s]}`, key, strings.Join(list, ", ")), "", 1}
}

// batch is one of 10 records in a partition of @a with a timestamp.
func batch(partition int, timestamp int64) string {
	return fmt.Sprintf(`"topic_id": "@a", "partition": %d, "base_offset": 0, "last_offset": 9, "batch_max_timestamp": %d`, partition, timestamp)
}

// sequenced gives a batch of 10 records to a producer.
func sequenced(batch string, producer, epoch, base int) string {
	return fmt.Sprintf(`%s, "producer_id": %d, "producer_epoch": %d, "base_sequence": %d, "last_sequence": %d`, batch, producer, epoch, base, base+9)
}

func (s step) wants(want string) step {
	s.want = want
	return s
}

func (s step) logs(entries int) step {
	s.entries = entries
	return s
}

// rows is the default settings with a bound on the rows of an entry.
func rows(n int64) ops.Settings {
	s := ops.DefaultSettings()
	s.PurgeRows, s.PruneRows, s.RetentionRows, s.DeleteRecordsRows, s.ItemRows, s.ExpireRows, s.BrokerRows = n, n, n, n, n, n, n
	return s
}
