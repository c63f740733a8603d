package store

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Beside the state file lies a file of records, each of which says from where the
// state file can be recovered. It has two slots, which are written in turn; an
// unused slot is zeros:
//
//	slot   | "cpnsync1" 8 | sequence 8 | flags 1 | index 8 | term 8 | digest 16 | meta page 0 80 | meta page 1 80
//	       | length 1, boot id | length 4, the owner's part | CRC-32C of all that 4 | up to 64 KiB
//
// Integers are big-endian; of a meta page the bytes that bbolt uses are kept. The
// file is locked while the state file is open.
const (
	recordMagic     = "cpnsync1"
	recordSlotSize  = 64 << 10
	recordFixedSize = 8 + 8 + 1 + 8 + 8 + 16 + 2*metaPageSize + 1 + 4 + 4
	recordBootSize  = 64

	recordClean  = 1 << 0
	recordSynced = 1 << 1
)

// MaxPart is the most bytes that the owner's part of a record may have.
const MaxPart = recordSlotSize - recordFixedSize - recordBootSize

// Record says how much of the state is safe on disk.
type Record struct {
	Index uint64 // of the last log entry in the state
	Term  uint64 // of that entry
	Part  []byte // what the owner keeps with it

	digest   Digest // of the state
	sequence uint64 // of records, from 1 on
	clean    bool   // the file was closed, and not changed since
	synced   bool   // every transaction after it is synced by itself
	boot     string // of the machine when it was written; empty: not known
	metas    metaPages
}

// metaPages are both meta pages of a bbolt file, without the zeros that fill them.
type metaPages [2][metaPageSize]byte

const metaPageSize = boltHeaderSize + boltMetaSize

func (r *Record) append(b []byte) []byte {
	be := binary.BigEndian
	b = append(b, recordMagic...)
	b = be.AppendUint64(b, r.sequence)
	b = append(b, bitIf(r.clean, recordClean)|bitIf(r.synced, recordSynced))
	b = be.AppendUint64(be.AppendUint64(b, r.Index), r.Term)
	b = be.AppendUint64(be.AppendUint64(b, r.digest.hi), r.digest.lo)
	b = append(append(b, r.metas[0][:]...), r.metas[1][:]...)
	b = append(append(b, byte(len(r.boot))), r.boot...)
	b = append(be.AppendUint32(b, uint32(len(r.Part))), r.Part...)
	return be.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func bitIf(set bool, bit byte) byte {
	if set {
		return bit
	}
	return 0
}

// decodeRecord reads a slot; one that was not written whole is not ok.
func decodeRecord(b []byte) (r Record, ok bool) {
	be := binary.BigEndian
	if len(b) < recordFixedSize || string(b[:8]) != recordMagic {
		return r, false
	}
	r = Record{sequence: be.Uint64(b[8:]), clean: b[16]&recordClean != 0, synced: b[16]&recordSynced != 0, Index: be.Uint64(b[17:]), Term: be.Uint64(b[25:])}
	r.digest = Digest{hi: be.Uint64(b[33:]), lo: be.Uint64(b[41:])}
	n := 49 + copy(r.metas[0][:], b[49:])
	n += copy(r.metas[1][:], b[n:])
	boot := int(b[n])
	if n++; len(b) < recordFixedSize+boot {
		return r, false
	}
	r.boot = string(b[n : n+boot])
	n += boot
	part := int(be.Uint32(b[n:]))
	if n += 4; len(b)-recordFixedSize-boot < part {
		return r, false
	}
	r.Part = append([]byte(nil), b[n:n+part]...)
	n += part
	return r, be.Uint32(b[n:]) == crc32.Checksum(b[:n], castagnoli)
}

// recordPath is where the records of the state file at path are: state.sync
// beside state.db.
func recordPath(path string) string { return strings.TrimSuffix(path, filepath.Ext(path)) + ".sync" }

// recordFile is an open file of records.
type recordFile struct {
	disk disk
	file *os.File
	next int // slot that the next record goes to
	seq  uint64
}

// openRecords locks the records of the state file at path, and makes an empty file
// for them when there is none. The records found come newest first.
func openRecords(path string, timeout time.Duration, d disk) (*recordFile, []Record, error) {
	path = recordPath(path)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = d.create(path)
	}
	if err != nil {
		return nil, nil, err
	}
	r := &recordFile{disk: d, file: f}
	records, err := r.load(timeout)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return r, records, nil
}

func (r *recordFile) load(timeout time.Duration) ([]Record, error) {
	if err := lockFile(r.file, timeout); err != nil {
		return nil, err
	}
	info, err := r.file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() < 2*recordSlotSize {
		// Its room is taken at once, so that writing a record moves nothing else.
		room := make([]byte, 2*recordSlotSize-info.Size())
		if err := errors.Join(r.disk.writeAt(r.file, room, info.Size()), r.disk.sync(r.file), r.disk.syncDir(r.file.Name())); err != nil {
			return nil, err
		}
	}
	slots, err := readSlots(r.file)
	if err != nil {
		return nil, err
	}
	return r.order(slots), nil
}

