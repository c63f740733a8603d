package workload

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/jepsen/history"
	"github.com/cpnode/cpnode/ops"
)

// client has one operation under way at a time.
type client struct {
	load   *Workload
	id     int
	random *rand.Rand
}

// running says whether the client is to begin another operation, after a pause.
func (c *client) running(ctx context.Context) bool {
	return c.wait(ctx, time.Duration(c.random.Int64N(int64(2*c.load.pause())+1)))
}

// wait waits; false when the run ends.
func (c *client) wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-c.load.stop:
		return false
	case <-ctx.Done():
		return false
	}
}

func (c *client) chance(p float64) bool { return c.random.Float64() < p }

// begin is the begin of an operation, after any rest; end is called when it has ended.
func (c *client) begin(ctx context.Context, timeout time.Duration) (_ context.Context, end func()) {
	c.load.working.RLock()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	return ctx, func() {
		cancel()
		c.load.working.RUnlock()
	}
}

func (c *client) anyNode() target {
	nodes := c.load.targets()
	return nodes[c.random.IntN(len(nodes))]
}

// partitions are n different ones of those in use.
func (c *client) partitions(n int) []int32 {
	first, all := c.load.hot(), int32(len(c.load.seen))
	var chosen []int32
	for _, i := range c.random.Perm(hotLogs)[:n] {
		chosen = append(chosen, (first+int32(i))%all)
	}
	return chosen
}

// method is an operation of the control plane.
type method[Q, A any] func(api.ControlPlane, context.Context, *Q, ...api.Option) (*A, error)

// ask sends one request to one node once, and records it. The answer is nil unless
// the outcome is ok. What r says of client, operation and read options is kept.
func ask[Q, A any](ctx context.Context, c *client, node target, r *history.Record, m method[Q, A], request *Q) *A {
	var info api.Info
	options := []api.Option{api.Observe(&info)}
	if r.Stale {
		options = append(options, api.Stale(), api.MinIndex(r.MinIndex))
	}
	r.Client, r.Node = c.id, node.ID
	r.Request = marshal(request)
	r.Invoke = c.load.recorder.Now()
	var answer *A
	err := node.call(func(p api.ControlPlane) (err error) {
		answer, err = m(p, ctx, request, options...)
		return err
	})
	r.Return = c.load.recorder.Now()
	r.Index, r.AppliedIndex = info.Index, info.AppliedIndex
	if r.Outcome = outcomeOf(r.Op, err); r.Outcome == history.OK {
		r.Response = marshal(answer)
	} else {
		answer = nil
		r.Error, r.Message = codeOf(err), err.Error()
	}
	c.load.recorder.Add(r)
	return answer
}

// outcomeOf is what an error says about the effect, which reads have none of. That of
// an error without a code of the contract is unknown.
func outcomeOf(name string, err error) history.Outcome {
	op, _ := ops.Lookup(name)
	switch code := codeOf(err); {
	case err == nil:
		return history.OK
	case !op.IsWrite():
		return history.Refused
	case code == "" || code == ops.OutcomeUnknown || code == ops.Internal:
		return history.Unknown
	default:
		return history.Refused
	}
}

func codeOf(err error) ops.Code {
	var e *ops.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func marshal(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // requests and answers are plain data
	}
	return data
}

// logsOf names partitions as a history does.
func logsOf(partitions ...int32) []string {
	names := make([]string, len(partitions))
	for i, p := range partitions {
		names[i] = history.Log(topic, p)
	}
	return names
}
