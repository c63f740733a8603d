package api

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"time"

	"github.com/cpnode/cpnode/api/wire"
	"github.com/cpnode/cpnode/ops"
)

// Watch follows topics, brokers and partition registrations as [Embedded.Watch] does,
// over HTTP. When a connection ends it goes on after the last event, at the next
// endpoint. A reset that was cut short begins anew. The sequence ends with an error:
// ctx's, a refusal that another node would repeat, or the last failure when no node was
// reached for RetryFor.
func (c *Client) Watch(ctx context.Context, from uint64) iter.Seq2[ops.WatchEvent, error] {
	return func(yield func(ops.WatchEvent, error) bool) {
		w := clientWatch{client: c, from: from, reached: time.Now(), yield: yield}
		if err := w.run(ctx); err != nil {
			yield(ops.WatchEvent{}, err)
		}
	}
}

// clientWatch is one watch over all of its connections.
type clientWatch struct {
	client  *Client
	from    uint64 // index of the last event after which to go on
	reached time.Time
	garbled int // events in a row that could not be read
	yield   func(ops.WatchEvent, error) bool
}

// errGarbled is wrapped by the error of an event that cannot be read: cut by a lost
// connection, or for good.
var errGarbled = errors.New("watch: an event cannot be read")

// mostGarbled ends a watch whose next event cannot be read, however often it is sent.
const mostGarbled = 3

// errEnough is the end of a watch whose consumer wants no more.
var errEnough = errors.New("the consumer wants no more")

func (w *clientWatch) run(ctx context.Context) error {
	pause := firstPause
	for endpoint := 0; ; endpoint = (endpoint + 1) % len(w.client.config.Endpoints) {
		before := w.reached
		err := w.connection(ctx, w.client.config.Endpoints[endpoint])
		switch {
		case errors.Is(err, errEnough):
			return nil
		case ctx.Err() != nil:
			return endedBy(ctx, err)
		case final(err) || w.garbled == mostGarbled || time.Since(w.reached) > w.client.config.RetryFor:
			return err
		}
		if w.reached != before {
			pause = firstPause
		}
		if !waitAbout(ctx, pause) {
			return endedBy(ctx, err)
		}
		pause = min(2*pause, longestPause)
	}
}

// final says whether every node would answer so, at any time.
func final(err error) bool {
	var e *ops.Error
	if !errors.As(err, &e) {
		return false
	}
	kind, known := errorTable[e.Code]
	return known && kind.status < 500 && !kind.elsewhere
}

// connection reads the events of one connection until it ends.
func (w *clientWatch) connection(ctx context.Context, endpoint string) error {
	path := watchPath + "?" + paramFromIndex + "=" + strconv.FormatUint(w.from, 10)
	resp, err := w.client.openStream(ctx, endpoint, path, watchHeartbeat+watchStall)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	defer func() { w.reached = time.Now() }()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, int(w.client.config.MaxAnswerBytes))
	for {
		event, err := readEvent(lines)
		if errors.Is(err, errGarbled) {
			w.garbled++
		}
		if err != nil {
			return err
		}
		w.garbled = 0
		if event.Kind == ops.WatchChange || event.Kind == ops.WatchResetEnd {
			w.from = uint64(event.Index)
		}
		if !w.yield(event, nil) {
			return errEnough
		}
	}
}

// readEvent reads the next event, past comments. A stream that ends is io.EOF.
func readEvent(lines *bufio.Scanner) (event ops.WatchEvent, err error) {
	for lines.Scan() {
		name, value, _ := bytes.Cut(lines.Bytes(), []byte(": "))
		switch string(name) {
		case "event":
			event.Kind = string(value)
		case "data":
			kind := event.Kind
			if err := wire.DecodeAnswer(wire.JSON, value, &event); err != nil {
				return event, fmt.Errorf("%w: %w", errGarbled, err)
			}
			event.Kind = kind
		case "":
			if event.Kind != "" && len(lines.Bytes()) == 0 {
				return event, nil
			}
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return event, fmt.Errorf("%w: %w", errGarbled, lines.Err())
	}
	return event, errors.Join(lines.Err(), io.EOF)
}
