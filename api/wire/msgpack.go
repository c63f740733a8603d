package wire

import (
	"encoding/binary"
	"math"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// head is the first byte of a msgpack value: what it starts, the bytes of the number that follows it, and, where none
// does, the number itself.
type head struct {
	kind   kind
	width  int
	signed bool
	number int64
}

// heads tells them apart. The number is the integer, or the length of what it starts: bytes, elements or members.
var heads = makeHeads()

func makeHeads() (t [256]head) {
	for c := range 256 {
		switch b := byte(c); {
		case msgpcode.IsFixedNum(b):
			t[c] = head{kind: integer, number: int64(int8(b))}
		case msgpcode.IsFixedMap(b):
			t[c] = head{kind: object, number: int64(b & msgpcode.FixedMapMask)}
		case msgpcode.IsFixedArray(b):
			t[c] = head{kind: array, number: int64(b & msgpcode.FixedArrayMask)}
		case msgpcode.IsFixedString(b):
			t[c] = head{kind: text, number: int64(b & msgpcode.FixedStrMask)}
		case msgpcode.IsFixedExt(b):
			t[c] = head{kind: extension, number: 1 << (b - msgpcode.FixExt1)}
		}
	}
	t[msgpcode.Nil] = head{kind: null}
	t[msgpcode.False] = head{kind: boolean}
	t[msgpcode.True] = head{kind: boolean, number: 1}
	t[msgpcode.Float] = head{kind: float, number: 4}
	t[msgpcode.Double] = head{kind: float, number: 8}
	for i := range 4 {
		t[int(msgpcode.Uint8)+i] = head{kind: integer, width: 1 << i}
		t[int(msgpcode.Int8)+i] = head{kind: integer, width: 1 << i, signed: true}
	}
	for i := range 3 {
		t[int(msgpcode.Str8)+i] = head{kind: text, width: 1 << i}
		t[int(msgpcode.Bin8)+i] = head{kind: bin, width: 1 << i}
		t[int(msgpcode.Ext8)+i] = head{kind: extension, width: 1 << i}
	}
	for i := range 2 {
		t[int(msgpcode.Array16)+i] = head{kind: array, width: 2 << i}
		t[int(msgpcode.Map16)+i] = head{kind: object, width: 2 << i}
	}
	return t
}

// msgpackReader takes a body apart. Every length that it returns has been checked against the bytes that are left, so that
// five bytes cannot ask for gigabytes.
type msgpackReader struct {
	data   []byte // what is left
	kind   kind   // of the value ahead
	number int64  // its integer, or its length: bytes, elements or members
	tooBig bool   // an integer of 2^63 or more
}

func (r *msgpackReader) next() (kind, error) {
	if len(r.data) == 0 {
		return invalid, problem("ends too early")
	}
	h := heads[r.data[0]]
	if h.kind == invalid {
		return invalid, problem("bad msgpack: 0x%x starts no value", r.data[0])
	}
	if len(r.data) < 1+h.width {
		return invalid, problem("ends too early")
	}
	r.kind, r.number, r.tooBig = h.kind, h.number, false
	if h.width > 0 {
		r.setNumber(h.signed, r.data[1:1+h.width])
	}
	r.data = r.data[1+h.width:]
	return r.kind, r.checkLength()
}

func (r *msgpackReader) setNumber(signed bool, b []byte) {
	var n uint64
	switch len(b) {
	case 1:
		n = uint64(b[0])
	case 2:
		n = uint64(binary.BigEndian.Uint16(b))
	case 4:
		n = uint64(binary.BigEndian.Uint32(b))
	case 8:
		n = binary.BigEndian.Uint64(b)
	}
	unused := 64 - 8*len(b)
	if signed {
		r.number = int64(n<<unused) >> unused
		return
	}
	r.number, r.tooBig = int64(n), n > math.MaxInt64
}

// checkLength holds the declared length against what is left: an element takes a byte at least, a member two.
func (r *msgpackReader) checkLength() error {
	need := r.number
	switch r.kind {
	case null, boolean, integer:
		return nil
	case extension:
		r.number++ // its type
		need++
	case object:
		need *= 2
	}
	if need > int64(len(r.data)) {
		return problem("%v of length %d, but only %d bytes are left", r.kind, r.number, len(r.data))
	}
	return nil
}

func (r *msgpackReader) boolean() (bool, error) { return r.number == 1, nil }

func (r *msgpackReader) integer() (int64, error) {
	if r.tooBig {
		return 0, problem("does not fit in int64")
	}
	return r.number, nil
}

func (r *msgpackReader) text() ([]byte, error) {
	b := r.take()
	if r.kind == text && !utf8.Valid(b) {
		return nil, problem("is not valid UTF-8")
	}
	return b, nil
}

func (r *msgpackReader) take() []byte {
	b := r.data[:r.number]
	r.data = r.data[r.number:]
	return b
}

// skip counts the values still to pass instead of calling itself: no nesting is too deep.
func (r *msgpackReader) skip() error {
	for pending := int64(0); ; pending-- {
		switch r.kind {
		case text, bin, float, extension:
			r.take()
		case array:
			pending += r.number
		case object:
			pending += 2 * r.number
		}
		if pending == 0 {
			return nil
		}
		if _, err := r.next(); err != nil {
			return err
		}
	}
}

func (r *msgpackReader) open() (int, error) { return int(r.number), nil }

func (r *msgpackReader) more(i, n int) bool { return i < n }

func (r *msgpackReader) name() ([]byte, error) {
	k, err := r.next()
	if err != nil {
		return nil, err
	}
	if k != text {
		return nil, problem("keys must be strings, got %v", k)
	}
	return r.text()
}

func (r *msgpackReader) close() error { return nil }

func (r *msgpackReader) finish() error {
	if len(r.data) > 0 {
		return problem("trailing data after the object")
	}
	return nil
}

type msgpackWriter struct{}

func (msgpackWriter) openObject(dst []byte, n int) []byte {
	if n <= int(msgpcode.FixedMapMask) {
		return append(dst, msgpcode.FixedMapLow|byte(n))
	}
	return appendLength(dst, n, 0, msgpcode.Map16, msgpcode.Map32)
}

func (msgpackWriter) closeObject(dst []byte) []byte { return dst }

func (msgpackWriter) openArray(dst []byte, n int) []byte {
	if n <= int(msgpcode.FixedArrayMask) {
		return append(dst, msgpcode.FixedArrayLow|byte(n))
	}
	return appendLength(dst, n, 0, msgpcode.Array16, msgpcode.Array32)
}

func (msgpackWriter) closeArray(dst []byte) []byte { return dst }

func (msgpackWriter) next(dst []byte, _ int) []byte { return dst }

func (w msgpackWriter) key(dst, name []byte) ([]byte, error) { return w.text(dst, name) }

func (msgpackWriter) boolean(dst []byte, b bool) []byte {
	if b {
		return append(dst, msgpcode.True)
	}
	return append(dst, msgpcode.False)
}

// integer writes the shortest form, unsigned for what is not negative.
func (msgpackWriter) integer(dst []byte, n int64) []byte {
	switch {
	case n >= -32 && n <= math.MaxInt8:
		return append(dst, byte(n))
	case n >= 0 && n <= math.MaxUint8:
		return append(dst, msgpcode.Uint8, byte(n))
	case n >= 0 && n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, msgpcode.Uint16), uint16(n))
	case n >= 0 && n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, msgpcode.Uint32), uint32(n))
	case n >= 0:
		return binary.BigEndian.AppendUint64(append(dst, msgpcode.Uint64), uint64(n))
	case n >= math.MinInt8:
		return append(dst, msgpcode.Int8, byte(n))
	case n >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(dst, msgpcode.Int16), uint16(n))
	case n >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(dst, msgpcode.Int32), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, msgpcode.Int64), uint64(n))
}

func (msgpackWriter) text(dst, s []byte) ([]byte, error) {
	if !utf8.Valid(s) {
		return dst, problem("is not valid UTF-8")
	}
	if len(s) <= int(msgpcode.FixedStrMask) {
		dst = append(dst, msgpcode.FixedStrLow|byte(len(s)))
	} else {
		dst = appendLength(dst, len(s), msgpcode.Str8, msgpcode.Str16, msgpcode.Str32)
	}
	return append(dst, s...), nil
}

// appendLength writes a length after the code for its width; code8 is 0 for what has no form of one byte.
func appendLength(dst []byte, n int, code8, code16, code32 byte) []byte {
	switch {
	case n <= math.MaxUint8 && code8 != 0:
		return append(dst, code8, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, code16), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, code32), uint32(n))
}
