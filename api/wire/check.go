package wire

import (
	"math"
	"reflect"
	"unicode/utf8"
)

// Check holds v, a pointer to a struct that was built in Go, against the bounds in its tags, as Decode does with one that
// came over the wire, so that a program and a client are refused the same. The error is a [*FieldError]; of several broken
// bounds it names the first in the order of the struct.
func Check(v any) error {
	value := reflect.ValueOf(v).Elem()
	return planOf(value.Type()).check(value)
}

// Defaults is a T, a struct, whose optional fields have their defaults and whose other fields are zero: where a default is
// not Go's zero, a program that fills in a request starts from it.
func Defaults[T any]() T {
	return planOf(reflect.TypeFor[T]()).zero.Interface().(T)
}

func (p *plan) check(v reflect.Value) error {
	switch {
	case !p.bounded():
		return nil
	case p.kind == integer && v.Int() < p.min:
		return below(p.min)
	case p.kind == text && !p.marshaled:
		return p.checkText(v.String())
	case p.kind == array:
		return p.checkElements(v)
	case p.kind == object && p.elem != nil:
		return p.checkEntries(v)
	}
	for i := range p.fields {
		if err := p.fields[i].check(p.fields[i].of(v)); err != nil {
			return in(p.fields[i].name, err)
		}
	}
	return nil
}

// bounded says whether there is anything to check: walking long lists of free values would be for nothing.
func (p *plan) bounded() bool {
	switch {
	case p.kind == integer:
		return p.min > math.MinInt64
	case p.kind == text:
		return !p.marshaled
	case p.kind == boolean:
		return false
	case p.elem != nil:
		return p.kind == object || p.elem.bounded()
	}
	return true
}

func (p *plan) checkText(s string) error {
	if !utf8.ValidString(s) {
		return problem("is not valid UTF-8")
	}
	return p.boundText(s)
}

func (p *plan) checkElements(v reflect.Value) error {
	for i := range v.Len() {
		if err := p.elem.check(v.Index(i)); err != nil {
			return at(i, err)
		}
	}
	return nil
}

func (p *plan) checkEntries(v reflect.Value) error {
	for entry := v.MapRange(); entry.Next(); {
		key := entry.Key().String()
		if !utf8.ValidString(key) {
			return in(keyed(key), problem("is not valid UTF-8"))
		}
		if err := p.elem.check(entry.Value()); err != nil {
			return in(keyed(key), err)
		}
	}
	return nil
}
