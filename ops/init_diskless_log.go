package ops

import (
	"fmt"
	"math"

	"github.com/cpnode/cpnode/store"
)

// InitDisklessLogRequest begins the diskless part of logs, with the producers
// known so far.
type InitDisklessLogRequest struct {
	Requests []InitLog `json:"requests"`
}

// InitLog begins one log at DisklessStartOffset, which becomes its high watermark.
type InitLog struct {
	TopicID             store.TopicID   `json:"topic_id"`
	TopicName           string          `json:"topic_name"`
	Partition           int32           `json:"partition" min:"0"`
	LogStartOffset      int64           `json:"log_start_offset"`
	DisklessStartOffset int64           `json:"diskless_start_offset" doc:"First offset owned by diskless storage, >= log_start_offset."`
	ProducerStates      []ProducerState `json:"producer_states" default:"[]" doc:"Remembered batches, oldest first for each producer."`
}

// InitDisklessLogResponse answers each partition in the order of the request.
type InitDisklessLogResponse struct {
	Responses []InitializedLog `json:"responses"`
}

// InitializedLog is the answer for one partition.
type InitializedLog struct {
	TopicID   store.TopicID `json:"topic_id"`
	Partition int32         `json:"partition"`
	Error     Code          `json:"error"`
}

// Validate bounds the request.
func (r *InitDisklessLogRequest) Validate(lim Limits) error {
	for i := range r.Requests {
		field := fmt.Sprintf("requests[%d].producer_states", i)
		if err := atMost(field, len(r.Requests[i].ProducerStates), lim.ProducerRows); err != nil {
			return err
		}
	}
	return atMost("requests", len(r.Requests), lim.Items)
}

func (*InitDisklessLogRequest) maxElements(lim Limits) int { return lim.ProducerRows }

// Begin logs entries of about s.ItemRows logs and producer states.
func (r *InitDisklessLogRequest) Begin(s Settings) Steps {
	maxPartitions := int64(s.Limits.Partitions)
	return &together[InitLog, InitializedLog]{
		items: r.Requests, budget: s.ItemRows, weigh: (*InitLog).weight,
		decide:  (&initLogs{maxPartitions: maxPartitions}).decide,
		command: func(items []InitLog) Command { return &initLogs{items, maxPartitions} },
		respond: func(answers []InitializedLog) any { return &InitDisklessLogResponse{Responses: answers} },
	}
}

// weight counts rows, and a name that no topic can have by its length, so that an
// entry is bounded in bytes too.
func (r *InitLog) weight() int64 {
	return 1 + int64(len(r.ProducerStates)) + textWeight(r.TopicName)
}

// initLogs is the logged command.
type initLogs struct {
	items         []InitLog
	maxPartitions int64
}

func (*initLogs) Op() string { return "init-diskless-log" }

func (c *initLogs) fields(f *codec) {
	f.object(2, func(f *codec) {
		list(f, &c.items, 6, func(f *codec, r *InitLog) { r.fields(f) })
		f.int64(&c.maxPartitions)
	})
}

func (r *InitLog) fields(f *codec) {
	f.topicID(&r.TopicID)
	f.string(&r.TopicName)
	f.int32(&r.Partition)
	f.int64(&r.LogStartOffset)
	f.int64(&r.DisklessStartOffset)
	producerStates(f, &r.ProducerStates)
}

func producerStates(f *codec, all *[]ProducerState) {
	list(f, all, 6, func(f *codec, p *ProducerState) {
		f.int64(&p.ProducerID)
		f.int16(&p.ProducerEpoch)
		f.int32(&p.BaseSequence)
		f.int32(&p.LastSequence)
		f.int64(&p.AssignedOffset)
		f.int64(&p.BatchMaxTimestamp)
	})
}

// Apply writes the logs and producers of the command. A log that it overwrites
// has no more producers than the entry that made it.
func (c *initLogs) Apply(tx *store.WriteTx, nowMs int64) (any, error) {
	return applyTogether(tx, c.items, nowMs, c.decide)
}

