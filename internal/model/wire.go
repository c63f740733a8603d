package model

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Codes of items and of error objects.
const (
	noError            = "NONE"
	unknownPartition   = "UNKNOWN_TOPIC_OR_PARTITION"
	offsetOutOfRange   = "OFFSET_OUT_OF_RANGE"
	invalidEpoch       = "INVALID_PRODUCER_EPOCH"
	outOfOrder         = "OUT_OF_ORDER_SEQUENCE_NUMBER"
	topicExists        = "TOPIC_ALREADY_EXISTS"
	unsupportedVersion = "UNSUPPORTED_VERSION"
	fileInUse          = "FILE_IN_USE"
	alreadyInitialized = "ALREADY_INITIALIZED"
	invalidRequest     = "INVALID_REQUEST"
	keyConflict        = "OBJECT_KEY_CONFLICT"
	keyFenced          = "OBJECT_KEY_FENCED"
)

var errRefused = errors.New("value not allowed here")

// topicID is the canonical text of a UUID, whose order is that of its bytes.
type topicID string

const zeroTopicID topicID = "00000000-0000-0000-0000-000000000000"

// UnmarshalText accepts canonical UUID text and Kafka's 22 characters of base64.
func (id *topicID) UnmarshalText(text []byte) error {
	var raw []byte
	var err error
	if len(text) == 22 {
		raw, err = base64.RawURLEncoding.DecodeString(string(text))
	} else {
		raw, err = hex.DecodeString(strings.ReplaceAll(string(text), "-", ""))
	}
	if err != nil || len(raw) != 16 {
		return errRefused
	}
	*id = topicID(fmt.Sprintf("%x-%x-%x-%x-%x", raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:]))
	return nil
}

// partition is never negative.
type partition int32

// UnmarshalJSON refuses negative numbers.
func (p *partition) UnmarshalJSON(text []byte) error {
	err := json.Unmarshal(text, (*int32)(p))
	if err == nil && *p < 0 {
		return errRefused
	}
	return err
}

// fetchSize is a number of bytes that is never negative.
type fetchSize int32

// UnmarshalJSON refuses negative numbers.
func (s *fetchSize) UnmarshalJSON(text []byte) error { return (*partition)(s).UnmarshalJSON(text) }

// natural is a cap, a limit or an offset that may not be negative.
type natural int64

// UnmarshalJSON refuses negative numbers.
func (n *natural) UnmarshalJSON(text []byte) error {
	err := json.Unmarshal(text, (*int64)(n))
	if err == nil && *n < 0 {
		return errRefused
	}
	return err
}

// target names a log; it opens the items of most requests and answers.
type target struct {
	TopicID   topicID   `json:"topic_id"`
	Partition partition `json:"partition"`
}

// targets is the request of the reads that ask for logs.
type targets struct {
	Requests []target `json:"requests"`
}

// responses is the answer of the operations that take a list of requests.
type responses[A any] struct {
	Responses []A `json:"responses"`
}

// each answers the items of a request in order.
func each[R, A any](requests []R, answer func(R) A) responses[A] {
	answers := make([]A, 0, len(requests))
	for _, r := range requests {
		answers = append(answers, answer(r))
	}
	return responses[A]{answers}
}

// capped says whether n things are as many as a cap allows, 0 being no cap.
func capped(n int, limit natural) bool {
	return limit > 0 && n >= int(limit)
}
