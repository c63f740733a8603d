package store

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
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

// Snapshot is one state, held by a read transaction until it is released. What
// is applied meanwhile does not show in it, and pages freed meanwhile are not
// used again. It is used by one goroutine at a time.
type Snapshot struct {
	tx   *bbolt.Tx
	info StreamInfo
}

// Snapshot takes hold of the present state. It copies nothing; the caller must
// release it, and before that Close does not return.
func (s *Store) Snapshot() (*Snapshot, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.db == nil {
		return nil, ErrClosed
	}
	btx, err := s.db.Begin(false)
	if err != nil {
		return nil, err
	}
	var tx ReadTx
	if err := tx.init(btx); err != nil {
		return nil, errors.Join(err, btx.Rollback())
	}
	return &Snapshot{tx: btx, info: StreamInfo{Index: tx.meta.AppliedIndex, Term: tx.meta.AppliedTerm, Size: btx.Size()}}, nil
}

// Index is that of the last log entry applied to the state.
func (s *Snapshot) Index() uint64 { return s.info.Index }

// Term is that of the last log entry applied to the state.
func (s *Snapshot) Term() uint64 { return s.info.Term }

// Size is how many bytes WriteTo writes.
func (s *Snapshot) Size() int64 { return streamHeaderSize + s.info.Size + streamTrailerSize }

// WriteTo writes the stream and returns the bytes written.
func (s *Snapshot) WriteTo(w io.Writer) (n int64, err error) {
	if s.tx == nil {
		return 0, ErrClosed
	}
	h := sha256.New()
	both := io.MultiWriter(w, h)
	wrote, err := both.Write(s.info.header())
	n = int64(wrote)
	if err != nil {
		return n, err
	}
	file, err := s.tx.WriteTo(both)
	n += file
	if err != nil {
		return n, err
	}
	trailer := binary.BigEndian.AppendUint64(make([]byte, 0, streamTrailerSize), uint64(file))
	wrote, err = w.Write(h.Sum(trailer))
	return n + int64(wrote), err
}

// Release lets go of the state. It is idempotent.
func (s *Snapshot) Release() {
	if s.tx != nil {
		_ = s.tx.Rollback() // fails only when it is closed
		s.tx = nil
	}
}

// Extract writes the state file of a stream to path, where no file may be, and
// syncs it and its directory. A stream that is damaged, cut short or does not
// hold the state it announces is refused and leaves no file.
func Extract(r io.Reader, path string) (StreamInfo, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return StreamInfo{}, err
	}
	info, err := extract(r, f)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = verify(path, info)
	}
	if err != nil {
		return StreamInfo{}, errors.Join(err, os.Remove(path))
	}
	return info, syncDir(filepath.Dir(path))
}

func extract(r io.Reader, f *os.File) (StreamInfo, error) {
	var header [streamHeaderSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return StreamInfo{}, streamError(err)
	}
	info, err := decodeStreamHeader(header[:])
	if err != nil {
		return info, err
	}
	h := sha256.New()
	h.Write(header[:])
	if _, err := io.CopyN(io.MultiWriter(f, h), r, info.Size); err != nil {
		return info, streamError(err)
	}
	var trailer [streamTrailerSize]byte
	if _, err := io.ReadFull(r, trailer[:]); err != nil {
		return info, streamError(err)
	}
	want := h.Sum(binary.BigEndian.AppendUint64(nil, uint64(info.Size)))
	if !bytes.Equal(trailer[:], want) {
		return info, fmt.Errorf("%w: size or hash differ", ErrStream)
	}
	return info, f.Sync()
}

func streamError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends early", ErrStream)
	}
	return err
}

// verify opens an extracted file, whose sender may itself have been damaged, and
// compares it with what was announced.
func verify(path string, info StreamInfo) error {
	problem, err := CheckPages(path)
	if err != nil {
		return err
	}
	if problem != "" {
		return fmt.Errorf("%w: %w: %s", ErrStream, ErrCorrupt, problem)
	}
	db, err := bbolt.Open(path, 0, &bbolt.Options{ReadOnly: true, Timeout: defaultLockTimeout})
	if err != nil {
		return err
	}
	err = db.View(func(btx *bbolt.Tx) error {
		meta, err := layoutOf(btx)
		if err != nil {
			return err
		}
		if meta.AppliedIndex != info.Index || meta.AppliedTerm != info.Term {
			return fmt.Errorf("%w: announced index %d of term %d, holds index %d of term %d",
				ErrStream, info.Index, info.Term, meta.AppliedIndex, meta.AppliedTerm)
		}
		return nil
	})
	return errors.Join(err, db.Close())
}

// installPath is where Install writes the file that takes the place of path.
func installPath(path string) string { return path + ".install" }

// Install replaces the state by that of a stream. A stream that Extract refuses
// leaves the store as it was; a crash at any time leaves the old state or the new
// one. Snapshots taken before go on to show the old state. An error after which
// the store is closed (View answers ErrClosed) left it unclear which one a crash
// of the machine would leave.
func (s *Store) Install(r io.Reader) error {
	beside := installPath(s.path)
	if err := os.Remove(beside); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if _, err := Extract(r, beside); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db == nil {
		return errors.Join(ErrClosed, os.Remove(beside))
	}
	if err := os.Rename(beside, s.path); err != nil {
		return errors.Join(err, os.Remove(beside))
	}
	// The old file has lost its name. It is closed once its snapshots are
	// released, which must not hold up the new one.
	old := s.db
	s.db = nil
	s.retired.Go(func() { _ = old.Close() })
	if err := syncDir(filepath.Dir(s.path)); err != nil {
		return err
	}
	db, err := openDB(s.path, s.options)
	s.db = db
	return err
}
