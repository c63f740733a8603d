package segmentlog

import (
	"encoding/binary"
	"hash/crc32"
	"math"

	switchover "github.com/cpnode/cpnode/switch"
)

// MaxPayload is the most bytes that the payload of one batch may have. It bounds what a
// damaged length can make a reader allocate.
const MaxPayload = 16 << 20

// One batch in a segment, numbers big-endian:
//
//	crc 4 | length 4 | version 1 | kind 1 | leader epoch 4 | base offset 8 | records 4 | payload
//
// The CRC-32C covers all that is behind it. Length is the payload's.
const (
	crcSize      = 4
	headerSize   = 26
	frameVersion = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// FrameSize is how many bytes a batch takes in a segment.
func FrameSize(b switchover.Batch) int64 { return headerSize + int64(len(b.Payload)) }

// AppendFrame appends the batch to dst as a segment holds it.
func AppendFrame(dst []byte, b switchover.Batch) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, crcSize)...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(b.Payload)))
	dst = append(dst, frameVersion, byte(b.Kind))
	dst = binary.BigEndian.AppendUint32(dst, uint32(b.LeaderEpoch))
	dst = binary.BigEndian.AppendUint64(dst, uint64(b.BaseOffset))
	dst = binary.BigEndian.AppendUint32(dst, uint32(b.Records))
	dst = append(dst, b.Payload...)
	binary.BigEndian.PutUint32(dst[start:], crc32.Checksum(dst[start+crcSize:], castagnoli))
	return dst
}

// header is the part of a frame that says how long it is.
type header struct {
	crc    uint32
	length int              // of the payload, at most MaxPayload
	batch  switchover.Batch // without payload
}

// decodeHeader reads the headerSize bytes of a header; why says what keeps them from being one.
func decodeHeader(b []byte) (h header, why string) {
	length := binary.BigEndian.Uint32(b[4:])
	if b[8] != frameVersion {
		return header{}, "not a batch of a known version"
	}
	if length > MaxPayload {
		return header{}, "length is above the limit"
	}
	h = header{crc: binary.BigEndian.Uint32(b), length: int(length), batch: switchover.Batch{
		Kind:        switchover.Kind(b[9]),
		LeaderEpoch: int32(binary.BigEndian.Uint32(b[10:])),
		BaseOffset:  int64(binary.BigEndian.Uint64(b[14:])),
		Records:     int32(binary.BigEndian.Uint32(b[22:])),
	}}
	if err := checkBatch(h.batch); err != nil {
		return header{}, err.Error()
	}
	return h, ""
}

// checkBatch is ErrInvalidBatch for what no segment may hold.
func checkBatch(b switchover.Batch) error {
	switch {
	case b.Kind != switchover.Classic && b.Kind != switchover.Consolidated:
		return invalid("kind %d", b.Kind)
	case b.Records < 1:
		return invalid("%d records", b.Records)
	case b.BaseOffset < 0 || b.BaseOffset > math.MaxInt64-int64(b.Records):
		return invalid("base offset %d", b.BaseOffset)
	case b.LeaderEpoch < 0:
		return invalid("leader epoch %d", b.LeaderEpoch)
	case len(b.Payload) > MaxPayload:
		return invalid("%d bytes of payload, more than %d", len(b.Payload), MaxPayload)
	}
	return nil
}
