package ops

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/cpnode/cpnode/store"
	"github.com/vmihailenco/msgpack/v5"
)

// codec writes or reads the fields of a command: one method per struct names
// them for both ways, so the two cannot drift apart. A struct is an array; new
// fields are only ever appended, as optional ones.
type codec struct {
	enc  *msgpack.Encoder // writing when not nil
	dec  *msgpack.Decoder
	data []byte        // what is decoded
	in   *bytes.Reader // its rest, to check lengths before allocating

	left int // elements left of the array being read or written
	err  error
}

var (
	errTooFewFields  = errors.New("array is too short")
	errTooManyFields = errors.New("array has fields that this release does not know")
	errLength        = errors.New("declared length exceeds the entry")
)

func (c *codec) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// position is how far decoding has come; 0 while encoding.
func (c *codec) position() int {
	if c.in == nil {
		return 0
	}
	return len(c.data) - c.in.Len()
}

// since is the bytes that were decoded from a position on.
func (c *codec) since(start int) []byte { return c.data[start:c.position()] }

// object writes or reads one struct of n fields.
func (c *codec) object(n int, fields func(*codec)) {
	if c.err != nil {
		return
	}
	outer := c.left
	if c.enc != nil {
		c.fail(c.enc.EncodeArrayLen(n))
		c.left = n
	} else {
		c.left = c.length()
	}
	fields(c)
	switch {
	case c.err != nil:
	case c.left > 0 && c.enc != nil:
		c.fail(errTooFewFields)
	case c.left > 0:
		c.fail(errTooManyFields)
	}
	c.left = outer
}

// length reads an array's length, which cannot exceed the bytes that are left.
func (c *codec) length() int {
	n, err := c.dec.DecodeArrayLen()
	switch {
	case err != nil:
		c.fail(err)
	case n < 0:
		c.fail(errors.New("array is nil"))
	case n > c.in.Len():
		c.fail(errLength)
	default:
		return n
	}
	return 0
}

// field counts one field and says whether to go on.
func (c *codec) field() bool {
	if c.err != nil {
		return false
	}
	if c.left == 0 {
		c.fail(errTooFewFields)
		return false
	}
	c.left--
	return true
}

func (c *codec) int64(v *int64) {
	if !c.field() {
		return
	}
	if c.enc != nil {
		c.fail(c.enc.EncodeInt(*v))
		return
	}
	n, err := c.dec.DecodeInt64()
	*v = n
	c.fail(err)
}

func (c *codec) uint64(v *uint64) {
	wide := int64(*v)
	c.int64(&wide)
	*v = uint64(wide)
}

// narrow writes or reads an integer of fewer bits and refuses one that does not fit.
func narrow[T int8 | int16 | int32](c *codec, v *T) {
	wide := int64(*v)
	c.int64(&wide)
	if *v = T(wide); int64(*v) != wide {
		c.fail(fmt.Errorf("%d does not fit its field", wide))
	}
}

func (c *codec) int32(v *int32) { narrow(c, v) }
func (c *codec) int16(v *int16) { narrow(c, v) }
func (c *codec) int8(v *int8)   { narrow(c, v) }

func (c *codec) bool(v *bool) {
	if !c.field() {
		return
	}
	if c.enc != nil {
		c.fail(c.enc.EncodeBool(*v))
		return
	}
	b, err := c.dec.DecodeBool()
	*v = b
	c.fail(err)
}

func (c *codec) string(v *string) {
	if !c.field() {
		return
	}
	if c.enc != nil {
		c.fail(c.enc.EncodeString(*v))
		return
	}
	*v = string(c.raw())
}

func (c *codec) topicID(v *store.TopicID) {
	if !c.field() {
		return
	}
	if c.enc != nil {
		c.fail(c.enc.EncodeBytes(v[:]))
		return
	}
	c.decodeFixed(v[:])
}

// log writes or reads two fields.
func (c *codec) log(k *store.LogKey) {
	c.topicID(&k.Topic)
	c.int32(&k.Partition)
}

// decodeFixed reads bytes of exactly the length of v.
func (c *codec) decodeFixed(v []byte) {
	n, err := c.dec.DecodeBytesLen()
	if err != nil {
		c.fail(err)
		return
	}
	if n != len(v) {
		c.fail(fmt.Errorf("%d bytes instead of %d", n, len(v)))
		return
	}
	c.fail(c.dec.ReadFull(v))
}

func (c *codec) raw() []byte {
	n, err := c.dec.DecodeBytesLen()
	switch {
	case err != nil:
		c.fail(err)
		return nil
	case n < 0 || n > c.in.Len():
		c.fail(errLength)
		return nil
	}
	b := make([]byte, n)
	c.fail(c.dec.ReadFull(b))
	return b
}

// list writes or reads a field that is an array of structs of n fields each.
func list[T any](c *codec, v *[]T, n int, fields func(*codec, *T)) {
	if !c.field() {
		return
	}
	if c.enc != nil {
		c.fail(c.enc.EncodeArrayLen(len(*v)))
	} else {
		*v = make([]T, c.length())
	}
	for i := range *v {
		item := &(*v)[i]
		c.object(n, func(c *codec) { fields(c, item) })
	}
}

// int32s writes or reads a field that is an array of integers.
func (c *codec) int32s(v *[]int32) {
	elements(c, v, (*codec).int32)
}

// strings writes or reads a field that is an array of strings.
func (c *codec) strings(v *[]string) {
	elements(c, v, (*codec).string)
}

// elements writes or reads a field that is an array of values of one field each.
func elements[T any](c *codec, v *[]T, element func(*codec, *T)) {
	if !c.field() {
		return
	}
	outer := c.left
	if c.enc != nil {
		c.fail(c.enc.EncodeArrayLen(len(*v)))
	} else {
		*v = make([]T, c.length())
	}
	c.left = len(*v)
	for i := range *v {
		element(c, &(*v)[i])
	}
	c.left = outer
}

// pair is one key of a map and its value.
type pair struct{ key, value string }

// pairs writes or reads a map as an array of pairs in order of key, so that
// equal maps are equal bytes.
func (c *codec) pairs(v *map[string]string) {
	var all []pair
	for _, k := range slices.Sorted(maps.Keys(*v)) {
		all = append(all, pair{k, (*v)[k]})
	}
	list(c, &all, 2, func(c *codec, p *pair) {
		c.string(&p.key)
		c.string(&p.value)
	})
	if c.enc != nil {
		return
	}
	*v = make(map[string]string, len(all))
	for _, p := range all {
		(*v)[p.key] = p.value
	}
}

func encodeFields(enc *msgpack.Encoder, n int, fields func(*codec)) error {
	c := codec{enc: enc}
	c.object(n, fields)
	return c.err
}

// ended is nil when the input was read to its end.
func (c *codec) ended() error {
	if c.err == nil && c.in.Len() > 0 {
		return errors.New("trailing bytes")
	}
	if errors.Is(c.err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return c.err
}
