package config

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/cpnode/cpnode/raftnode"
)

// value is one field of a Config as text. Set checks and stores; its error says
// what is allowed. Type is one word for help and reference.
type value interface {
	pflag.Value
	// Allowed is the range, for the reference; empty is any.
	Allowed() string
}

// unbounded is the largest number where the meaning sets no bound.
const unbounded = math.MaxInt32

type number[N ~int | ~int64 | ~uint64] struct {
	to       *N
	min, max int64
	unit     string // of the text: int, bytes or ms
	scale    int64  // of what is stored, in units
}

func count[N ~int | ~int64 | ~uint64](to *N, least, most int64) value {
	return &number[N]{to, least, most, "int", 1}
}

func bytes[N ~int | ~int64 | ~uint64](to *N, least, most int64) value {
	return &number[N]{to, least, most, "bytes", 1}
}

// millis is a time in whole milliseconds. The field counts milliseconds, unless
// it is a time.Duration.
func millis[N ~int64](to *N, least, most int64) value {
	scale := int64(1)
	if _, ok := any(to).(*time.Duration); ok {
		scale = int64(time.Millisecond)
	}
	return &number[N]{to, least, most, "ms", scale}
}

func (n *number[N]) Set(text string) error {
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < n.min || v > n.max {
		return fmt.Errorf("%q is not a whole number from %d to %d", text, n.min, n.max)
	}
	*n.to = N(v * n.scale)
	return nil
}

func (n *number[N]) String() string  { return strconv.FormatInt(int64(*n.to)/n.scale, 10) }
func (n *number[N]) Type() string    { return n.unit }
func (n *number[N]) Allowed() string { return fmt.Sprintf("%d to %d", n.min, n.max) }

type boolean struct{ to *bool }

func (b boolean) Set(text string) error {
	if text != "true" && text != "false" {
		return fmt.Errorf("%q is not true or false", text)
	}
	*b.to = text == "true"
	return nil
}

func (b boolean) String() string  { return strconv.FormatBool(*b.to) }
func (b boolean) Type() string    { return "bool" }
func (b boolean) Allowed() string { return "true, false" }

type oneOf struct {
	to    *string
	words []string
}

func (o oneOf) Set(text string) error {
	for _, w := range o.words {
		if text == w {
			*o.to = text
			return nil
		}
	}
	return fmt.Errorf("%q is not %s", text, strings.Join(o.words, " or "))
}

func (o oneOf) String() string  { return *o.to }
func (o oneOf) Type() string    { return "word" }
func (o oneOf) Allowed() string { return strings.Join(o.words, ", ") }

type level struct{ to *slog.Level }

func (l level) Set(text string) error {
	switch text {
	case "debug", "info", "warn", "error":
		return l.to.UnmarshalText([]byte(text))
	}
	return fmt.Errorf("%q is not debug, info, warn or error", text)
}

func (l level) String() string  { return strings.ToLower(l.to.String()) }
func (l level) Type() string    { return "word" }
func (l level) Allowed() string { return "debug, info, warn, error" }

// text is a string that Validate checks, where anything is to be checked.
type text struct {
	to      *string
	allowed string
}

func (t text) Set(text string) error { *t.to = text; return nil }
func (t text) String() string        { return *t.to }
func (t text) Type() string          { return "string" }
func (t text) Allowed() string       { return t.allowed }

type address struct {
	to       *string
	optional bool
}

func (a address) Set(text string) error {
	if text == "" && a.optional {
		*a.to = ""
		return nil
	}
	_, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return fmt.Errorf("%q is not host:port", text)
	}
	*a.to = text
	return nil
}

func (a address) String() string  { return *a.to }
func (a address) Type() string    { return "address" }
func (a address) Allowed() string { return "host:port" }

type peers struct{ to *[]raftnode.Peer }

func (p peers) Set(text string) error {
	list, err := ParsePeers(text)
	if err != nil {
		return errors.New(err.Error() + ", several separated by commas")
	}
	*p.to = list
	return nil
}

func (p peers) String() string  { return formatPeers(*p.to) }
func (p peers) Type() string    { return "list" }
func (p peers) Allowed() string { return "id=host:port,..." }
