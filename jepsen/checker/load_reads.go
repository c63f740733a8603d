package checker

import (
	"github.com/cpnode/cpnode/jepsen/history"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// addRead takes in a read of one partition, unless it had no answer.
func (p *parsed) addRead(topic store.TopicID, partition int32, r *read, v *Verdict) {
	v.checkItem(r.line, r.record, r.err)
	l := p.log(topic, partition)
	l.reads = append(l.reads, r)
}

func (p *parsed) addFind(line int, r *history.Record, v *Verdict) error {
	var request ops.FindBatchesRequest
	var answer ops.FindBatchesResponse
	if err := r.Decode(&request, &answer); err != nil {
		return err
	}
	for i, a := range answer.Responses {
		find := &found{request.Requests[i].StartingOffset, request.MaxBatchesPerPartition, a.Batches}
		p.addRead(a.TopicID, a.Partition, &read{line, r, a.Error, a.LogStartOffset, a.HighWatermark, -1, find}, v)
	}
	return nil
}

func (p *parsed) addInfo(line int, r *history.Record, v *Verdict) error {
	var request ops.GetLogInfoRequest
	var answer ops.GetLogInfoResponse
	if err := r.Decode(&request, &answer); err != nil {
		return err
	}
	for _, a := range answer.Responses {
		p.addRead(a.TopicID, a.Partition, &read{line, r, a.Error, a.LogStartOffset, a.HighWatermark, a.ByteSize, nil}, v)
	}
	return nil
}

// Kafka's special timestamps.
const (
	latest        = -1
	earliest      = -2
	earliestLocal = -4
)

func (p *parsed) addOffsets(line int, r *history.Record, v *Verdict) error {
	var request ops.ListOffsetsRequest
	var answer ops.ListOffsetsResponse
	if err := r.Decode(&request, &answer); err != nil {
		return err
	}
	for i, a := range answer.Responses {
		e := &read{line, r, a.Error, -1, -1, -1, nil}
		switch request.Requests[i].Timestamp {
		case latest:
			e.end = a.Offset
		case earliest, earliestLocal:
			e.start = a.Offset
		}
		p.addRead(a.TopicID, a.Partition, e, v)
	}
	return nil
}

// link tells commits of the reads that found them.
func (l *log) link(v *Verdict) {
	for _, r := range l.reads {
		if r.find == nil {
			continue
		}
		for _, b := range r.find.batches {
			c := l.byKey[b.ObjectKey]
			if c == nil {
				v.fail(CheckOffsets, []int{r.line}, "%s: offsets %d to %d hold %s, which nobody sent there", l.name, b.BaseOffset, b.LastOffset, b.ObjectKey)
				continue
			}
			c.sightings = append(c.sightings, sighting{r.line, r.record, b})
		}
	}
}
