package api

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/cpnode/cpnode/api/wire"
	"github.com/cpnode/cpnode/ops"
)

// errorKind is what server and client know of an error code.
type errorKind struct {
	status int
	// elsewhere: nothing was done, and another node or a later moment may well do
	// it.
	elsewhere bool
	meaning   string // for the reference
}

// errorTable is every code that answers a whole request.
var errorTable = map[ops.Code]errorKind{
	ops.InvalidRequest:          {status: http.StatusBadRequest, meaning: "The request is malformed; the message names the field."},
	ops.Unauthenticated:         {status: http.StatusUnauthorized, meaning: "The credentials are missing or wrong."},
	ops.Unauthorized:            {status: http.StatusForbidden, meaning: "The credentials do not allow this operation."},
	ops.UnknownOperation:        {status: http.StatusNotFound, meaning: "There is no such operation or page."},
	ops.MethodNotAllowed:        {status: http.StatusMethodNotAllowed, meaning: "The path takes another method; see Allow."},
	ops.ObjectKeyConflict:       {status: http.StatusConflict, meaning: "The object key was committed before, with other content or too long ago."},
	ops.ObjectKeyFenced:         {status: http.StatusConflict, meaning: "The object key was declared safe to delete, or was forgotten."},
	ops.RequestTooLarge:         {status: http.StatusRequestEntityTooLarge, meaning: "The body, its items or its log entry exceed a limit."},
	ops.UnsupportedMediaType:    {status: http.StatusUnsupportedMediaType, meaning: "Bodies are application/json or application/msgpack."},
	ops.Overloaded:              {status: http.StatusTooManyRequests, elsewhere: true, meaning: "Too much is in flight; nothing was proposed."},
	ops.Internal:                {status: http.StatusInternalServerError, meaning: "A fault of the node; its log says more."},
	ops.UnsupportedFeatureLevel: {status: http.StatusNotImplemented, meaning: "The cluster's feature level does not have this yet."},
	ops.NoLeader:                {status: http.StatusServiceUnavailable, elsewhere: true, meaning: "No leader was reached; nothing was proposed."},
	ops.ShuttingDown:            {status: http.StatusServiceUnavailable, elsewhere: true, meaning: "The node is shutting down; nothing was proposed."},
	ops.StorageFull:             {status: http.StatusServiceUnavailable, meaning: "The disk or the state file is full; nothing was proposed."},
	ops.NodeCorrupt:             {status: http.StatusServiceUnavailable, elsewhere: true, meaning: "The node has stopped and must be looked at; nothing was proposed."},
	ops.OutcomeUnknown:          {status: http.StatusGatewayTimeout, meaning: "Proposed, without an answer in time: it may or may not take effect, or did in part."},
	ops.NotCaughtUp:             {status: http.StatusGatewayTimeout, meaning: "The node's state was not as new as the read asked for, in time."},
}

// Status is the HTTP status that answers with an error code: 500 for one that this
// release does not know.
func Status(code ops.Code) int {
	if kind, ok := errorTable[code]; ok {
		return kind.status
	}
	return http.StatusInternalServerError
}

// errorObject is the body of every answer but 200.
type errorObject struct {
	Error errorBody `json:"error"`
}

type errorBody struct {
	Code    ops.Code `json:"code" doc:"What went wrong, for programs."`
	Message string   `json:"message" doc:"What went wrong, for people."`
}

func appendError(f wire.Format, dst []byte, e *ops.Error) []byte {
	object := errorObject{errorBody{Code: e.Code, Message: strings.ToValidUTF8(e.Message, "?")}}
	dst, err := wire.Append(f, dst, &object)
	if err != nil {
		panic(err) // two valid strings
	}
	return dst
}

// decodeError reads an error object; ok says whether body is one.
func decodeError(f wire.Format, body []byte) (e *ops.Error, ok bool) {
	var object errorObject
	if err := wire.DecodeAnswer(f, body, &object); err != nil || object.Error.Code == "" {
		return nil, false
	}
	return &ops.Error{Code: object.Error.Code, Message: object.Error.Message}, true
}

// refusedField is the answer to a request that the codec refuses.
func refusedField(err error) *ops.Error {
	code := ops.InvalidRequest
	if errors.Is(err, wire.ErrTooLarge) {
		code = ops.RequestTooLarge
	}
	return &ops.Error{Code: code, Message: err.Error()}
}

// answerFor is the error object for err. Contexts end before anything was proposed
// when the client or the node goes; the former does not hear it. ok is false for an
// error that nobody foresaw: its text is for the log, not for clients.
func answerFor(err error) (e *ops.Error, ok bool) {
	switch {
	case errors.As(err, &e):
		return e, true
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return ops.Errorf(ops.ShuttingDown, "the request ended before anything was done"), true
	}
	return ops.Errorf(ops.Internal, "a fault of this node; its log says more"), false
}
