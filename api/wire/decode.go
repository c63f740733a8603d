package wire

import (
	"encoding"
	"reflect"
	"slices"
	"strings"
)

// reader takes a body apart, in order. Each value is announced by next and then taken by exactly one of the others;
// the caller has checked that it is the one for that kind.
type reader interface {
	// next says of what kind the value ahead is.
	next() (kind, error)
	boolean() (bool, error)
	integer() (int64, error)
	// text returns a string or binary data, valid until the next call.
	text() ([]byte, error)
	// skip passes over the value, whatever it is.
	skip() error
	// open enters an array or object and returns its number of elements, -1 if only its end will tell.
	open() (int, error)
	// more says whether there is an element i in the innermost array or object, which has n, as open told.
	more(i, n int) bool
	// name returns the key of the next member of an object, valid until the next call. It needs no next.
	name() ([]byte, error)
	// close leaves the innermost array or object.
	close() error
	// finish checks that nothing follows.
	finish() error
}

// decoder walks a plan and a body in step.
type decoder struct {
	reader
	json     jsonReader
	msgpack  msgpackReader
	strict   bool
	maxItems int
}

func (d *decoder) reset(f Format, data []byte) {
	if f == Msgpack {
		d.msgpack.data = data
		d.reader = &d.msgpack
		return
	}
	d.json.reset(data)
	d.reader = &d.json
}

// release lets go of the body.
func (d *decoder) release() {
	if d.reader == &d.msgpack {
		d.msgpack = msgpackReader{}
		return
	}
	d.json.reset(nil)
}

func (d *decoder) body(p *plan, v reflect.Value) error {
	k, err := d.next()
	if err != nil {
		return err
	}
	if k != object {
		return problem("must be an object, got %v", k)
	}
	if err := d.object(p, v); err != nil {
		return err
	}
	return d.finish()
}

func (d *decoder) value(p *plan, v reflect.Value) error {
	k, err := d.next()
	if err != nil {
		return err
	}
	switch {
	case k == p.kind, k == bin && p.binary:
	case k == null && !d.strict:
		v.Set(p.zero)
		return d.skip()
	case k == null:
		return problem("must not be null")
	default:
		return problem("must be %v, got %v", p.kind, k)
	}
	switch p.kind {
	case integer:
		return d.setInteger(p, v)
	case text:
		return d.setText(p, v, k)
	case boolean:
		b, err := d.boolean()
		v.SetBool(b)
		return err
	case array:
		return d.array(p, v)
	}
	if p.elem != nil {
		return d.mapping(p, v)
	}
	return d.object(p, v)
}

func (d *decoder) setInteger(p *plan, v reflect.Value) error {
	n, err := d.integer()
	switch {
	case err != nil:
		return err
	case v.OverflowInt(n):
		return problem("does not fit in %v", p.typ.Kind())
	case d.strict && n < p.min:
		return below(p.min)
	}
	v.SetInt(n)
	return nil
}

func below(bound int64) error {
	if bound == 1 {
		return problem("must be > 0")
	}
	return problem("must be >= %d", bound)
}

func (d *decoder) setText(p *plan, v reflect.Value, k kind) error {
	b, err := d.text()
	switch {
	case err != nil:
		return err
	case p.marshaled:
		return unmarshal(v, b, k)
	}
	s := string(b)
	if d.strict {
		if err := p.boundText(s); err != nil {
			return err
		}
	}
	v.SetString(s)
	return nil
}

func (p *plan) boundText(s string) error {
	switch {
	case p.maxLen > 0 && len(s) > p.maxLen:
		return problem("must be at most %d bytes", p.maxLen)
	case p.oneOf != nil && !slices.Contains(p.oneOf, s):
		return problem("must be one of: %s", strings.Join(p.oneOf, ", "))
	}
	return nil
}

