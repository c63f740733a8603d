package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// owner is a client with a topic and objects of its own, which nobody else touches but
// the workers. It repeats each request until it is answered; all of them may be
// repeated. So it knows what every answer must be.
type owner struct {
	cluster *cluster
	id      int
	random  *rand.Rand
	done    map[string]int // operations, by name

	topic store.TopicID // zero while there is none
	made  int           // topics
	files int
	logs  [ownedLogs]ownedLog
}

const ownedLogs = 2

// ownedLog is what the owner knows of a partition.
type ownedLog struct {
	end   int64 // high watermark
	start int64 // the least that the log start may be
	next  int32 // sequence of its producer
}

const (
	askFor   = 2 * time.Second        // patience for one attempt
	askAgain = 100 * time.Millisecond // between attempts
	ownPause = 150 * time.Millisecond // between operations, on average
)

func newOwner(c *cluster, id int) *owner {
	return &owner{cluster: c, id: id, random: rand.New(rand.NewPCG(c.scenario.Seed, uint64(2000+id))), done: map[string]int{}}
}

// live works until ctx ends. What was under way then has been answered.
func (o *owner) live(ctx context.Context) {
	for ctx.Err() == nil {
		o.step()
		pause(ctx, time.Duration(o.random.Int64N(int64(2*ownPause))))
	}
}

// step is one operation.
func (o *owner) step() {
	if o.topic.IsZero() {
		o.create()
		return
	}
	switch p := o.random.IntN(100); {
	case p < 50:
		o.commit()
	case p < 60:
		o.check()
	case p < 67:
		o.deleteRecords()
	case p < 74:
		o.prune()
	case p < 78:
		o.retain()
	case p < 82:
		o.advance()
	case p < 86:
		o.fence()
	case p < 89:
		o.purge()
	case p < 92:
		o.producer()
	case p < 96:
		o.describe()
	default:
		o.delete()
	}
}

// method is an operation of the control plane.
type method[Q, A any] func(api.ControlPlane, context.Context, *Q, ...api.Option) (*A, error)

// giveUp bounds how long a request is repeated: no fault takes so long.
const giveUp = 10 * time.Minute

// ask repeats a request at one node after the other until it is answered, with an
// answer or with the code that is expected. It is nil when there is no answer.
func ask[Q, A any](o *owner, name string, m method[Q, A], request *Q, expected ops.Code) (answer *A) {
	o.done[name]++
	var last error
	for end := time.Now().Add(giveUp); time.Now().Before(end) && !o.cluster.hopeless.Load(); time.Sleep(askAgain) {
		n := o.cluster.nodes[o.random.IntN(len(o.cluster.nodes))]
		ctx, cancel := context.WithTimeout(context.Background(), askFor)
		err := n.call(func(p api.ControlPlane) (err error) {
			answer, err = m(p, ctx, request)
			return err
		})
		cancel()
		if err == nil {
			return answer
		}
		var e *ops.Error
		if last = err; errors.As(err, &e) && !again[e.Code] {
			if e.Code != expected {
				o.fail("%s answered %v", name, err)
			}
			return nil
		}
	}
	if !o.cluster.hopeless.Load() {
		o.fail("%s was not answered for %s: %v", name, giveUp, last)
	}
	return nil
}

// again are errors after which a request is repeated.
var again = map[ops.Code]bool{
	ops.NoLeader: true, ops.ShuttingDown: true, ops.OutcomeUnknown: true, ops.NotCaughtUp: true, ops.Overloaded: true, ops.StorageFull: true, ops.NodeCorrupt: true,
}

func (o *owner) fail(format string, args ...any) {
	o.cluster.fail("owner %d of topic %s: %s", o.id, o.topic, fmt.Sprintf(format, args...))
}

// expect notes an answer that is not the one there must be.
func (o *owner) expect(ok bool, format string, args ...any) {
	if !ok {
		o.fail(format, args...)
	}
}

