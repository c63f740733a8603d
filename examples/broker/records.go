package main

import (
	"encoding/json"
	"fmt"

	switchover "github.com/cpnode/cpnode/switch"
)

// recordSet is the payload of one batch: records of an idempotent producer, the first of
// which has the given sequence.
type recordSet struct {
	ProducerID   int64    `json:"producer"`
	BaseSequence int32    `json:"sequence"`
	TimestampMs  int64    `json:"time"`
	Records      []string `json:"records"`
}

func (s *recordSet) lastSequence() int32 { return s.BaseSequence + int32(len(s.Records)) - 1 }

func (s *recordSet) encode() ([]byte, error) {
	if len(s.Records) == 0 {
		return nil, fmt.Errorf("a batch has at least one record")
	}
	return json.Marshal(s)
}

func decodeBatch(b *switchover.Batch) (s recordSet, err error) {
	err = json.Unmarshal(b.Payload, &s)
	if err == nil && len(s.Records) != int(b.Records) {
		err = fmt.Errorf("it has %d records, not %d", len(s.Records), b.Records)
	}
	if err != nil {
		return recordSet{}, fmt.Errorf("batch at offset %d: %w", b.BaseOffset, err)
	}
	return s, nil
}
