package store

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A state travels to other nodes and into backups as one stream:
//
//	header  | "cpnstate" 8 | version 4 | index 8 | term 8 | size of the file 8 | CRC-32C of the header 4 |
//	file    | the bytes of the state file |
//	trailer | size of the file 8 | SHA-256 of header and file 32 |
//
// Integers are big-endian. The end repeats the size, so that a stream that was
// cut short is never taken for a whole one.
const (
	streamMagic       = "cpnstate"
	streamVersion     = 1
	streamHeaderSize  = 40
	streamTrailerSize = 8 + sha256.Size
)

// ErrStream: what was read is not a state stream, or is damaged or cut short.
var ErrStream = errors.New("state stream is damaged or cut short")

// StreamInfo is what the header of a stream announces.
type StreamInfo struct {
	Index uint64 // of the last log entry applied to the state
	Term  uint64 // of that entry
	Size  int64  // of the state file, in bytes
}

func (i StreamInfo) header() []byte {
	b := append(make([]byte, 0, streamHeaderSize), streamMagic...)
	b = binary.BigEndian.AppendUint32(b, streamVersion)
	b = binary.BigEndian.AppendUint64(b, i.Index)
	b = binary.BigEndian.AppendUint64(b, i.Term)
	b = binary.BigEndian.AppendUint64(b, uint64(i.Size))
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func decodeStreamHeader(b []byte) (i StreamInfo, err error) {
	be := binary.BigEndian
	switch {
	case len(b) != streamHeaderSize || string(b[:8]) != streamMagic:
		return i, fmt.Errorf("%w: it does not begin as one", ErrStream)
	case be.Uint32(b[8:]) != streamVersion:
		return i, fmt.Errorf("%w: version %d, this release reads %d", ErrStream, be.Uint32(b[8:]), streamVersion)
	case be.Uint32(b[36:]) != crc32.Checksum(b[:36], castagnoli):
		return i, fmt.Errorf("%w: checksum of the header", ErrStream)
	}
	return StreamInfo{Index: be.Uint64(b[12:]), Term: be.Uint64(b[20:]), Size: int64(be.Uint64(b[28:]))}, nil
}

// PeekStream reads what the stream that r is at the beginning of announces, and
// leaves r there.
func PeekStream(r *bufio.Reader) (StreamInfo, error) {
	header, err := r.Peek(streamHeaderSize)
	if err != nil {
		return StreamInfo{}, streamError(err)
	}
	return decodeStreamHeader(header)
}

func streamError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends early", ErrStream)
	}
	return err
}