func (o *owner) create() {
	o.made++
	o.logs = [ownedLogs]ownedLog{}
	o.topic = store.TopicID{0x0a, byte(o.id), 6: 0x40, 8: 0x80, 14: byte(o.made >> 8), 15: byte(o.made)}
	answer := ask(o, "create-topics", api.ControlPlane.CreateTopics, &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{{
		TopicID: o.topic, TopicName: fmt.Sprintf("owned-%d", o.id), NumPartitions: ownedLogs,
		Config: map[string]string{"retention.bytes": fmt.Sprint(20_000 + o.random.IntN(20_000))},
	}}}, "")
	if answer != nil {
		o.expect(answer.Topics[0].Error == ops.None, "it was not created: %s", answer.Topics[0].Error)
	}
}

// key is an object key that was never used before.
func (o *owner) key() string {
	o.files++
	return fmt.Sprintf("owned/%d/%06d", o.id, o.files)
}

func (o *owner) commit() {
	request := &ops.CommitFileRequest{ObjectKey: o.key(), Format: 1, UploaderBrokerID: int32(o.id)}
	for p := range int32(ownedLogs) {
		records := 1 + o.random.Int32N(20)
		b := ops.CommitBatch{
			TopicID: o.topic, Partition: p, Magic: 2, ByteOffset: request.FileSize, ByteSize: 100 + o.random.Int64N(2000), LastOffset: int64(records) - 1,
			BatchMaxTimestamp: time.Now().UnixMilli(), ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1,
		}
		if p == 0 {
			l := &o.logs[p]
			b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.LastSequence = int64(o.id), 0, l.next, l.next+records-1
			l.next += records
		}
		request.Batches = append(request.Batches, b)
		request.FileSize += b.ByteSize
	}
	answer := ask(o, "commit-file", api.ControlPlane.CommitFile, request, "")
	if answer == nil {
		return
	}
	for i, b := range answer.Batches {
		l := &o.logs[i]
		o.expect(b.Error == ops.None && b.AssignedBaseOffset == l.end, "%s: partition %d: %s at offset %d, the log ended at %d", request.ObjectKey, i, b.Error, b.AssignedBaseOffset, l.end)
		l.end += request.Batches[i].LastOffset + 1
	}
}

func (o *owner) refs() (refs []ops.LogRef) {
	for p := range int32(ownedLogs) {
		refs = append(refs, ops.LogRef{TopicID: o.topic, Partition: p})
	}
	return refs
}

// check reads how far the logs go.
func (o *owner) check() {
	answer := ask(o, "get-log-info", api.ControlPlane.GetLogInfo, &ops.GetLogInfoRequest{Requests: o.refs()}, "")
	if answer == nil {
		return
	}
	for i, l := range answer.Responses {
		k := &o.logs[i]
		o.expect(l.Error == ops.None && l.HighWatermark == k.end && l.LogStartOffset >= k.start && l.LogStartOffset <= k.end,
			"partition %d: %s, offsets %d to %d; the log ends at %d and begins at %d or later", i, l.Error, l.LogStartOffset, l.HighWatermark, k.end, k.start)
		k.start = max(k.start, l.LogStartOffset)
	}
}

func (o *owner) deleteRecords() {
	p := o.random.IntN(ownedLogs)
	l := &o.logs[p]
	to := l.start + o.random.Int64N(l.end-l.start+1)
	answer := ask(o, "delete-records", api.ControlPlane.DeleteRecords, &ops.DeleteRecordsRequest{Requests: []ops.DeleteRecords{{TopicID: o.topic, Partition: int32(p), Offset: to}}}, "")
	if answer == nil {
		return
	}
	// Retention may have been faster.
	if got := answer.Responses[0]; got.Error != ops.OffsetOutOfRange {
		o.expect(got.Error == ops.None && got.LogStartOffset >= to, "records before %d of partition %d: %s, the log begins at %d", to, p, got.Error, got.LogStartOffset)
		l.start = max(l.start, got.LogStartOffset)
	}
}

