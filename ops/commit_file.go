package ops

import (
	"fmt"

	"github.com/cpnode/cpnode/store"
)

// CommitFileRequest commits one uploaded object: its batches get their offsets.
type CommitFileRequest struct {
	ObjectKey        string        `json:"object_key" doc:"Key of the object in object storage."`
	Format           int64         `json:"format" default:"1" doc:"Layout of the object."`
	UploaderBrokerID int32         `json:"uploader_broker_id" doc:"Broker that wrote the object."`
	FileSize         int64         `json:"file_size" doc:"Size of the object in bytes."`
	Batches          []CommitBatch `json:"batches" doc:"Record batches, in the order in which offsets are given."`
}

// CommitBatch is one record batch of an object. BaseOffset and LastOffset are
// the producer's: only their difference counts.
type CommitBatch struct {
	TopicID           store.TopicID `json:"topic_id"`
	Partition         int32         `json:"partition" min:"0"`
	Magic             int8          `json:"magic" default:"2"`
	ByteOffset        int64         `json:"byte_offset"`
	ByteSize          int64         `json:"byte_size"`
	BaseOffset        int64         `json:"base_offset"`
	LastOffset        int64         `json:"last_offset"`
	TimestampType     int8          `json:"timestamp_type" default:"0"`
	BatchMaxTimestamp int64         `json:"batch_max_timestamp"`
	ProducerID        int64         `json:"producer_id" default:"-1"`
	ProducerEpoch     int16         `json:"producer_epoch" default:"-1"`
	BaseSequence      int32         `json:"base_sequence" default:"-1"`
	LastSequence      int32         `json:"last_sequence" default:"-1"`
}

// CommitFileResponse answers a commit, batch by batch in the order of the request.
type CommitFileResponse struct {
	Batches []CommittedBatch `json:"batches"`
	// Replayed: the object key was committed before, this is that answer.
	Replayed bool `json:"replayed"`
}

// CommittedBatch is the answer to one batch.
type CommittedBatch struct {
	TopicID            store.TopicID `json:"topic_id"`
	Partition          int32         `json:"partition"`
	Error              Code          `json:"error"`
	AssignedBaseOffset int64         `json:"assigned_base_offset"`
	LogAppendTime      int64         `json:"log_append_time"`
	LogStartOffset     int64         `json:"log_start_offset"`
	Duplicate          bool          `json:"duplicate"`
}

// Validate refuses what would make the request wrong as a whole.
func (r *CommitFileRequest) Validate(lim Limits) error {
	if r.ObjectKey == "" || len(r.ObjectKey) > lim.ObjectKey {
		return invalid("object_key", "must be 1 to %d bytes", lim.ObjectKey)
	}
	if err := atMost("batches", len(r.Batches), lim.Batches); err != nil {
		return err
	}
	for i := range r.Batches {
		b := &r.Batches[i]
		if b.ByteSize <= 0 {
			return invalid(fmt.Sprintf("batches[%d].byte_size", i), "must be > 0")
		}
		if b.LastOffset < b.BaseOffset {
			return invalid(fmt.Sprintf("batches[%d].last_offset", i), "must be >= base_offset")
		}
		if b.LastOffset-b.BaseOffset < 0 {
			return invalid(fmt.Sprintf("batches[%d].last_offset", i), "is too far from base_offset")
		}
	}
	return nil
}

// Begin logs the commit whole: it is never split.
func (r *CommitFileRequest) Begin(s Settings) Steps {
	return &commitSteps{command: commitFile{request: *r, coalesce: s.Coalesce, replayRetentionMs: s.ReplayRetentionMs}}
}

// commitSteps logs a commit unless its key is known or fenced already.
type commitSteps struct {
	command commitFile
	answer  *CommitFileResponse
}

func (s *commitSteps) Next(tx *store.ReadTx, nowMs int64) (Command, error) {
	if len(s.command.request.Batches) == 0 {
		s.answer = &CommitFileResponse{Batches: []CommittedBatch{}}
		return nil, nil
	}
	result, err := s.command.settled(tx, nowMs)
	if err != nil || result == nil {
		return &s.command, err
	}
	if refused, ok := result.(*Error); ok {
		return nil, refused
	}
	s.Took(result)
	return nil, nil
}

func (s *commitSteps) Took(result any) bool {
	s.answer = result.(*CommitFileResponse)
	return true
}

func (s *commitSteps) Answer() any { return s.answer }

// commitFile is the logged command.
type commitFile struct {
	request           CommitFileRequest
	coalesce          bool
	replayRetentionMs int64

	digest *[digestSize]byte // of the request, once it is known; not logged
}

func (*commitFile) Op() string { return "commit-file" }

func (c *commitFile) fields(f *codec) {
	f.object(3, func(f *codec) {
		if f.field() {
			start := f.position()
			c.request.fields(f)
			c.tookDigest(f.since(start))
		}
		f.bool(&c.coalesce)
		f.int64(&c.replayRetentionMs)
	})
}

func (r *CommitFileRequest) fields(f *codec) {
	f.object(5, func(f *codec) {
		f.string(&r.ObjectKey)
		f.int64(&r.Format)
		f.int32(&r.UploaderBrokerID)
		f.int64(&r.FileSize)
		list(f, &r.Batches, 13, func(f *codec, b *CommitBatch) { b.fields(f) })
	})
}

func (b *CommitBatch) fields(f *codec) {
	f.topicID(&b.TopicID)
	f.int32(&b.Partition)
	f.int8(&b.Magic)
	f.int64(&b.ByteOffset)
	f.int64(&b.ByteSize)
	f.int64(&b.BaseOffset)
	f.int64(&b.LastOffset)
	f.int8(&b.TimestampType)
	f.int64(&b.BatchMaxTimestamp)
	f.int64(&b.ProducerID)
	f.int16(&b.ProducerEpoch)
	f.int32(&b.BaseSequence)
	f.int32(&b.LastSequence)
}

// Apply gives the batches their offsets in order. It is one pass: each batch is
// decided on what the ones before it left, which lives in the plan until all
// are decided, and written after.
func (c *commitFile) Apply(tx *store.WriteTx, nowMs int64) (any, error) {
	if result, err := c.settled(&tx.ReadTx, nowMs); err != nil || result != nil {
		return result, err
	}
	p := newCommitPlan(c, nowMs)
	defer p.release()
	answer := &CommitFileResponse{Batches: make([]CommittedBatch, len(c.request.Batches))}
	for i := range c.request.Batches {
		if err := p.decide(tx, i, &answer.Batches[i]); err != nil {
			return nil, err
		}
	}
	return answer, p.write(tx)
}
