package wire

import (
	"encoding"
	"reflect"
	"slices"
)

// writer appends the parts of a body.
type writer interface {
	openObject(dst []byte, n int) []byte
	closeObject(dst []byte) []byte
	openArray(dst []byte, n int) []byte
	closeArray(dst []byte) []byte
	// next goes before the i-th element or member.
	next(dst []byte, i int) []byte
	key(dst, name []byte) ([]byte, error)
	boolean(dst []byte, b bool) []byte
	integer(dst []byte, n int64) []byte
	text(dst, s []byte) ([]byte, error)
}

var writers = [...]writer{JSON: jsonWriter{}, Msgpack: msgpackWriter{}}

type encoder struct {
	writer
	format  Format
	scratch []byte // the string that is being written
}

func (e *encoder) value(dst []byte, p *plan, v reflect.Value) ([]byte, error) {
	switch p.kind {
	case integer:
		return e.integer(dst, v.Int()), nil
	case boolean:
		return e.boolean(dst, v.Bool()), nil
	case text:
		return e.string(dst, p, v)
	case array:
		return e.array(dst, p, v)
	}
	if p.elem != nil {
		return e.mapping(dst, p, v)
	}
	return e.object(dst, p, v)
}

func (e *encoder) string(dst []byte, p *plan, v reflect.Value) ([]byte, error) {
	e.scratch = e.scratch[:0]
	if !p.marshaled {
		e.scratch = append(e.scratch, v.String()...)
		return e.text(dst, e.scratch)
	}
	var err error
	switch m := v.Addr().Interface().(type) {
	case encoding.TextAppender:
		e.scratch, err = m.AppendText(e.scratch)
	case encoding.TextMarshaler:
		e.scratch, err = m.MarshalText()
	}
	if err != nil {
		return dst, problem("%v", err)
	}
	return e.text(dst, e.scratch)
}

func (e *encoder) array(dst []byte, p *plan, v reflect.Value) ([]byte, error) {
	var err error
	dst = e.openArray(dst, v.Len())
	for i := range v.Len() {
		if dst, err = e.value(e.next(dst, i), p.elem, v.Index(i)); err != nil {
			return dst, at(i, err)
		}
	}
	return e.closeArray(dst), nil
}

// mapping writes a map in the order of its keys, so that equal values have equal bytes.
func (e *encoder) mapping(dst []byte, p *plan, v reflect.Value) ([]byte, error) {
	keys := make([]string, 0, v.Len())
	for _, k := range v.MapKeys() {
		keys = append(keys, k.String())
	}
	slices.Sort(keys)
	dst = e.openObject(dst, len(keys))
	elem := reflect.New(p.elem.typ).Elem() // addressable, which values in a map are not
	for i, k := range keys {
		elem.Set(v.MapIndex(reflect.ValueOf(k)))
		var err error
		if dst, err = e.key(e.next(dst, i), []byte(k)); err != nil {
			return dst, in(keyed(k), err)
		}
		if dst, err = e.value(dst, p.elem, elem); err != nil {
			return dst, in(keyed(k), err)
		}
	}
	return e.closeObject(dst), nil
}

func (e *encoder) object(dst []byte, p *plan, v reflect.Value) ([]byte, error) {
	n := len(p.fields)
	for i := range p.fields {
		if p.fields[i].omitted(v) {
			n--
		}
	}
	dst = e.openObject(dst, n)
	written := 0
	for i := range p.fields {
		f := &p.fields[i]
		if f.omitted(v) {
			continue
		}
		var err error
		dst = append(e.next(dst, written), f.encoded[e.format]...)
		if dst, err = e.value(dst, f.plan, f.of(v)); err != nil {
			return dst, in(f.name, err)
		}
		written++
	}
	return e.closeObject(dst), nil
}

func (f *field) omitted(v reflect.Value) bool {
	return f.omitZero && f.of(v).IsZero()
}
