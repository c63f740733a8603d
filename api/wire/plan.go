package wire

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// kind is what a value is on the wire.
type kind uint8

const (
	invalid kind = iota
	null
	boolean
	integer
	text
	array
	object
	bin       // msgpack only
	float     // msgpack only; in JSON the digits tell
	extension // msgpack only
)

var kindNames = [...]string{"nothing", "null", "true or false", "an integer", "a string", "an array", "an object",
	"binary data", "a floating-point number", "an extension type"}

// String is the kind as it stands in error messages.
func (k kind) String() string { return kindNames[k] }

// plan is all that the codec knows of a type, or of a field with its tags.
type plan struct {
	typ       reflect.Type
	kind      kind // boolean, integer, text, array or object
	marshaled bool // text by the type's own methods
	binary    bool // marshaled, and takes msgpack bin

	min    int64    // integer: lower bound
	maxLen int      // text: most bytes; 0 = any
	oneOf  []string // text: allowed values; nil = any

	elem   *plan          // of an array, or of an object that is a map
	fields []field        // of an object that is a struct
	byName map[string]int // index in fields

	zero reflect.Value // what a missing or null field becomes: the default, or else the type's zero
}

// field is one field of a struct.
type field struct {
	*plan
	name     string
	index    []int // as for reflect.Value.FieldByIndex: longer than one for a field of an embedded struct
	optional bool  // has a default
	omitZero bool
	doc      string
	encoded  [2][]byte // the name as it is written, by Format; JSON with its colon
}

func (f *field) of(v reflect.Value) reflect.Value {
	if len(f.index) == 1 {
		return v.Field(f.index[0])
	}
	return v.FieldByIndex(f.index)
}

// find returns the field with this name, nil if there is none. guess is where it is if the body keeps the struct's order.
func (p *plan) find(name []byte, guess int) (int, *field) {
	if guess < len(p.fields) && p.fields[guess].name == string(name) {
		return guess, &p.fields[guess]
	}
	i, ok := p.byName[string(name)]
	if !ok {
		return 0, nil
	}
	return i, &p.fields[i]
}

var plans sync.Map // reflect.Type -> *plan

// planOf returns the plan of a struct type; it panics for one that has no place on the wire.
func planOf(t reflect.Type) *plan {
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	if t.Kind() != reflect.Struct {
		panic(fmt.Sprintf("wire: a body is a struct, not %v", t))
	}
	p, _ := plans.LoadOrStore(t, compile(t, ""))
	return p.(*plan)
}

var (
	textUnmarshaler   = reflect.TypeFor[encoding.TextUnmarshaler]()
	textMarshaler     = reflect.TypeFor[encoding.TextMarshaler]()
	binaryUnmarshaler = reflect.TypeFor[encoding.BinaryUnmarshaler]()
)

func compile(t reflect.Type, tag reflect.StructTag) *plan {
	p := &plan{typ: t, min: math.MinInt64, zero: reflect.Zero(t)}
	ptr := reflect.PointerTo(t)
	switch {
	case ptr.Implements(textUnmarshaler) && ptr.Implements(textMarshaler):
		p.kind, p.marshaled, p.binary = text, true, ptr.Implements(binaryUnmarshaler)
	case t.Kind() == reflect.Bool:
		p.kind = boolean
	case t.Kind() == reflect.String:
		p.kind = text
	case t.Kind() >= reflect.Int8 && t.Kind() <= reflect.Int64:
		p.kind = integer
	case t.Kind() == reflect.Slice:
		p.kind, p.elem = array, compile(t.Elem(), tag)
	case t.Kind() == reflect.Map && t.Key() == reflect.TypeFor[string]():
		p.kind, p.elem = object, compile(t.Elem(), tag)
	case t.Kind() == reflect.Struct:
		p.kind = object
		p.compileFields()
	default:
		panic(fmt.Sprintf("wire: %v has no place on the wire", t))
	}
	p.bound(tag)
	return p
}

// bound takes the bounds from the tag; those of a slice or map were taken by its elements.
func (p *plan) bound(tag reflect.StructTag) {
	if p.elem != nil {
		return
	}
	if s, ok := p.lookup(tag, "min", integer); ok {
		p.min = int64(mustInt(s))
	}
	if s, ok := p.lookup(tag, "maxlen", text); ok {
		p.maxLen = mustInt(s)
	}
	if s, ok := p.lookup(tag, "oneof", text); ok {
		p.oneOf = strings.Split(s, ",")
	}
}

func (p *plan) lookup(tag reflect.StructTag, key string, k kind) (string, bool) {
	s, ok := tag.Lookup(key)
	if ok && p.kind != k {
		panic(fmt.Sprintf("wire: tag %s is for %v, not %v", key, k, p.typ))
	}
	return s, ok
}

func mustInt(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(fmt.Sprintf("wire: tag %q is not an integer", s))
	}
	return n
}

// maxFields is what fits in the bit set of the fields that were seen.
const maxFields = 64

func (p *plan) compileFields() {
	p.addFields(p.typ, nil)
	if len(p.fields) > maxFields {
		panic(fmt.Sprintf("wire: %v has more than %d fields", p.typ, maxFields))
	}
	p.byName = make(map[string]int, len(p.fields))
	zero := reflect.New(p.typ).Elem()
	for i := range p.fields {
		f := &p.fields[i]
		if _, ok := p.byName[f.name]; ok {
			panic(fmt.Sprintf("wire: %v has two fields %s", p.typ, f.name))
		}
		p.byName[f.name] = i
		f.of(zero).Set(f.zero)
	}
	p.zero = zero
}

func (p *plan) addFields(t reflect.Type, index []int) {
	for sf := range t.Fields() {
		path := append(index[:len(index):len(index)], sf.Index...)
		name, tagged := sf.Tag.Lookup("json")
		switch {
		case sf.Anonymous && !tagged && sf.Type.Kind() == reflect.Struct:
			p.addFields(sf.Type, path)
		case name == "-", !sf.IsExported():
		default:
			p.fields = append(p.fields, newField(t, sf, path))
		}
	}
}

func newField(t reflect.Type, sf reflect.StructField, index []int) field {
	defer func() {
		if r := recover(); r != nil {
			panic(fmt.Sprintf("%v (in %v.%s)", r, t, sf.Name))
		}
	}()
	name, option, _ := strings.Cut(sf.Tag.Get("json"), ",")
	if name == "" || (option != "" && option != "omitzero") {
		panic(fmt.Sprintf("wire: bad tag json:%q", sf.Tag.Get("json")))
	}
	f := field{plan: compile(sf.Type, sf.Tag), name: name, index: index, omitZero: option == "omitzero", doc: sf.Tag.Get("doc")}
	if def, ok := sf.Tag.Lookup("default"); ok {
		f.optional, f.zero = true, f.parseDefault(def)
	}
	for format, w := range writers {
		f.encoded[format], _ = w.key(nil, []byte(name))
	}
	return f
}

// parseDefault reads a default the way a request is read, so that it keeps the field's own bounds.
func (p *plan) parseDefault(s string) reflect.Value {
	v := reflect.New(p.typ).Elem()
	if s == "" && p.marshaled {
		return v
	}
	if p.kind == text {
		s = strconv.Quote(s)
	}
	d := decoder{strict: true}
	d.reset(JSON, []byte(s))
	if err := d.value(p, v); err != nil {
		panic(fmt.Sprintf("wire: default %s: %v", s, err))
	}
	if p.elem != nil && v.Len() > 0 {
		panic("wire: only an empty default can be shared by all values")
	}
	return v
}
