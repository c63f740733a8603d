package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cpnode/cpnode/api/wire"
	"github.com/cpnode/cpnode/ops"
)

const (
	watchPath      = operationPath + watchName
	watchMediaType = "text/event-stream"
	// paramFromIndex is the query parameter of a watch; headerLastEventID, which a
	// client that comes back sends, wins over it.
	paramFromIndex    = "from_index"
	headerLastEventID = "Last-Event-ID"
	// watchHeartbeat is how long a watch is silent at most.
	watchHeartbeat = 15 * time.Second
	// watchStall is how long a write may take beyond a heartbeat.
	watchStall = 30 * time.Second
	// maxBehind is how many events a client may be behind those that came since it
	// connected. It comes back and goes on where it was.
	maxBehind = 10_000
)

// watch streams changes as server-sent events until the client goes, is too far behind,
// or the node stops or loses its leader: another one serves the client better then.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	started, m := time.Now(), s.embedded.watches
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	from, err := watchFrom(r)
	if err == nil {
		err = s.fitToWatch()
	}
	var events []ops.WatchEvent
	watcher := s.embedded.newWatcher(from)
	defer watcher.close()
	if err == nil {
		events, err = watcher.next(ctx)
	}
	if err != nil {
		e, foreseen := answerFor(err)
		if !foreseen {
			s.embedded.logger.Error("a watch failed", "error", err)
		}
		m.requests.done(started, e.Code)
		send(w, wire.JSON, failed(wire.JSON, nil, e))
		return
	}
	m.requests.done(started, "")
	s.stream(ctx, w, watcher, events)
}

// stream sends events, and all that follow.
func (s *Server) stream(ctx context.Context, w http.ResponseWriter, watcher *watcher, events []ops.WatchEvent) {
	stream, err := s.openEventStream(w)
	for err == nil {
		if err = stream.send(events); err != nil {
			break
		}
		if watcher.behind > s.maxBehind {
			s.embedded.watches.closed.Inc()
			_ = stream.comment(fmt.Sprintf("closed: %d events behind", watcher.behind)) // fails when the client has gone
			return
		}
		if err = s.awaitEvents(ctx, stream, watcher); err == nil {
			events, err = watcher.next(ctx)
		}
	}
	s.embedded.logger.Debug("a watch ended", "error", err)
}

// awaitEvents returns when there may be more to send, and says until then that the
// stream lives.
func (s *Server) awaitEvents(ctx context.Context, stream *eventStream, watcher *watcher) error {
	for {
		beat, cancel := context.WithTimeout(ctx, s.heartbeat)
		err := watcher.wait(beat)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
		if err := errors.Join(s.fitToWatch(), stream.comment("")); err != nil {
			return err
		}
	}
}

// fitToWatch refuses watches on a node that may not hear of changes.
func (s *Server) fitToWatch() error {
	if why := s.embedded.node.Ready(); why != nil {
		return ops.Errorf(ops.NoLeader, "this node is not ready: %v", why)
	}
	return nil
}

// watchFrom is the index after which a request wants changes, 0 unless it says.
func watchFrom(r *http.Request) (from uint64, err error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return 0, ops.Errorf(ops.InvalidRequest, "query: %v", err)
	}
	for name, given := range values {
		if name != paramFromIndex || len(given) > 1 {
			return 0, ops.Errorf(ops.InvalidRequest, "%q: a watch takes one %s", name, paramFromIndex)
		}
	}
	name, text := paramFromIndex, values.Get(paramFromIndex)
	if last := r.Header.Get(headerLastEventID); last != "" {
		name, text = headerLastEventID, last
	}
	if text == "" && !values.Has(paramFromIndex) {
		return 0, nil
	}
	if from, err = strconv.ParseUint(text, 10, 63); err != nil {
		return 0, ops.Errorf(ops.InvalidRequest, "%s: must be an integer >= 0", name)
	}
	return from, nil
}

// eventStream writes server-sent events.
type eventStream struct {
	to       http.ResponseWriter
	control  *http.ResponseController
	patience time.Duration // for one write, and until the next
	buf      []byte
}

// openEventStream begins the answer. Each write has a time of its own, in place of that
// for a whole answer.
func (s *Server) openEventStream(w http.ResponseWriter) (*eventStream, error) {
	stream := &eventStream{to: w, control: http.NewResponseController(w), patience: s.heartbeat + watchStall}
	h := w.Header()
	h.Set("Content-Type", watchMediaType)
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	return stream, stream.comment("")
}

// send writes events. Those after which a client can go on by their index carry it.
func (s *eventStream) send(events []ops.WatchEvent) error {
	for i := range events {
		e := &events[i]
		s.buf = append(s.buf[:0], "event: "+e.Kind+"\n"...)
		if e.Kind == ops.WatchChange || e.Kind == ops.WatchResetEnd {
			s.buf = append(strconv.AppendInt(append(s.buf, "id: "...), e.Index, 10), '\n')
		}
		var err error
		if s.buf, err = wire.Append(wire.JSON, append(s.buf, "data: "...), e); err != nil {
			return err
		}
		s.buf = append(s.buf, "\n\n"...)
		if err := s.write(); err != nil {
			return err
		}
	}
	return s.control.Flush()
}

// comment writes what clients skip.
func (s *eventStream) comment(text string) error {
	s.buf = append(s.buf[:0], ": "+text+"\n\n"...)
	return errors.Join(s.write(), s.control.Flush())
}

func (s *eventStream) write() error {
	if err := s.control.SetWriteDeadline(time.Now().Add(s.patience)); err != nil {
		return err
	}
	_, err := s.to.Write(s.buf)
	return err
}
