package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
)

// A row is its payload followed by a CRC-32C over key and payload, so that a
// flipped bit in either is found when the row is read.
const crcSize = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrCorrupt is wrapped by every error that says the file holds what this
// package would not have written: the node must be rebuilt.
var ErrCorrupt = errors.New("state file is damaged")

func corrupt(b bucket, key []byte, problem string) error {
	return fmt.Errorf("%w: bucket %s, key %x: %s", ErrCorrupt, b, key, problem)
}

func rowCRC(key, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, payload)
}

// sealRow completes a row: payload grows in place when it has room.
func sealRow(key, payload []byte) []byte {
	return binary.BigEndian.AppendUint32(payload, rowCRC(key, payload))
}

// openRow checks the row's CRC and returns its payload, which is valid as long
// as the transaction.
func openRow(b bucket, key, row []byte) ([]byte, error) {
	if len(row) < crcSize {
		return nil, corrupt(b, key, "row is too short")
	}
	payload, sum := row[:len(row)-crcSize], row[len(row)-crcSize:]
	if rowCRC(key, payload) != binary.BigEndian.Uint32(sum) {
		return nil, corrupt(b, key, "checksum mismatch")
	}
	return payload, nil
}

// rowReader reads the fields of a payload; the first problem sticks.
type rowReader struct {
	buf []byte
	bad bool
}

func (r *rowReader) uint() uint64 {
	v, n := binary.Uvarint(r.buf)
	if n <= 0 {
		r.bad, r.buf = true, nil
		return 0
	}
	r.buf = r.buf[n:]
	return v
}

func (r *rowReader) int() int64 {
	u := r.uint()
	return int64(u>>1) ^ -int64(u&1)
}

func (r *rowReader) byte() byte {
	if len(r.buf) == 0 {
		r.bad = true
		return 0
	}
	v := r.buf[0]
	r.buf = r.buf[1:]
	return v
}

// bytes is a view into the row of n bytes.
func (r *rowReader) bytes(n uint64) []byte {
	if n > uint64(len(r.buf)) {
		r.bad, r.buf = true, nil
		return nil
	}
	v := r.buf[:n]
	r.buf = r.buf[n:]
	return v
}

func (r *rowReader) string() string { return string(r.bytes(r.uint())) }

// count reads the length of a list whose items take at least one byte each.
func (r *rowReader) count() int {
	n := r.uint()
	if n > uint64(len(r.buf)) {
		r.bad, r.buf = true, nil
		return 0
	}
	return int(n)
}

