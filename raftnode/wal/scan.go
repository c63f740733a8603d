package wal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/hashicorp/raft"
)

// The layout of a segment file, which is raft-wal's, little-endian: a head of 32
// bytes, then frames of a head of 8 bytes and a payload, at multiples of 8. An append
// is the frames of its entries and a frame that holds the crc32c of everything since
// the last such frame; the append that fills the segment has a frame with the offsets
// of all entries before that one.
const (
	fileMagic   = 0x58eb6b0d
	fileHead    = 32
	frameHead   = 8
	frameEntry  = 1
	frameIndex  = 2
	frameCommit = 3
)

// scanned is what a segment file holds.
type scanned struct {
	offsets []uint32 // of the frames of the entries
	end     int64    // behind the last whole append
	index   uint64   // offset of the list of offsets; 0: the segment is not full
	// torn: something is behind the end. It was never acknowledged.
	torn bool
}

// frame is one that lies within data.
type frame struct {
	kind byte
	sum  uint32 // of a frameCommit
	body []byte
	next int // offset of the next one
}

func frameAt(data []byte, at int) (f frame, ok bool) {
	if at+frameHead > len(data) || data[at+1]|data[at+2]|data[at+3] != 0 {
		return f, false
	}
	f.kind, f.sum, f.next = data[at], binary.LittleEndian.Uint32(data[at+4:]), at+frameHead
	switch f.kind {
	case frameCommit:
		return f, true
	case frameEntry, frameIndex:
		if n := int(f.sum); n <= len(data)-f.next {
			f.body = data[f.next : f.next+n]
			f.next += (n + frameHead - 1) / frameHead * frameHead
			return f, true
		}
	}
	return f, false
}

// scan reads the file of a segment from the front, append by append, and then looks
// at what is left. A crash can leave one append torn, the last, of which nobody was
// told. So what is not whole is damage if anything shows that there was a later
// append, or if the list says that more was durable.
func (s *segment) scan(data []byte) (r scanned, err error) {
	if len(data) < int(s.Size) {
		return r, s.damaged("it has %d bytes, and was made with %d", len(data), s.Size)
	}
	for next := fileHead; ; next = int(r.end) {
		whole, ok := s.scanAppend(data, int(r.end), next, r.offsets)
		if !ok {
			break
		}
		r.offsets, r.end = whole.offsets, whole.end
		if whole.index != 0 {
			r.index = whole.index
			break
		}
	}
	r.torn = len(bytes.Trim(data[r.end:], "\x00")) > 0
	next := s.First + uint64(len(r.offsets))
	switch {
	case r.end < s.Durable:
		return r, s.damaged("%d bytes are whole, %d were", r.end, s.Durable)
	case s.Last != 0 && (r.index != s.IndexStart || next <= s.Last):
		return r, s.damaged("it ends before entry %d", s.Last)
	case r.end > 0 && !bytes.Equal(data[:fileHead], s.head()):
		return r, s.damaged("its head is another's")
	case r.torn && followed(data[r.end:], next):
		return r, s.damaged("an append that begins with entry %d is not whole, and others follow", next)
	}
	return r, nil
}

// scanAppend reads the append whose checksum begins at start and frames at at.
func (s *segment) scanAppend(data []byte, start, at int, offsets []uint32) (r scanned, ok bool) {
	r.offsets = offsets
	var entry raft.Log
	for f, ok := frameAt(data, at); ok; f, ok = frameAt(data, at) {
		switch f.kind {
		case frameEntry:
			if _, ok := decodeEntry(f.body, &entry); !ok || entry.Index != s.First+uint64(len(r.offsets)) {
				return r, false
			}
			r.offsets = append(r.offsets, uint32(at))
		case frameIndex:
			r.index = uint64(at + frameHead)
		case frameCommit:
			r.end = int64(f.next)
			return r, f.sum == crc32.Checksum(data[start:at], castagnoli)
		}
		at = f.next
	}
	return r, false
}

// followed says whether rest holds an entry of an append that begins after next.
func followed(rest []byte, next uint64) bool {
	var entry raft.Log
	for at := 0; at < len(rest); at += frameHead {
		f, ok := frameAt(rest, at)
		if !ok || f.kind != frameEntry {
			continue
		}
		if first, ok := decodeEntry(f.body, &entry); ok && first > next {
			return true
		}
	}
	return false
}

func (s *segment) head() []byte {
	var head [fileHead]byte
	binary.LittleEndian.PutUint64(head[0:], fileMagic)
	binary.LittleEndian.PutUint64(head[8:], s.First)
	binary.LittleEndian.PutUint64(head[16:], s.ID)
	binary.LittleEndian.PutUint64(head[24:], codecID)
	return head[:]
}

func (s *segment) damaged(format string, args ...any) error {
	return fmt.Errorf("%w: segment %s: %s", ErrDamaged, s.name(), fmt.Sprintf(format, args...))
}
