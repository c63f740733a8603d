// Package history keeps what clients asked of a cluster and what they were told,
// one JSON line an operation, as checkers read it.
//
// Times are nanoseconds on the monotonic clock of the recording process, since the
// recording began; they compare within one history only. An operation is written
// when it ends, so lines are in the order of their ends, not of their begins. A line's
// number, from 1, is the operation's name in verdicts.
package history

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// Outcome is what a client knows of the effect of its operation.
type Outcome string

// The outcomes of an operation. A read that failed is refused: it has no effect.
const (
	OK      Outcome = "ok"      // carried out, and answered
	Refused Outcome = "refused" // not carried out, now or later
	Unknown Outcome = "unknown" // may have been carried out, or may still be
)

// Groups of operations that checks of their own judge. What has no group is of clients
// that share partitions.
const (
	GroupObjects = "objects" // topics with objects in a store, each with one client alone
	GroupSwitch  = "switch"  // brokers, and topics that become diskless
)

// Record is one operation: a request sent to one node once, and its end.
type Record struct {
	Group  string `json:"group,omitempty"`
	Client int    `json:"client"` // has one operation under way at a time
	Op     string `json:"op"`     // the operation's name
	Node   string `json:"node"`   // id of the node that was asked
	// Logs are the partitions concerned, topic/partition, in the request's order.
	Logs    []string `json:"logs"`
	Invoke  int64    `json:"invoke_ns"`
	Return  int64    `json:"return_ns"`
	Outcome Outcome  `json:"outcome"`
	Error   ops.Code `json:"error,omitempty"` // of an operation that is not ok
	Message string   `json:"message,omitempty"`

	Stale        bool   `json:"stale,omitempty"`         // a read of the asked node's own state
	MinIndex     uint64 `json:"min_index,omitempty"`     // that a stale read asked for
	Index        uint64 `json:"index,omitempty"`         // of a write's last log entry
	AppliedIndex uint64 `json:"applied_index,omitempty"` // of the state that a read saw
	// Final: a read of the end, when all nodes had applied the same entries and no
	// client was left.
	Final bool `json:"final,omitempty"`

	Request  json.RawMessage `json:"request"`
	Response json.RawMessage `json:"response,omitempty"` // of an operation that is ok
}

// ReadObject is what a client does beside the control plane: it reads the object of a
// batch that it has just been told of. Its request is a found batch.
const ReadObject = "read-object"

// Object is the answer of ReadObject.
type Object struct {
	Found bool   `json:"found"`
	Size  int64  `json:"size"`
	Sum   string `json:"sum"` // ObjectSum of its bytes
}

// ObjectSum tells the bytes of objects apart.
func ObjectSum(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

// ObjectBytes is what clients put under a key, so that whoever knows key and size knows
// the bytes.
func ObjectBytes(key string, size int64) []byte {
	sum := sha256.Sum256([]byte(key))
	data := make([]byte, size)
	for i := range data {
		data[i] = sum[i%len(sum)]
	}
	return data
}

// Log is the name of a partition in a history.
func Log(topic store.TopicID, partition int32) string {
	return fmt.Sprintf("%s/%d", topic, partition)
}

// Decode reads the request, and the response when there is one.
func (r *Record) Decode(request, response any) error {
	err := strict(r.Request, request)
	if r.Outcome == OK {
		err = errors.Join(err, strict(r.Response, response))
	}
	return err
}

// strict refuses unknown fields: a history of another release is not half read.
func strict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