// order is the records, newest first; the next one goes where the older is.
func (r *recordFile) order(slots [2]*Record) (records []Record) {
	newest := 0
	if slots[0] == nil || slots[1] != nil && slots[1].sequence > slots[0].sequence {
		newest = 1
	}
	for _, i := range []int{newest, 1 - newest} {
		if slots[i] != nil {
			records = append(records, *slots[i])
			r.seq = max(r.seq, slots[i].sequence)
		}
	}
	r.next = 1 - newest
	return records
}

// keep makes the next record leave this one in place.
func (r *recordFile) keep(rec Record) {
	if newest := r.seq == rec.sequence; !newest {
		r.next = 1 - r.next
	}
}

// readSlots reads both slots; nil is one without a record.
func readSlots(f io.ReaderAt) (slots [2]*Record, err error) {
	buf := make([]byte, recordSlotSize)
	for i := range slots {
		n, err := f.ReadAt(buf, int64(i)*recordSlotSize)
		if err != nil && err != io.EOF {
			return slots, err
		}
		if rec, ok := decodeRecord(buf[:n]); ok {
			slots[i] = &rec
		}
	}
	return slots, nil
}

// write makes rec the newest record, and numbers it; it is durable when there is no
// error.
func (r *recordFile) write(rec *Record) error {
	if len(rec.Part) > MaxPart {
		return fmt.Errorf("a record's part has %d bytes, at most %d fit", len(rec.Part), MaxPart)
	}
	rec.sequence = r.seq + 1
	if err := r.disk.writeAt(r.file, rec.append(nil), int64(r.next)*recordSlotSize); err != nil {
		return err
	}
	if err := r.disk.sync(r.file); err != nil {
		return err
	}
	r.seq, r.next = rec.sequence, 1-r.next
	return nil
}

// Close gives the state back, at once: a child that this process is just starting has
// the file too until it runs, and closing it would not end the lock.
func (r *recordFile) Close() error {
	return errors.Join(syscall.Flock(int(r.file.Fd()), syscall.LOCK_UN), r.file.Close())
}

// lockRetry is the pause between two attempts to lock.
const lockRetry = 50 * time.Millisecond

// lockFile takes the file for this process, until it is closed.
func lockFile(f *os.File, timeout time.Duration) error {
	for ; ; timeout -= lockRetry {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		if timeout <= 0 {
			return fmt.Errorf("%w: %s", ErrLocked, f.Name())
		}
		pause(lockRetry)
	}
}

// pause waits. No result depends on it.
func pause(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // waits for another process, outside of any transaction
}

// NewestRecord reads the newest record of the state file at path that belongs to
// a state at the given index; ok says whether there is one. It changes nothing
// and takes no lock.
func NewestRecord(path string, index uint64) (rec Record, ok bool, err error) {
	f, err := os.Open(recordPath(path))
	if errors.Is(err, fs.ErrNotExist) {
		return rec, false, nil
	}
	if err != nil {
		return rec, false, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	slots, err := readSlots(f)
	for _, r := range slots {
		if r != nil && r.Index <= index && (!ok || r.sequence > rec.sequence) {
			rec, ok = *r, true
		}
	}
	return rec, ok, err
}

// readMetas reads both meta pages.
func readMetas(f io.ReaderAt, pageSize int64) (m metaPages, err error) {
	for i := range m {
		if _, err := f.ReadAt(m[i][:], int64(i)*pageSize); err != nil {
			return m, err
		}
	}
	return m, nil
}

// newest decodes the newer meta page; both must be whole.
func (m metaPages) newest() (newest boltMeta, problem string) {
	var metas [2]boltMeta
	for i := range m {
		if metas[i], problem = decodeBoltMeta(m[i][:], uint64(i)); problem != "" {
			return newest, fmt.Sprintf("meta page %d: %s", i, problem)
		}
	}
	if metas[0].pageSize != metas[1].pageSize || metas[0].transaction == metas[1].transaction {
		return newest, "the meta pages do not belong together"
	}
	newest = metas[0]
	if metas[1].transaction > newest.transaction {
		newest = metas[1]
	}
	if newest.freelist != boltNoFreelist {
		return newest, "the file has a free list page, which this package does not write"
	}
	return newest, ""
}

func (m metaPages) String() string { return hex.EncodeToString(append(m[0][:], m[1][:]...)) }

func parseMetas(s string) (m metaPages, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 2*metaPageSize {
		return m, fmt.Errorf("%q is not two meta pages", s)
	}
	copy(m[0][:], b)
	copy(m[1][:], b[metaPageSize:])
	return m, nil
}
