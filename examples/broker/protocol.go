package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/cpnode/cpnode/ops"
	switchover "github.com/cpnode/cpnode/switch"
)

// What is asked of a broker: POST /broker/VERB, with JSON.
const (
	verbProduce    = "produce"
	verbConsume    = "consume"
	verbFetch      = "fetch"        // of a follower
	verbEndOfEpoch = "end-of-epoch" // of a follower
	verbStatus     = "status"
	verbCopying    = "copying"
	verbReady      = "ready"
)

// A fetch takes at most this much, and waits so long for the first record.
const (
	fetchBytes = 64 << 10
	fetchWait  = 200 * time.Millisecond
)

type produceRequest struct {
	Ref ops.LogRef
	Set recordSet
}

type produceAnswer struct {
	Offset   int64 // of the first record
	Diskless bool  // any broker takes the next ones
}

type consumeRequest struct {
	Ref    ops.LogRef
	Offset int64
}

type consumeAnswer struct {
	Records []string // the first has the offset that was asked for
	Tier    switchover.Tier
}

type fetchRequest struct {
	Ref         ops.LogRef
	Offset      int64
	Replica     int32
	BrokerEpoch int64
	LeaderEpoch int32
}

type fetchAnswer struct {
	Batches       []switchover.Batch
	HighWatermark int64
}

type endOfEpochRequest struct {
	Ref         ops.LogRef
	Epoch       int32
	LeaderEpoch int32 // of the leader that is asked
}

type endOfEpochAnswer struct {
	Epoch int32
	End   int64
}

type statusRequest struct{ Ref ops.LogRef }

type statusAnswer struct {
	switchover.Status
	Serving       bool // registered, and with all that was said before
	HighestRemote int64
	// PrefixSegments are the local segments with a record below the seal.
	PrefixSegments int
}

func (s *statusAnswer) String() string {
	text := string(s.State)
	if s.Leader {
		text += ", leads"
	}
	if !s.Serving {
		text += ", does not serve"
	}
	if s.Offline != "" {
		text += ", offline: " + s.Offline
	}
	return fmt.Sprintf("%s, offsets %d to %d (local from %d), high watermark %d, in remote storage up to %d, %d local segments of the prefix", text,
		s.LogStart, s.End, s.LocalLogStart, s.HighWatermark, s.HighestRemote, s.PrefixSegments)
}

// copyingRequest lets the broker copy segments to remote storage, or not; while it does not,
// it keeps what it has of a prefix.
type copyingRequest struct{ On bool }

type empty struct{}

// errAgain is what a broker says that cannot answer now, and another one, or the same a
// little later, may.
var errAgain = errors.New("ask again")

// callTimeout is longer than what a broker waits for.
const callTimeout = 10 * time.Second

// call asks the broker at an address. The error is errAgain where another try may help.
func call[A any](ctx context.Context, addr, verb string, request any) (answer A, err error) {
	body, err := json.Marshal(request)
	if err != nil {
		return answer, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/broker/"+verb, bytes.NewReader(body))
	if err != nil {
		return answer, err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return answer, fmt.Errorf("%w: %w", errAgain, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return answer, fmt.Errorf("%w: %w", errAgain, err)
	case response.StatusCode == http.StatusServiceUnavailable:
		return answer, fmt.Errorf("%w: %s", errAgain, bytes.TrimSpace(text))
	case response.StatusCode != http.StatusOK:
		return answer, fmt.Errorf("%s: %s", verb, bytes.TrimSpace(text))
	}
	return answer, json.Unmarshal(text, &answer)
}
