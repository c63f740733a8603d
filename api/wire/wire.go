// Package wire is the codec between the bytes of a request or an answer and the Go struct that holds it.
//
// One plan per Go type, compiled once from its struct tags, drives everything: the two encodings (JSON, and msgpack
// maps with the same keys), the strict decoding of requests, the tolerant decoding of answers, and the OpenAPI schema.
// So a field is described in one place, and what is documented is what is checked.
//
// The tags of a field:
//
//	json:"byte_size"      its name on the wire; ",omitzero" leaves a zero value out when encoding; "-" skips the field
//	default:"-1"          optional in requests, with this value; without it the field is required.
//	                      Slices say "[]"; maps and structs say "{}"; a text type says "" for its zero value
//	min:"0"               lower bound of an integer
//	oneof:"a,b"           the allowed strings
//	maxlen:"1024"         the most bytes a string may have
//	doc:"..."             its description in the schema
//
// On a slice or map the bounds hold for its elements. The kinds: bool, string, int8 to int64, slices, string-keyed maps,
// structs (embedded ones are flattened), and types with their own text form (encoding.TextMarshaler and TextUnmarshaler),
// which also take msgpack bin when they are an encoding.BinaryUnmarshaler. Types are not recursive and hold no pointers.
// A type outside of this, or a bad tag, is a mistake in the program: its first use panics and names the field.
//
// Empty slices and maps decode to nil and nil ones encode as [] and {}: null is never written.
package wire

import (
	"reflect"
	"sync"
)

// Format is an encoding of bodies.
type Format int

// The formats. Both carry objects with the same keys.
const (
	JSON Format = iota
	Msgpack
)

// Limits bound what a request may ask to be decoded.
type Limits struct {
	MaxItems int // the most elements of any one array or map; 0 = no limit
}

var decoders = sync.Pool{New: func() any { return new(decoder) }}

// Decode reads a request into v, a pointer to a struct, and refuses everything that is not exactly what the type says:
// unknown, missing and repeated fields, nulls, other kinds, numbers that are not integers or do not fit, broken bounds,
// trailing data. Fields that are left out get their default. The error is a [*FieldError], which wraps [ErrTooLarge] when a
// limit is passed; v then holds an undefined mix. data is neither kept nor changed.
func Decode(f Format, data []byte, v any, lim Limits) error {
	return decode(f, data, v, true, lim)
}

// DecodeAnswer reads an answer into v, a pointer to a struct, as a client should: fields that it does not know are skipped,
// missing ones and nulls become the default or else zero, bounds are not checked. A known field of another kind, an
// integer that does not fit and broken encoding remain errors, each a [*FieldError].
func DecodeAnswer(f Format, data []byte, v any) error {
	return decode(f, data, v, false, Limits{})
}

func decode(f Format, data []byte, v any, strict bool, lim Limits) error {
	if len(data) == 0 {
		return problem("is empty")
	}
	target := reflect.ValueOf(v).Elem()
	d := decoders.Get().(*decoder)
	defer decoders.Put(d)
	d.reset(f, data)
	defer d.release()
	d.strict, d.maxItems = strict, lim.MaxItems
	return d.body(planOf(target.Type()), target)
}

// Append appends the encoding of v, a struct or a pointer to one (which saves a copy), to dst. Its only errors, each a
// [*FieldError], are strings that are not UTF-8 and text types that fail to encode themselves; dst is then returned as it was.
func Append(f Format, dst []byte, v any) ([]byte, error) {
	value := reflect.ValueOf(v)
	if value.Kind() != reflect.Pointer {
		p := reflect.New(value.Type())
		p.Elem().Set(value)
		value = p
	}
	e := encoder{format: f, writer: writers[f]}
	out, err := e.value(dst, planOf(value.Type().Elem()), value.Elem())
	if err != nil {
		return dst, err
	}
	return out, nil
}