func (c *initLogs) decide(tx *store.ReadTx, r *InitLog, nowMs int64) (change[InitializedLog], error) {
	answer := InitializedLog{r.TopicID, r.Partition, InvalidRequest}
	if r.LogStartOffset < 0 || r.DisklessStartOffset < r.LogStartOffset || r.Partition < 0 || int64(r.Partition) >= c.maxPartitions {
		return change[InitializedLog]{answer: answer}, nil
	}
	t, known, err := tx.Topic(r.TopicID)
	if err != nil {
		return change[InitializedLog]{}, err
	}
	l, exists, err := tx.Log(r.key())
	if err != nil {
		return change[InitializedLog]{}, err
	}
	if known {
		answer.Error, err = r.check(tx, &t, &l, exists)
	} else {
		answer.Error, err = r.checkNew(tx)
	}
	if err != nil || answer.Error != None {
		return change[InitializedLog]{answer: answer}, err
	}
	return change[InitializedLog]{answer, func(tx *store.WriteTx) error {
		if !known {
			if err := tx.PutTopic(r.TopicID, newTopic(r.TopicName, nil, nowMs)); err != nil {
				return err
			}
		}
		return r.write(tx, &l, exists, nowMs)
	}}, nil
}

func (r *InitLog) key() store.LogKey { return store.LogKey{Topic: r.TopicID, Partition: r.Partition} }

// checkNew says whether an unknown topic may begin with this log.
func (r *InitLog) checkNew(tx *store.ReadTx) (Code, error) {
	refused, err := checkNewTopic(tx, r.TopicID, r.TopicName)
	if refused != nil {
		return refused.Code, nil
	}
	return None, err
}

// check says whether the log of a known topic may begin here: there is none, or one
// that was created and never used. Where brokers keep a classic prefix, or replicas,
// only a seal or the registration begins it.
func (r *InitLog) check(tx *store.ReadTx, t *store.Topic, l *store.Log, exists bool) (Code, error) {
	if t.Deleted {
		return UnknownTopicOrPartition, nil
	}
	_, registered, err := tx.Registration(r.key())
	switch {
	case err != nil || registered || t.Name != r.TopicName || t.Origin == store.OriginClassic:
		return InvalidRequest, err
	case !exists:
		return None, nil
	case l.HighWatermark == 0 && l.DisklessStartOffset == 0 && l.Batches() == 0 && r.DisklessStartOffset > 0:
		return None, nil
	}
	return AlreadyInitialized, nil
}

// write creates the log, or overwrites the unused one, of which only the remote
// log start stays.
func (r *InitLog) write(tx *store.WriteTx, l *store.Log, exists bool, nowMs int64) error {
	if !exists {
		if err := tx.CreateLog(r.key(), store.NewLog(r.LogStartOffset, r.DisklessStartOffset)); err != nil {
			return err
		}
		return r.writeProducers(tx, nowMs)
	}
	l.LogStartOffset, l.HighWatermark, l.DisklessStartOffset = r.LogStartOffset, r.DisklessStartOffset, r.DisklessStartOffset
	if err := tx.PutLog(r.key(), *l); err != nil {
		return err
	}
	if _, err := dropProducers(tx, l.ID, math.MaxInt64); err != nil {
		return err
	}
	return r.writeProducers(tx, nowMs)
}

// writeProducers keeps, for each producer, the newest batches of its highest epoch.
func (r *InitLog) writeProducers(tx *store.WriteTx, nowMs int64) error {
	l, _, err := tx.Log(r.key())
	if err != nil {
		return err
	}
	for _, s := range r.ProducerStates {
		p, known, err := tx.Producer(l.ID, s.ProducerID)
		if err != nil {
			return err
		}
		if known && s.ProducerEpoch < p.Epoch {
			continue
		}
		if !known || s.ProducerEpoch > p.Epoch {
			p = store.Producer{Epoch: s.ProducerEpoch}
		}
		p.Remember(store.ProducerEntry{BaseSequence: s.BaseSequence, LastSequence: s.LastSequence, AssignedOffset: s.AssignedOffset, BatchMaxTimestamp: s.BatchMaxTimestamp})
		p.UpdatedAt = nowMs
		if err := tx.PutProducer(l.ID, s.ProducerID, p); err != nil {
			return err
		}
	}
	return nil
}

// dropProducers removes at most limit producer states of a log and returns how many.
func dropProducers(tx *store.WriteTx, logID uint64, limit int64) (int64, error) {
	var ids []int64
	err := tx.ProducersOfLog(logID, func(id int64, _ *store.Producer) bool {
		if int64(len(ids)) == limit {
			return false
		}
		ids = append(ids, id)
		return true
	})
	for _, id := range ids {
		if err == nil {
			err = tx.DropProducer(logID, id)
		}
	}
	return int64(len(ids)), err
}