// prune says that tiered storage holds a part.
func (o *owner) prune() {
	p := o.random.IntN(ownedLogs)
	l := &o.logs[p]
	highest := l.start + o.random.Int64N(l.end-l.start+1) - 1
	answer := ask(o, "prune-diskless-logs", api.ControlPlane.PruneDisklessLogs, &ops.PruneDisklessLogsRequest{
		Requests: []ops.PruneLog{{TopicID: o.topic, Partition: int32(p), HighestRemoteOffset: highest}}, MaxBatches: 3,
	}, "")
	if answer != nil {
		o.expect(answer.Responses[0].Error == ops.None, "prune partition %d to %d: %s", p, highest, answer.Responses[0].Error)
	}
}

func (o *owner) retain() {
	answer := ask(o, "enforce-retention", api.ControlPlane.EnforceRetention, &ops.EnforceRetentionRequest{
		Requests: []ops.EnforceRetention{{TopicID: o.topic, Partition: 1, RetentionBytes: 10_000, RetentionMs: -1}}, MaxBatchesPerRequest: 5,
	}, "")
	if answer != nil {
		o.expect(answer.Responses[0].Error == ops.None, "enforce retention: %s", answer.Responses[0].Error)
	}
}

func (o *owner) advance() {
	answer := ask(o, "advance-cross-tier-log-start", api.ControlPlane.AdvanceCrossTierLogStart, &ops.AdvanceCrossTierLogStartRequest{
		Requests: []ops.AdvanceLogStart{{TopicID: o.topic, RemoteLogStartOffset: o.logs[0].start}},
	}, "")
	if answer != nil {
		o.expect(answer.Responses[0].Error == ops.None, "advance the log start across tiers: %s", answer.Responses[0].Error)
	}
}

// fence asks whether an object that was never committed may be deleted. Once that is
// promised, it is never committed.
func (o *owner) fence() {
	key := o.key()
	answer := ask(o, "is-safe-to-delete-file", api.ControlPlane.IsSafeToDeleteFile, &ops.IsSafeToDeleteFileRequest{ObjectKey: key, Fence: true}, "")
	if answer == nil {
		return
	}
	o.expect(answer.Safe, "%s was never committed, and is not safe to delete", key)
	late := &ops.CommitFileRequest{ObjectKey: key, Format: 1, FileSize: 100, Batches: []ops.CommitBatch{{
		TopicID: o.topic, Partition: 1, Magic: 2, ByteSize: 100, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1,
	}}}
	if ask(o, "commit-file", api.ControlPlane.CommitFile, late, ops.ObjectKeyFenced) != nil {
		o.fail("%s was safe to delete, and committed afterwards", key)
	}
}

func (o *owner) purge() {
	ask(o, "purge-deleted-logs", api.ControlPlane.PurgeDeletedLogs, &ops.PurgeDeletedLogsRequest{MaxBatches: 10}, "")
}

// producer reads what is remembered of its idempotent producer.
func (o *owner) producer() {
	answer := ask(o, "get-producer-state", api.ControlPlane.GetProducerState, &ops.GetProducerStateRequest{Requests: o.refs()[:1]}, "")
	if answer == nil {
		return
	}
	l, last := &o.logs[0], int32(-1)
	for _, e := range answer.Responses[0].Entries {
		last = e.LastSequence
	}
	o.expect(last == l.next-1, "the producer's last sequence is %d, not %d", last, l.next-1)
}

func (o *owner) describe() {
	answer := ask(o, "describe-topic", api.ControlPlane.DescribeTopic, &ops.DescribeTopicRequest{TopicID: o.topic}, "")
	if answer != nil {
		o.expect(answer.Error == ops.None && len(answer.Logs) == ownedLogs, "described: %s, %d partitions", answer.Error, len(answer.Logs))
	}
}

// delete deletes the topic, whose name is free then.
func (o *owner) delete() {
	answer := ask(o, "delete-topics", api.ControlPlane.DeleteTopics, &ops.DeleteTopicsRequest{TopicIDs: []store.TopicID{o.topic}}, "")
	if answer == nil {
		return
	}
	gone := ask(o, "get-log-info", api.ControlPlane.GetLogInfo, &ops.GetLogInfoRequest{Requests: o.refs()}, "")
	if gone != nil {
		o.expect(gone.Responses[0].Error == ops.UnknownTopicOrPartition, "it was deleted, and is there: %s", gone.Responses[0].Error)
	}
	o.topic = store.TopicID{}
}
