package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/cpnode/cpnode/ops"
)

// repeatable are the writes whose second time changes nothing that the first did
// not, even when others write in between. A repeated delete-topics counts no logs.
// The others are safe to repeat too, but may do more than was asked for once.
var repeatable = map[string]bool{
	"create-topics":                true,
	"commit-file":                  true, // answered as the first time, by its object key
	"delete-topics":                true,
	"delete-files":                 true,
	"is-safe-to-delete-file":       true,
	"advance-cross-tier-log-start": true,
	"cluster-join":                 true,
	"cluster-upgrade":              true,
	"report-remote-offsets":        true,
}

// The pause before an attempt doubles from the first to the longest, and is
// anything between its half and its whole, so that clients do not come in step.
const (
	firstPause   = 20 * time.Millisecond
	longestPause = time.Second
)

// retries are the attempts of one call.
type retries struct {
	client *Client
	call   *call
	began  time.Time
	// unknown is the latest attempt that may have taken effect. A later one that
	// was refused does not undo it.
	unknown error
	// answered is the latest error of an endpoint that was reached, and may still be.
	// That another one was not says less.
	answered   error
	answeredBy int // endpoint
}

// run tries until an attempt is answered, or may not be repeated, or time is up.
func (r *retries) run(ctx context.Context) (any, Info, error) {
	endpoint := r.client.route.first(r.call.stale)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		if err := ctx.Err(); err != nil {
			return nil, Info{}, r.giveUp(err)
		}
		answer, info, err := r.client.attempt(ctx, endpoint, r.call)
		if errors.Is(err, &ops.Error{Code: ops.OutcomeUnknown}) {
			r.unknown = err
		}
		if err == nil {
			return answer, info, nil
		}
		switch {
		case !unreached(err):
			r.answered, r.answeredBy = err, endpoint
		case endpoint == r.answeredBy:
			r.answered = nil
		}
		if !r.again(err) || !r.wait(ctx, pause) {
			return nil, info, r.giveUp(endedBy(ctx, cmp.Or(r.answered, err)))
		}
		endpoint = r.client.route.after(endpoint, r.call.stale)
	}
}

// again says whether another attempt is safe, and may be answered otherwise.
func (r *retries) again(err error) bool {
	var e *ops.Error
	if !errors.As(err, &e) {
		return false
	}
	if e.Code == ops.OutcomeUnknown {
		return !r.call.verb.write || repeatable[r.call.verb.name]
	}
	return errorTable[e.Code].elsewhere
}

// wait waits for the next attempt; false when there is to be none.
func (r *retries) wait(ctx context.Context, pause time.Duration) bool {
	if time.Since(r.began)+pause > r.client.config.RetryFor {
		return false
	}
	return waitAbout(ctx, pause)
}

// waitAbout waits for half of the pause to all of it; false when ctx ends.
func waitAbout(ctx context.Context, pause time.Duration) bool {
	select {
	case <-time.After(pause/2 + rand.N(pause/2)):
		return true
	case <-ctx.Done():
		return false
	}
}

// giveUp is the error of a call whose last attempt ended with err. One that may
// have taken effect still may, unless the object key is refused: then its entry is
// refused too, if it comes.
func (r *retries) giveUp(err error) error {
	if r.unknown == nil || errors.Is(err, r.unknown) || Status(codeOf(err)) == http.StatusConflict {
		return err
	}
	return fmt.Errorf("%w; then: %s", r.unknown, err.Error())
}

// endedBy is err, and the end of the call's context where that was the reason.
func endedBy(ctx context.Context, err error) error {
	if ctx.Err() == nil || errors.Is(err, ctx.Err()) {
		return err
	}
	return fmt.Errorf("%w; then: %w", err, ctx.Err())
}

// transportError is the error of an attempt without an answer: nothing was done
// when no connection was made.
func transportError(cl *call, err error) error {
	if unreached(err) {
		return &noAnswer{ops.NoLeader, err}
	}
	return unansweredError(cl, err)
}

// unreached says that no connection was made.
func unreached(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial"
}

// unansweredError is the error of an attempt that a node may have carried out.
func unansweredError(cl *call, err error) error {
	if cl.verb.write {
		return &noAnswer{ops.OutcomeUnknown, err}
	}
	return &noAnswer{ops.NoLeader, err}
}

// ErrNoAnswer: no node has answered. The code of such an error, an *ops.Error as well,
// says what may have been done, and its cause is the connection's.
var ErrNoAnswer = errors.New("no answer")

type noAnswer struct {
	code  ops.Code
	cause error
}

// Error is the code, and why there was no answer.
func (e *noAnswer) Error() string { return fmt.Sprintf("%s: %v: %v", e.code, ErrNoAnswer, e.cause) }

// Unwrap is all that the error is.
func (e *noAnswer) Unwrap() []error {
	return []error{&ops.Error{Code: e.code, Message: ErrNoAnswer.Error()}, ErrNoAnswer, e.cause}
}
