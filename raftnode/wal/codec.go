package wal

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/hashicorp/raft"
)

// codecID names the layout below in the heads of segments. Values below 1 << 16 are
// raft-wal's own.
const codecID = 1<<16 + 1

// An entry in its frame, big-endian:
//
//	0   crc32c of all that follows
//	4   index of the first entry of the append that it was part of
//	12  index
//	20  term
//	28  time of the append by the leader, nanoseconds since 1970; 0: none
//	36  type, one byte
//	37  length of the data, four bytes
//	41  data, then extensions
const entryHead = 41

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendEntry encodes an entry of the append that begins with entry first.
func appendEntry(to []byte, first uint64, entry *raft.Log) []byte {
	begin := len(to)
	to = append(to, 0, 0, 0, 0)
	to = binary.BigEndian.AppendUint64(to, first)
	to = binary.BigEndian.AppendUint64(to, entry.Index)
	to = binary.BigEndian.AppendUint64(to, entry.Term)
	var nanos int64
	if !entry.AppendedAt.IsZero() {
		nanos = entry.AppendedAt.UnixNano()
	}
	to = binary.BigEndian.AppendUint64(to, uint64(nanos))
	to = append(to, byte(entry.Type))
	to = binary.BigEndian.AppendUint32(to, uint32(len(entry.Data)))
	to = append(to, entry.Data...)
	to = append(to, entry.Extensions...)
	binary.BigEndian.PutUint32(to[begin:], crc32.Checksum(to[begin+4:], castagnoli))
	return to
}

func encodedSize(entry *raft.Log) int { return entryHead + len(entry.Data) + len(entry.Extensions) }

// decodeEntry copies an entry out of b; ok is false when b is not what appendEntry
// made.
func decodeEntry(b []byte, entry *raft.Log) (first uint64, ok bool) {
	if len(b) < entryHead || binary.BigEndian.Uint32(b) != crc32.Checksum(b[4:], castagnoli) {
		return 0, false
	}
	rest := append([]byte(nil), b[entryHead:]...)
	n := int(binary.BigEndian.Uint32(b[37:]))
	if n > len(rest) {
		return 0, false
	}
	*entry = raft.Log{
		Index: binary.BigEndian.Uint64(b[12:]), Term: binary.BigEndian.Uint64(b[20:]), Type: raft.LogType(b[36]),
		Data: rest[:n:n],
	}
	if n < len(rest) {
		entry.Extensions = rest[n:]
	}
	if nanos := int64(binary.BigEndian.Uint64(b[28:])); nanos != 0 {
		entry.AppendedAt = time.Unix(0, nanos)
	}
	return binary.BigEndian.Uint64(b[4:]), true
}
