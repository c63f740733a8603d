package ops

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/cpnode/cpnode/store"
	"github.com/vmihailenco/msgpack/v5"
)

// Entry is one decoded log entry:
//
//	| version 1 | CRC-32C 4 over what follows | msgpack [v, op, now_ms, command] |
//
// The leading version covers the frame, v the layout of the commands.
type Entry struct {
	NowMs   int64 // the proposer's clock, Unix ms
	Command Command
}

const (
	entryVersion   = 1
	commandVersion = 1
	entryHeader    = 5
	entryFields    = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrEntry is wrapped by every error of Decode: the entry cannot be applied by
// this release, and a node that meets it in its log must stop.
var ErrEntry = errors.New("log entry does not decode")

// Encode is the log entry of a command proposed at nowMs.
func Encode(cmd Command, nowMs int64) ([]byte, error) {
	var buf bytes.Buffer
	buf.Grow(512)
	buf.Write([]byte{entryVersion, 0, 0, 0, 0})
	enc := msgpack.GetEncoder()
	defer msgpack.PutEncoder(enc)
	enc.Reset(&buf)
	enc.UseCompactInts(true)
	err := encodeFields(enc, entryFields, func(c *codec) {
		v, op := int64(commandVersion), cmd.Op()
		c.int64(&v)
		c.string(&op)
		c.int64(&nowMs)
		if c.field() {
			cmd.fields(c)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", cmd.Op(), err)
	}
	entry := buf.Bytes()
	binary.BigEndian.PutUint32(entry[1:], crc32.Checksum(entry[entryHeader:], castagnoli))
	return entry, nil
}

// Decode reads a log entry. The result shares no memory with data.
func Decode(data []byte) (Entry, error) {
	switch {
	case len(data) < entryHeader:
		return Entry{}, fmt.Errorf("%w: %d bytes", ErrEntry, len(data))
	case data[0] != entryVersion:
		return Entry{}, fmt.Errorf("%w: version %d, this release knows %d", ErrEntry, data[0], entryVersion)
	case crc32.Checksum(data[entryHeader:], castagnoli) != binary.BigEndian.Uint32(data[1:]):
		return Entry{}, fmt.Errorf("%w: checksum mismatch", ErrEntry)
	}
	in := bytes.NewReader(data[entryHeader:])
	dec := msgpack.GetDecoder()
	defer msgpack.PutDecoder(dec)
	dec.Reset(in)
	c := codec{dec: dec, data: data[entryHeader:], in: in}
	var e Entry
	c.object(entryFields, e.fields)
	if err := c.ended(); err != nil {
		return Entry{}, fmt.Errorf("%w: %w", ErrEntry, err)
	}
	return e, nil
}

// fields reads an entry; Encode writes one.
func (e *Entry) fields(c *codec) {
	var v int64
	var name string
	c.int64(&v)
	c.string(&name)
	c.int64(&e.NowMs)
	if !c.field() {
		return
	}
	if v != commandVersion {
		c.fail(fmt.Errorf("command version %d, this release knows %d", v, commandVersion))
		return
	}
	op, ok := Lookup(name)
	if !ok || !op.IsWrite() {
		c.fail(fmt.Errorf("unknown operation %q", name))
		return
	}
	e.Command = op.NewCommand()
	e.Command.fields(c)
}

// Apply carries out one entry. The clock it uses is the larger of the entry's
// and the state's, and moves the state's when the entry changed something: one
// that was refused, or that came after another like it, leaves no trace.
func Apply(tx *store.WriteTx, e Entry) (any, error) {
	nowMs, before := max(e.NowMs, tx.Meta().LastClockMs), tx.Changes()
	result, err := e.Command.Apply(tx, nowMs)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.Command.Op(), err)
	}
	if tx.Changes() != before {
		tx.SetClock(nowMs)
	}
	return result, nil
}