// done is nil when the payload was read to its end and no further.
func (r *rowReader) done(b bucket, key []byte) error {
	if r.bad || len(r.buf) != 0 {
		return corrupt(b, key, "row does not decode")
	}
	return nil
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendTopic(b []byte, t *Topic) []byte {
	b = appendString(b, t.Name)
	b = append(b, byte(t.Origin))
	b = binary.AppendVarint(b, t.CreatedAt)
	b = appendBool(b, t.Deleted)
	b = binary.AppendVarint(b, t.DeletedAt)
	b = binary.AppendVarint(b, t.Logs)
	b = binary.AppendUvarint(b, uint64(len(t.Config)))
	for _, k := range slices.Sorted(maps.Keys(t.Config)) {
		b = appendString(appendString(b, k), t.Config[k])
	}
	if t.Registrations != 0 { // a row without is what earlier releases wrote
		b = binary.AppendVarint(b, t.Registrations)
	}
	return b
}

func decodeTopic(key, payload []byte) (Topic, error) {
	r := rowReader{buf: payload}
	t := Topic{Name: r.string(), Origin: Origin(r.byte()), CreatedAt: r.int(), Deleted: r.byte() == 1, DeletedAt: r.int(), Logs: r.int()}
	if n := r.count(); n > 0 {
		t.Config = make(map[string]string, n)
		for range n {
			k := r.string()
			t.Config[k] = r.string()
		}
	}
	if len(r.buf) > 0 {
		t.Registrations = r.int()
	}
	return t, r.done(bucketTopics, key)
}

func appendLog(b []byte, l *Log) []byte {
	b = binary.AppendUvarint(b, l.ID)
	b = binary.AppendVarint(b, l.LogStartOffset)
	b = binary.AppendVarint(b, l.HighWatermark)
	b = binary.AppendVarint(b, l.ByteSize)
	b = binary.AppendVarint(b, l.DisklessStartOffset)
	b = binary.AppendVarint(b, l.RemoteLogStartOffset)
	b = appendBool(b, l.Deleted)
	b = binary.AppendVarint(b, l.DeletedAt)
	b = binary.AppendVarint(b, l.EarliestBatchTimestamp)
	b = binary.AppendUvarint(b, l.FirstRow)
	b = binary.AppendUvarint(b, l.NextRow)
	for _, g := range l.open {
		b = appendTimeGroup(b, g)
	}
	return b
}

func decodeLog(key, payload []byte) (Log, error) {
	r := rowReader{buf: payload}
	l := Log{
		ID: r.uint(), LogStartOffset: r.int(), HighWatermark: r.int(), ByteSize: r.int(),
		DisklessStartOffset: r.int(), RemoteLogStartOffset: r.int(), Deleted: r.byte() == 1, DeletedAt: r.int(),
		EarliestBatchTimestamp: r.int(), FirstRow: r.uint(), NextRow: r.uint(),
	}
	for i := range l.open {
		l.open[i] = readTimeGroup(&r)
	}
	return l, r.done(bucketLogs, key)
}

func appendFile(b []byte, f *File) []byte {
	b = appendString(b, f.ObjectKey)
	b = binary.AppendVarint(b, f.Format)
	b = append(b, byte(f.Reason), byte(f.State))
	b = binary.AppendVarint(b, int64(f.UploaderBrokerID))
	b = binary.AppendVarint(b, f.CommittedAt)
	b = binary.AppendVarint(b, f.MarkedForDeletionAt)
	b = binary.AppendVarint(b, f.Size)
	return binary.AppendVarint(b, f.BatchCount)
}

func decodeFile(key, payload []byte) (File, error) {
	r := rowReader{buf: payload}
	f := File{
		ID: decodeID(key), ObjectKey: r.string(), Format: r.int(), Reason: FileReason(r.byte()), State: FileState(r.byte()),
		UploaderBrokerID: int32(r.int()), CommittedAt: r.int(), MarkedForDeletionAt: r.int(), Size: r.int(), BatchCount: r.int(),
	}
	return f, r.done(bucketFiles, key)
}

func appendReplay(b []byte, p *Replay) []byte {
	b = append(b, p.Digest[:]...)
	b = binary.AppendVarint(b, p.ClockMs)
	b = binary.AppendUvarint(b, uint64(len(p.Partitions)))
	for _, part := range p.Partitions {
		b = binary.AppendVarint(b, part.FirstOffset)
		b = binary.AppendVarint(b, part.LogStartOffset)
	}
	b = appendString(b, string(p.Outcomes))
	b = binary.AppendUvarint(b, uint64(len(p.Duplicates)))
	for _, d := range p.Duplicates {
		b = binary.AppendVarint(b, d.Batch)
		b = binary.AppendVarint(b, d.AssignedOffset)
		b = binary.AppendVarint(b, d.TimestampMs)
	}
	return b
}

func decodeReplay(key, payload []byte) (Replay, error) {
	r := rowReader{buf: payload}
	var p Replay
	copy(p.Digest[:], r.bytes(uint64(len(p.Digest))))
	p.ClockMs = r.int()
	p.Partitions = make([]ReplayPartition, r.count())
	for i := range p.Partitions {
		p.Partitions[i] = ReplayPartition{FirstOffset: r.int(), LogStartOffset: r.int()}
	}
	p.Outcomes = slices.Clone(r.bytes(r.uint()))
	p.Duplicates = make([]ReplayDuplicate, r.count())
	for i := range p.Duplicates {
		p.Duplicates[i] = ReplayDuplicate{Batch: r.int(), AssignedOffset: r.int(), TimestampMs: r.int()}
	}
	return p, r.done(bucketReplays, key)
}

func appendProducer(b []byte, p *Producer) []byte {
	b = binary.AppendVarint(b, int64(p.Epoch))
	b = binary.AppendVarint(b, p.UpdatedAt)
	b = append(b, byte(p.Count))
	for _, e := range p.Recent() {
		b = binary.AppendVarint(b, int64(e.BaseSequence))
		b = binary.AppendVarint(b, int64(e.LastSequence))
		b = binary.AppendVarint(b, e.AssignedOffset)
		b = binary.AppendVarint(b, e.BatchMaxTimestamp)
	}
	return b
}

func decodeProducer(key, payload []byte) (Producer, error) {
	r := rowReader{buf: payload}
	p := Producer{Epoch: int16(r.int()), UpdatedAt: r.int(), Count: int(r.byte())}
	if p.Count > MaxProducerEntries {
		return Producer{}, corrupt(bucketProducers, key, "too many entries")
	}
	for i := range p.Count {
		p.Entries[i] = ProducerEntry{BaseSequence: int32(r.int()), LastSequence: int32(r.int()), AssignedOffset: r.int(), BatchMaxTimestamp: r.int()}
	}
	return p, r.done(bucketProducers, key)
}

func appendMeta(b []byte, m *Meta) []byte {
	for _, v := range []uint64{m.SchemaVersion, m.FeatureLevel, m.AppliedIndex, m.AppliedTerm, m.LastFileID, m.LastBatchID, m.LastLogID, m.Digest.hi, m.Digest.lo} {
		b = binary.AppendUvarint(b, v)
	}
	b = append(b, m.ClusterID[:]...)
	b = binary.AppendVarint(b, m.LastClockMs)
	t := &m.Totals
	for _, v := range []int64{t.Topics, t.LiveLogs, t.DeletedLogs, t.Batches, t.FilesUploaded, t.FilesDeleting, t.Replays, t.ProducerStates, t.Fences} {
		b = binary.AppendVarint(b, v)
	}
	late := []uint64{m.LastEpoch, m.LastEventSeq, m.EventsFrom, m.EventHistory, uint64(t.Brokers), uint64(t.Registrations), uint64(t.Leaderless)}
	if !slices.ContainsFunc(late, func(v uint64) bool { return v != 0 }) {
		return b // earlier releases read no further
	}
	for _, v := range late {
		b = binary.AppendUvarint(b, v)
	}
	for _, v := range t.ByStage {
		b = binary.AppendUvarint(b, uint64(v))
	}
	return b
}

func decodeMeta(payload []byte) (Meta, error) {
	r := rowReader{buf: payload}
	var m Meta
	for _, v := range []*uint64{&m.SchemaVersion, &m.FeatureLevel, &m.AppliedIndex, &m.AppliedTerm, &m.LastFileID, &m.LastBatchID, &m.LastLogID, &m.Digest.hi, &m.Digest.lo} {
		*v = r.uint()
	}
	copy(m.ClusterID[:], r.bytes(uint64(len(m.ClusterID))))
	m.LastClockMs = r.int()
	t := &m.Totals
	for _, v := range []*int64{&t.Topics, &t.LiveLogs, &t.DeletedLogs, &t.Batches, &t.FilesUploaded, &t.FilesDeleting, &t.Replays, &t.ProducerStates, &t.Fences} {
		*v = r.int()
	}
	if len(r.buf) > 0 {
		m.LastEpoch, m.LastEventSeq, m.EventsFrom, m.EventHistory = r.uint(), r.uint(), r.uint(), r.uint()
		t.Brokers, t.Registrations, t.Leaderless = int64(r.uint()), int64(r.uint()), int64(r.uint())
		for i := range t.ByStage {
			t.ByStage[i] = int64(r.uint())
		}
	}
	return m, r.done(bucketMeta, metaKey)
}