func unmarshal(v reflect.Value, b []byte, k kind) error {
	var err error
	if k == bin {
		err = v.Addr().Interface().(encoding.BinaryUnmarshaler).UnmarshalBinary(b)
	} else {
		err = v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText(b)
	}
	if err != nil {
		return problem("%v", err)
	}
	return nil
}

// room is how many elements an array gets memory for at its start: what it declares, but beyond maxRoom only what really
// came; unknownRoom where only the end tells the length.
func room(declared int) int {
	const unknownRoom, maxRoom = 16, 1024
	if declared < 0 {
		return unknownRoom
	}
	return min(declared, maxRoom)
}

func (d *decoder) array(p *plan, v reflect.Value) error {
	n, err := d.open()
	if err != nil {
		return err
	}
	v.SetZero()
	for i := 0; d.more(i, n); i++ {
		if err := d.checkItems(max(n, i+1)); err != nil {
			return err
		}
		if i == 0 {
			v.Grow(room(n))
		} else if i == v.Cap() {
			v.Grow(1)
		}
		v.SetLen(i + 1)
		if err := d.value(p.elem, v.Index(i)); err != nil {
			return at(i, err)
		}
	}
	return d.close()
}

func (d *decoder) checkItems(n int) error {
	if d.maxItems == 0 || n <= d.maxItems {
		return nil
	}
	err := problem("more than %d items", d.maxItems)
	err.cause = ErrTooLarge
	return err
}

func (d *decoder) mapping(p *plan, v reflect.Value) error {
	n, err := d.open()
	if err != nil {
		return err
	}
	v.SetZero()
	for i := 0; d.more(i, n); i++ {
		if err := d.checkItems(max(n, i+1)); err != nil {
			return err
		}
		if v.IsNil() {
			v.Set(reflect.MakeMap(p.typ))
		}
		if err := d.entry(p, v); err != nil {
			return err
		}
	}
	return d.close()
}

func (d *decoder) entry(p *plan, v reflect.Value) error {
	name, err := d.name()
	if err != nil {
		return err
	}
	key := string(name)
	index := reflect.ValueOf(key)
	if d.strict && v.MapIndex(index).IsValid() {
		return in(keyed(key), problem("duplicate key"))
	}
	elem := reflect.New(p.elem.typ).Elem()
	if err := d.value(p.elem, elem); err != nil {
		return in(keyed(key), err)
	}
	v.SetMapIndex(index, elem)
	return nil
}

func (d *decoder) object(p *plan, v reflect.Value) error {
	n, err := d.open()
	if err != nil {
		return err
	}
	var seen uint64
	for i := 0; d.more(i, n); i++ {
		bit, err := d.member(p, v, i, seen)
		if err != nil {
			return err
		}
		seen |= bit
	}
	if err := d.close(); err != nil {
		return err
	}
	return d.fill(p, v, seen)
}

// member reads the i-th member of an object and returns the bit of its field, 0 for a field that was skipped.
func (d *decoder) member(p *plan, v reflect.Value, i int, seen uint64) (uint64, error) {
	name, err := d.name()
	if err != nil {
		return 0, err
	}
	index, f := p.find(name, i)
	if f == nil {
		if d.strict {
			return 0, unknownField(p, string(name))
		}
		if _, err := d.next(); err != nil {
			return 0, err
		}
		return 0, d.skip()
	}
	bit := uint64(1) << index
	if d.strict && seen&bit != 0 {
		return 0, in(f.name, problem("duplicate key"))
	}
	if err := d.value(f.plan, f.of(v)); err != nil {
		return 0, in(f.name, err)
	}
	return bit, nil
}

// fill gives the fields that were not seen their defaults.
func (d *decoder) fill(p *plan, v reflect.Value, seen uint64) error {
	for i := range p.fields {
		if seen&(1<<i) != 0 {
			continue
		}
		f := &p.fields[i]
		if d.strict && !f.optional {
			return in(f.name, problem("is required"))
		}
		f.of(v).Set(f.zero)
	}
	return nil
}
