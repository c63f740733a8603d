package wire

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrTooLarge is wrapped by the error for an array or map with more elements than the limit.
var ErrTooLarge = errors.New("too large")

// FieldError says which field of a body is wrong, and how.
type FieldError struct {
	Field   string // path, such as batches[3].byte_size; "" is the body as a whole
	Problem string // in plain words, such as: must be > 0
	cause   error
}

// Error is the path and the problem.
func (e *FieldError) Error() string {
	if e.Field == "" {
		return "body: " + e.Problem
	}
	return e.Field + ": " + e.Problem
}

// Unwrap is ErrTooLarge where that is the problem, else nil.
func (e *FieldError) Unwrap() error { return e.cause }

func problem(format string, args ...any) *FieldError {
	return &FieldError{Problem: fmt.Sprintf(format, args...)}
}

// in puts one more element before the path of an error on its way up, so that paths cost nothing while all is well.
func in(elem string, err error) error {
	e := err.(*FieldError) // as is every error in this package
	switch {
	case e.Field == "":
		e.Field = elem
	case e.Field[0] == '[':
		e.Field = elem + e.Field
	default:
		e.Field = elem + "." + e.Field
	}
	return e
}

func at(i int, err error) error {
	return in("["+strconv.Itoa(i)+"]", err)
}

// maxShownName keeps a hostile key from filling an error message.
const maxShownName = 64

// keyed is the path element for a key of a map, quoted because it may hold dots, or anything else.
func keyed(key string) string {
	if len(key) > maxShownName {
		key = key[:maxShownName] + "..."
	}
	return "[" + strconv.Quote(key) + "]"
}

func unknownField(p *plan, name string) error {
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" || name == "" || len(name) > maxShownName {
		return in(keyed(name), problem("unknown field"))
	}
	names := make([]string, len(p.fields))
	for i := range p.fields {
		names[i] = p.fields[i].name
	}
	return in(name, problem("unknown field%s", Suggest(name, names)))
}
