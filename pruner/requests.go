package pruner

import (
	"context"
	"errors"
	"slices"

	"github.com/cpnode/cpnode/ops"
)

// inRequests sends items, at most n in a request. One that cannot be done leaves the
// others done; without a control plane, or when ctx ends, it stops.
func inRequests[T any](ctx context.Context, items []T, n int, send func([]T) error) error {
	var failures []error
	for request := range slices.Chunk(items, n) {
		err := divide(request, send)
		if err != nil {
			failures = append(failures, err)
		}
		if err != nil && (ctx.Err() != nil || !overItem(err)) {
			break
		}
	}
	return errors.Join(failures...)
}

// divide sends items in one request, and in halves where that fails over one of
// them.
func divide[T any](items []T, send func([]T) error) error {
	err := send(items)
	if err == nil || len(items) == 1 || !overItem(err) {
		return err
	}
	half := len(items) / 2
	return errors.Join(divide(items[:half], send), divide(items[half:], send))
}

// overItem says whether an error may be that of one item of a request.
func overItem(err error) bool {
	var e *ops.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case ops.InvalidRequest, ops.RequestTooLarge, ops.Internal:
		return true
	}
	return false
}
