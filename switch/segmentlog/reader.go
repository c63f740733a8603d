package segmentlog

import (
	"bufio"
	"errors"
	"hash/crc32"
	"io"

	switchover "github.com/cpnode/cpnode/switch"
)

// Reader decodes the batches of a segment, one after the other, and checks each. Not for
// concurrent use.
type Reader struct {
	name     string
	r        *bufio.Reader
	position int64 // in the file, of the next frame
	next     int64 // base offset that the next batch must have, -1 for any
	bytes    [headerSize]byte
}

// readAhead is the buffer of a Reader in bytes.
const readAhead = 16 << 10

// NewReader reads r, whose first byte is at the given position of the file name, and the
// first of a batch. Errors name both.
func NewReader(name string, r io.Reader, position int64) *Reader {
	return &Reader{name: name, r: bufio.NewReaderSize(r, readAhead), position: position, next: -1}
}

// Position is where in the file the next batch begins, in bytes.
func (r *Reader) Position() int64 { return r.position }

// Next is the next batch. Its payload is the caller's. The error is io.EOF behind the last
// batch, ErrCorrupt if the bytes are no batch, end within one, or do not follow the batch
// before, and ErrStorage if they cannot be read; after it the reader is of no more use.
func (r *Reader) Next() (switchover.Batch, error) {
	h, err := r.header()
	if err != nil {
		return switchover.Batch{}, err
	}
	return r.payload(h)
}

// From is the batches from the one that owns offset on, while NextOffset() <= limit: at least
// one, and more while maxBytes of payload allow. Those before it are passed over unchecked. An
// error behind some of them is left to the next read. Errors are as of Next: io.EOF if there is
// no batch that owns offset.
func (r *Reader) From(offset, limit int64, maxBytes int) (batches []switchover.Batch, err error) {
	h, err := r.seek(offset)
	for err == nil && h.batch.NextOffset() <= limit && (len(batches) == 0 || h.length <= maxBytes) {
		var b switchover.Batch
		if b, err = r.payload(h); err == nil {
			batches = append(batches, b)
			maxBytes -= h.length
			h, err = r.header()
		}
	}
	if len(batches) > 0 {
		return batches, nil
	}
	return nil, err
}

// seek passes over batches, without checking them, to the header of the one that owns offset.
// Errors are as of Next.
func (r *Reader) seek(offset int64) (header, error) {
	for {
		h, err := r.header()
		if err != nil || h.batch.NextOffset() > offset {
			return h, err
		}
		if err := r.skip(h); err != nil {
			return header{}, err
		}
	}
}

// header reads the next header and leaves the payload to payload or skip.
func (r *Reader) header() (header, error) {
	if _, err := io.ReadFull(r.r, r.bytes[:]); err != nil {
		return header{}, r.failed(err)
	}
	h, why := decodeHeader(r.bytes[:])
	if why == "" && r.next >= 0 && h.batch.BaseOffset != r.next {
		why = "the batch does not follow the one before"
	}
	if why != "" {
		return header{}, corrupt(r.name, r.position, why)
	}
	return h, nil
}

func (r *Reader) payload(h header) (switchover.Batch, error) {
	h.batch.Payload = make([]byte, h.length)
	if _, err := io.ReadFull(r.r, h.batch.Payload); err != nil {
		return switchover.Batch{}, r.failed(noEOF(err))
	}
	crc := crc32.Update(crc32.Checksum(r.bytes[crcSize:], castagnoli), castagnoli, h.batch.Payload)
	if crc != h.crc {
		return switchover.Batch{}, corrupt(r.name, r.position, "checksum of the batch differs")
	}
	r.passed(h)
	return h.batch, nil
}

func (r *Reader) skip(h header) error {
	if _, err := r.r.Discard(h.length); err != nil {
		return r.failed(noEOF(err))
	}
	r.passed(h)
	return nil
}

func (r *Reader) passed(h header) {
	r.position += headerSize + int64(h.length)
	r.next = h.batch.NextOffset()
}

// noEOF makes an end of file within a frame one that is not expected.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (r *Reader) failed(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return corrupt(r.name, r.position, "the file ends within a batch")
	case errors.Is(err, io.EOF):
		return io.EOF
	}
	return storage("read", r.name, err)
}
