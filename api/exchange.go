package api

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/cpnode/cpnode/api/wire"
	"github.com/cpnode/cpnode/ops"
)

// The headers of answers, in the form in which net/http keeps them.
const (
	headerLeader       = "X-Cpnode-Leader"
	headerNode         = "X-Cpnode-Node"
	headerIndex        = "X-Cpnode-Index"
	headerAppliedIndex = "X-Cpnode-Applied-Index"
	headerStaleness    = "X-Cpnode-Staleness-Ms"
	headerFeatureLevel = "X-Cpnode-Feature-Level"
)

// setCommon sets what every answer carries.
func (s *Server) setCommon(h http.Header) {
	if leader := s.embedded.node.LeaderID(); leader != "" {
		h.Set(headerLeader, leader)
	}
	h.Set(headerNode, s.embedded.id)
	h.Set(headerFeatureLevel, strconv.FormatUint(s.embedded.node.FeatureLevel(), 10))
}

// buffers are the bodies of one exchange, kept for the next.
type buffers struct {
	in  bytes.Buffer
	out []byte
}

// keptBytes is the largest buffer that is kept: a rare large body must not stay in
// memory for ever.
const keptBytes = 256 << 10

var bufferPool = sync.Pool{New: func() any { return new(buffers) }}

func (b *buffers) release() {
	if b.in.Cap() > keptBytes || cap(b.out) > keptBytes {
		return
	}
	b.in.Reset()
	bufferPool.Put(b)
}

// operation answers a request for one operation.
func (s *Server) operation(w http.ResponseWriter, r *http.Request, op *operation) {
	started, m := time.Now(), s.embedded.metrics
	m.inFlight.Inc()
	defer m.inFlight.Dec()
	b := bufferPool.Get().(*buffers)
	defer b.release()
	c := wireCall{op: op}
	a := s.answer(w, r, &c, b)
	op.done(started, a.code)
	setInfo(w.Header(), &c, a)
	send(w, c.out, a)
}

// answer reads the request into c, and carries it out here or on the leader.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, c *wireCall, b *buffers) wireAnswer {
	if refused := s.parse(w, r, c, b); refused != nil {
		return failed(c.out, b.out[:0], refused)
	}
	if s.embedded.elsewhere(c.op, c.read) {
		a, err := s.embedded.forward(r.Context(), c)
		if err != nil {
			return failed(c.out, b.out[:0], s.embedded.explain(c.op, err))
		}
		return a
	}
	a := s.embedded.carry(r.Context(), c, b.out[:0])
	b.out = a.body
	return a
}

// parse takes a request apart, up to the fields in its body. The formats come
// first: they are those of a refusal too.
func (s *Server) parse(w http.ResponseWriter, r *http.Request, c *wireCall, b *buffers) (refused *ops.Error) {
	var refusedAccept *ops.Error
	c.in, refused = bodyFormat(r.Header)
	if c.out, refusedAccept = answerFormat(r.Header, c.in); refused == nil {
		refused = refusedAccept
	}
	if refused != nil {
		return refused
	}
	var err error
	if c.read, err = parseQuery(r.URL.RawQuery, c.op.write); err != nil {
		refused, _ = answerFor(err)
		return refused
	}
	if refused := s.readBody(w, r, &b.in); refused != nil {
		return refused
	}
	c.body = b.in.Bytes()
	return nil
}

// bodyRoom is what a body gets before any of it has arrived.
const bodyRoom = 64 << 10

func (s *Server) readBody(w http.ResponseWriter, r *http.Request, in *bytes.Buffer) *ops.Error {
	limit := int64(s.embedded.limits.RequestBytes)
	if r.ContentLength <= limit {
		// An announced length is not yet a byte: more room comes with the bytes.
		in.Grow(int(min(max(r.ContentLength, 0), bodyRoom)) + bytes.MinRead)
		_, err := in.ReadFrom(http.MaxBytesReader(w, r.Body, limit))
		if err == nil {
			return nil
		}
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); !tooLarge {
			return ops.Errorf(ops.InvalidRequest, "body: %v", err)
		}
	}
	return ops.Errorf(ops.RequestTooLarge, "body: more than %d bytes", limit)
}

func setInfo(h http.Header, c *wireCall, a wireAnswer) {
	switch {
	case c.op.write:
		if a.info.Index > 0 {
			h.Set(headerIndex, strconv.FormatUint(a.info.Index, 10))
		}
	case a.code == "":
		h.Set(headerAppliedIndex, strconv.FormatUint(a.info.AppliedIndex, 10))
		h.Set(headerStaleness, strconv.FormatInt(millis(a.info.Staleness), 10))
	}
}

// millis rounds up, so that a state is never said to be newer than it is; a
// staleness that is not known stays -1.
func millis(age time.Duration) int64 {
	if age < 0 {
		return -1
	}
	return int64((age + time.Millisecond - 1) / time.Millisecond)
}

// retryAfter is the shortest time that the header can say.
const retryAfter = "1"

// send writes an answer with its status.
func send(w http.ResponseWriter, f wire.Format, a wireAnswer) {
	h, status := w.Header(), http.StatusOK
	if a.code != "" {
		status = Status(a.code)
	}
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		h.Set("Retry-After", retryAfter)
	}
	h.Set("Content-Type", mediaTypes[f])
	h.Set("Content-Length", strconv.Itoa(len(a.body)))
	w.WriteHeader(status)
	_, _ = w.Write(a.body) // fails when the client has gone
}
