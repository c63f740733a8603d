package api

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/cpnode/cpnode/api/wire"
	"github.com/cpnode/cpnode/ops"
)

// What one node forwards to another. The call:
//
//	| version 1 | format of the body 1 | format of the answer 1 | length 1 | operation | body |
//
// The answer, from its end, so that the body is encoded in place:
//
//	| body | error code, empty when carried out | index 8 | applied index 8 | length of the code 1 | version 1 |
//
// Only what must be linearizable is forwarded, so there are no read options.
const (
	forwardVersion     = 1
	forwardCallHead    = 4
	forwardAnswerTrail = 18
)

var errForwardFrame = errors.New("forwarded frame is cut short or of another version")

func appendCall(dst []byte, c *wireCall) []byte {
	dst = append(dst, forwardVersion, byte(c.in), byte(c.out), byte(len(c.op.name)))
	dst = append(dst, c.op.name...)
	return append(dst, c.body...)
}

// parseCall reads a call; op is its operation, which this release may not know.
func parseCall(frame []byte) (op string, c wireCall, err error) {
	if len(frame) < forwardCallHead || frame[0] != forwardVersion || len(frame) < forwardCallHead+int(frame[3]) {
		return "", c, errForwardFrame
	}
	c.in, c.out = wire.Format(frame[1]), wire.Format(frame[2])
	if c.in > wire.Msgpack || c.out > wire.Msgpack {
		return "", c, errForwardFrame
	}
	name := frame[forwardCallHead:][:frame[3]]
	c.body = frame[forwardCallHead+len(name):]
	return string(name), c, nil
}

func appendAnswer(a wireAnswer) []byte {
	dst := append(a.body, a.code...)
	dst = binary.BigEndian.AppendUint64(dst, a.info.Index)
	dst = binary.BigEndian.AppendUint64(dst, a.info.AppliedIndex)
	return append(dst, byte(len(a.code)), forwardVersion)
}

func parseAnswer(frame []byte) (a wireAnswer, err error) {
	rest := len(frame) - forwardAnswerTrail
	if rest < 0 || frame[len(frame)-1] != forwardVersion {
		return a, errForwardFrame
	}
	trail := frame[rest:]
	rest -= int(trail[16])
	if rest < 0 {
		return a, errForwardFrame
	}
	a.body, a.code = frame[:rest], ops.Code(frame[rest:len(frame)-forwardAnswerTrail])
	a.info.Index, a.info.AppliedIndex = binary.BigEndian.Uint64(trail), binary.BigEndian.Uint64(trail[8:])
	return a, nil
}

// forward asks the leader. The leader never forwards: one hop at most.
func (e *Embedded) forward(ctx context.Context, c *wireCall) (wireAnswer, error) {
	e.metrics.sent.Inc()
	frame, err := e.node.Forward(ctx, appendCall(make([]byte, 0, forwardCallHead+len(c.op.name)+len(c.body)), c))
	if err != nil {
		return wireAnswer{}, err
	}
	a, err := parseAnswer(frame)
	if err != nil {
		return a, ops.Errorf(ops.OutcomeUnknown, "the leader's answer: %v", err)
	}
	return a, nil
}

// answerForwarded answers another node's frame.
func (e *Embedded) answerForwarded(ctx context.Context, frame []byte) []byte {
	e.metrics.served.Inc()
	name, c, err := parseCall(frame)
	if err != nil {
		return appendAnswer(failed(wire.JSON, nil, ops.Errorf(ops.UnsupportedFeatureLevel, "%v", err)))
	}
	var ok bool
	if c.op, ok = e.operations[name]; !ok {
		// The node that forwards knows it: it is of a newer release.
		refused := ops.Errorf(ops.UnsupportedFeatureLevel, "the leader, %s, is of an older release and has no %s yet", e.id, name)
		return appendAnswer(failed(c.out, nil, refused))
	}
	return appendAnswer(e.carry(ctx, &c, nil))
}

func unknownOperation(name string) *ops.Error {
	return ops.Errorf(ops.UnknownOperation, "there is no %q; /openapi.json lists what there is", name)
}

// askLeader is a call of this process that the leader carries out.
func (e *Embedded) askLeader(ctx context.Context, op *operation, req ops.Request) (any, Info, error) {
	body, err := wire.Append(wire.Msgpack, nil, req)
	if err != nil {
		return nil, Info{}, refusedField(err)
	}
	a, err := e.forward(ctx, &wireCall{op: op, in: wire.Msgpack, out: wire.Msgpack, body: body})
	if err != nil {
		return nil, Info{}, err
	}
	answer, err := decodeAnswer(op.verb, wire.Msgpack, a.code != "", a.body)
	return answer, a.info, err
}

// decodeAnswer reads the body of an answer: the response, or what the error object
// says. A body that cannot be read may be the answer to a write that was carried
// out.
func decodeAnswer(op *verb, f wire.Format, refused bool, body []byte) (any, error) {
	if refused {
		if e, ok := decodeError(f, body); ok {
			return nil, e
		}
		return nil, ops.Errorf(ops.OutcomeUnknown, "the answer is an error that cannot be read")
	}
	answer := op.newResponse()
	if err := wire.DecodeAnswer(f, body, answer); err != nil {
		return nil, ops.Errorf(ops.OutcomeUnknown, "the answer cannot be read: %v", err)
	}
	return answer, nil
}
