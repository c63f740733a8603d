package checker

import (
	"fmt"
	"slices"

	"github.com/cpnode/cpnode/jepsen/history"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// owned is what the clients know that have topics and objects of their own: each is
// alone at its topic, and repeats what was not answered, so its history says what every
// answer must be. Only the log start may be later than it was told: a part that was
// given up may still be pruned.
type owned struct {
	v       *Verdict
	topics  map[store.TopicID]*ownedTopic
	fenced  map[string]int             // objects promised never to be committed, by line
	finals  map[string]map[string]bool // by node: objects that batches refer to at the end
	lastOne int                        // the last line with a read of the end
}

type ownedTopic struct {
	created, deleted int // lines
	logs             map[int32]*ownedLog
}

type ownedLog struct {
	start, end int64
	batches    []ownedBatch
}

type ownedBatch struct {
	line       int
	key        string
	base, last int64
	at, size   int64 // in the object
}

// checkOwned checks the operations of the group in order, and returns what it learned.
func checkOwned(v *Verdict, records []*history.Record) (*owned, error) {
	o := &owned{v: v, topics: map[store.TopicID]*ownedTopic{}, fenced: map[string]int{}, finals: map[string]map[string]bool{}}
	for i, r := range records {
		if r.Group != history.GroupObjects {
			continue
		}
		if err := o.add(i+1, r); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	o.checkFinals()
	return o, nil
}

func (o *owned) add(line int, r *history.Record) error {
	if r.Outcome != history.OK {
		return o.addFailed(line, r)
	}
	switch r.Op {
	case "create-topics":
		return decoded(r, func(q *ops.CreateTopicsRequest, a *ops.CreateTopicsResponse) {
			o.expect(a.Topics[0].Error == ops.None, line, "topic %s was not created: %s", q.Topics[0].TopicID, a.Topics[0].Error)
			o.topics[q.Topics[0].TopicID] = &ownedTopic{created: line, logs: map[int32]*ownedLog{}}
		})
	case "delete-topics":
		return decoded(r, func(q *ops.DeleteTopicsRequest, _ *ops.DeleteTopicsResponse) { o.topics[q.TopicIDs[0]].deleted = line })
	case "commit-file":
		return decoded(r, func(q *ops.CommitFileRequest, a *ops.CommitFileResponse) { o.addCommit(line, q, a) })
	case "is-safe-to-delete-file":
		return decoded(r, func(q *ops.IsSafeToDeleteFileRequest, a *ops.IsSafeToDeleteFileResponse) {
			o.expect(a.Safe, line, "%s was never committed, and is said to be in use", q.ObjectKey)
			o.fenced[q.ObjectKey] = line
		})
	case history.ReadObject:
		return decoded(r, func(b *ops.FoundBatch, a *history.Object) { o.addObject(line, b, a) })
	case "find-batches":
		return decoded(r, func(q *ops.FindBatchesRequest, a *ops.FindBatchesResponse) { o.addFind(line, r, q, a) })
	case "list-topics", "list-files":
		return o.addList(line, r)
	case "purge-deleted-logs":
		return nil
	}
	return o.addLogs(line, r)
}

// decoded calls fn with the request and the answer of a record.
func decoded[Q, A any](r *history.Record, fn func(*Q, *A)) error {
	var q Q
	var a A
	if err := r.Decode(&q, &a); err != nil {
		return err
	}
	fn(&q, &a)
	return nil
}

func (o *owned) expect(ok bool, line int, format string, args ...any) {
	if !ok {
		o.v.fail(CheckOwned, []int{line}, format, args...)
	}
}

// addFailed refuses errors after which the client does not try again, but for objects
// that were promised to be never committed.
func (o *owned) addFailed(line int, r *history.Record) error {
	if r.Op == "commit-file" && r.Error == ops.ObjectKeyFenced {
		return decoded(r, func(q *ops.CommitFileRequest, _ *ops.CommitFileResponse) {
			o.expect(o.fenced[q.ObjectKey] > 0, line, "%s was fenced, and nobody asked for it", q.ObjectKey)
		})
	}
	o.expect(!final[r.Error], line, "%s answered %s: %s", r.Op, r.Error, r.Message)
	return nil
}

// final are errors that say the request can never be carried out.
var final = map[ops.Code]bool{
	ops.InvalidRequest: true, ops.ObjectKeyConflict: true, ops.ObjectKeyFenced: true, ops.UnknownOperation: true, ops.RequestTooLarge: true, ops.UnsupportedFeatureLevel: true,
}

func (o *owned) log(topic store.TopicID, partition int32) *ownedLog {
	t := o.topics[topic]
	if t == nil {
		t = &ownedTopic{logs: map[int32]*ownedLog{}}
		o.topics[topic] = t
	}
	if t.logs[partition] == nil {
		t.logs[partition] = &ownedLog{}
	}
	return t.logs[partition]
}

func (o *owned) addCommit(line int, q *ops.CommitFileRequest, a *ops.CommitFileResponse) {
	if at, ok := o.fenced[q.ObjectKey]; ok {
		o.v.fail(CheckOwned, []int{at, line}, "%s was safe to delete for ever, and committed afterwards", q.ObjectKey)
	}
	for i, b := range q.Batches {
		l, answer := o.log(b.TopicID, b.Partition), a.Batches[i]
		o.expect(answer.Error == ops.None && answer.AssignedBaseOffset == l.end, line, "the batch of %s in partition %d: %s at offset %d; the log ended at %d",
			q.ObjectKey, b.Partition, answer.Error, answer.AssignedBaseOffset, l.end)
		records := b.LastOffset - b.BaseOffset + 1
		l.batches = append(l.batches, ownedBatch{line, q.ObjectKey, l.end, l.end + records - 1, b.ByteOffset, b.ByteSize})
		l.end += records
	}
}

// addObject checks that the object of a batch that was just found is there, whole.
func (o *owned) addObject(line int, b *ops.FoundBatch, a *history.Object) {
	want := int64(0)
	for _, l := range o.topics[b.TopicID].logs {
		for _, known := range l.batches {
			if known.key == b.ObjectKey {
				want = max(want, known.at+known.size)
			}
		}
	}
	switch {
	case !a.Found:
		o.v.fail(CheckObjects, []int{line}, "object %s is gone, and offsets %d to %d of partition %d refer to it", b.ObjectKey, b.BaseOffset, b.LastOffset, b.Partition)
	case a.Size != want || a.Sum != history.ObjectSum(history.ObjectBytes(b.ObjectKey, want)):
		o.v.fail(CheckObjects, []int{line}, "object %s has other bytes than were written", b.ObjectKey)
	}
}

// addFind checks that what was found is all that is left of the log.
func (o *owned) addFind(line int, r *history.Record, q *ops.FindBatchesRequest, a *ops.FindBatchesResponse) {
	for i, f := range a.Responses {
		l := o.log(f.TopicID, f.Partition)
		l.advance(f.LogStartOffset)
		o.expect(f.HighWatermark == l.end && f.LogStartOffset == l.start, line, "partition %d has offsets %d to %d; it began at %d or later and ended at %d",
			f.Partition, f.LogStartOffset, f.HighWatermark, l.start, l.end)
		if f.Error == ops.OffsetOutOfRange && q.Requests[i].StartingOffset < f.LogStartOffset {
			continue
		}
		o.expect(f.Error == ops.None, line, "partition %d: %s", f.Partition, f.Error)
		left := slices.DeleteFunc(slices.Clone(l.batches), func(b ownedBatch) bool { return b.last < max(l.start, q.Requests[i].StartingOffset) })
		same := slices.EqualFunc(left, f.Batches, func(b ownedBatch, f ops.FoundBatch) bool {
			return b.key == f.ObjectKey && b.base == f.BaseOffset && b.last == f.LastOffset && b.at == f.ByteOffset && b.size == f.ByteSize
		})
		o.expect(same, line, "partition %d from offset %d on has other batches than were committed: %d in place of %d", f.Partition, q.Requests[i].StartingOffset, len(f.Batches), len(left))
		if r.Final {
			o.refer(r.Node, f.Batches)
		}
	}
	if r.Final {
		o.lastOne = line
	}
}

// refer notes the objects of batches that a node holds at the end.
func (o *owned) refer(node string, batches []ops.FoundBatch) {
	if o.finals[node] == nil {
		o.finals[node] = map[string]bool{}
	}
	for _, b := range batches {
		o.finals[node][b.ObjectKey] = true
	}
}

// advance takes in a log start, which is never set back.
func (l *ownedLog) advance(start int64) { l.start = max(l.start, start) }

// addLogs takes in the operations that answer where logs begin.
func (o *owned) addLogs(line int, r *history.Record) error {
	check := func(topic store.TopicID, p int32, code ops.Code, start, least int64) {
		l := o.log(topic, p)
		o.expect(code == ops.None && start >= max(l.start, least) && start <= l.end, line, "%s of partition %d: %s, the log begins at %d; it began at %d or later, ends at %d, and was to begin at %d or later",
			r.Op, p, code, start, l.start, l.end, least)
		l.advance(start)
	}
	switch r.Op {
	case "delete-records":
		return decoded(r, func(q *ops.DeleteRecordsRequest, a *ops.DeleteRecordsResponse) {
			check(q.Requests[0].TopicID, q.Requests[0].Partition, a.Responses[0].Error, a.Responses[0].LogStartOffset, q.Requests[0].Offset)
		})
	case "prune-diskless-logs":
		return decoded(r, func(q *ops.PruneDisklessLogsRequest, a *ops.PruneDisklessLogsResponse) {
			check(q.Requests[0].TopicID, q.Requests[0].Partition, a.Responses[0].Error, a.Responses[0].LogStartOffset, 0)
		})
	case "enforce-retention":
		return decoded(r, func(q *ops.EnforceRetentionRequest, a *ops.EnforceRetentionResponse) {
			check(q.Requests[0].TopicID, q.Requests[0].Partition, a.Responses[0].Error, a.Responses[0].LogStartOffset, 0)
		})
	case "get-log-info":
		return decoded(r, func(q *ops.GetLogInfoRequest, a *ops.GetLogInfoResponse) {
			for i, l := range a.Responses {
				if t := o.topics[q.Requests[i].TopicID]; t != nil && t.deleted > 0 {
					o.expect(l.Error == ops.UnknownTopicOrPartition, line, "topic %s was deleted by line %d, and is there: %s", q.Requests[i].TopicID, t.deleted, l.Error)
					continue
				}
				check(q.Requests[i].TopicID, q.Requests[i].Partition, l.Error, l.LogStartOffset, 0)
			}
		})
	}
	return fmt.Errorf("operation %q is not known to the checker", r.Op)
}
