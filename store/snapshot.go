package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// Snapshot is one state as a stream, held by a read transaction until it is
// released or detached. What is applied meanwhile does not show in it, and pages
// freed meanwhile are not used again. It is read by one goroutine at a time;
// Detach and Release may be called by others.
type Snapshot struct {
	info StreamInfo
	dir  string

	mu    sync.Mutex
	tx    *held    // nil once it is detached or released
	spill *os.File // holds the rest, once it is detached
	front *bytes.Reader
	pages io.Reader // of the file after the front
	left  int64     // bytes of front and pages that were not read yet
	hash  hash.Hash
	end   *bytes.Reader // trailer, once all before it was read
}

// Snapshot takes hold of the present state. It copies nothing; the caller must
// release it, and before that Close does not return.
func (s *Store) Snapshot() (*Snapshot, error) {
	p, err := s.Point(nil)
	if err != nil {
		return nil, err
	}
	pages, err := p.record.metas.alone()
	if err != nil {
		p.Release()
		return nil, err
	}
	info := StreamInfo{Index: p.record.Index, Term: p.record.Term, Size: p.tx.Size()}
	front := append(info.header(), pages...)
	return &Snapshot{
		info: info, dir: filepath.Dir(s.path), tx: p.tx,
		front: bytes.NewReader(front), pages: io.NewSectionReader(p.file, int64(len(pages)), info.Size-int64(len(pages))),
		left: streamHeaderSize + info.Size, hash: sha256.New(),
	}, nil
}

// alone is two whole meta pages that both lead to the newer state: the pages of
// the older one are not part of a stream.
func (m metaPages) alone() ([]byte, error) {
	newest, problem := m.newest()
	if problem != "" {
		return nil, errors.Join(ErrCorrupt, errors.New(problem))
	}
	at := newest.transaction % 2
	pages := make([]byte, 2*newest.pageSize)
	here, other := pages[int64(at)*newest.pageSize:], pages[int64(1-at)*newest.pageSize:]
	copy(here, m[at][:])
	copy(other, m[at][:])
	e := binary.NativeEndian
	e.PutUint64(other, 1-at)
	e.PutUint64(other[boltHeaderSize+boltMetaSize-16:], newest.transaction-1)
	h := fnv.New64a()
	h.Write(other[boltHeaderSize : boltHeaderSize+boltMetaSize-8])
	e.PutUint64(other[boltHeaderSize+boltMetaSize-8:], h.Sum64())
	return pages, nil
}

// Index is that of the last log entry applied to the state.
func (s *Snapshot) Index() uint64 { return s.info.Index }

// Term is that of the last log entry applied to the state.
func (s *Snapshot) Term() uint64 { return s.info.Term }

// Size is the length of the stream.
func (s *Snapshot) Size() int64 { return streamHeaderSize + s.info.Size + streamTrailerSize }

// Read reads the stream: header, state file, trailer.
func (s *Snapshot) Read(p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.tx == nil && s.spill == nil:
		return 0, ErrClosed
	case s.end != nil:
		return s.end.Read(p)
	case s.front.Len() > 0:
		n, err = s.front.Read(p)
	default:
		n, err = s.pages.Read(p[:min(int64(len(p)), s.left)])
	}
	s.hash.Write(p[:n])
	if s.left -= int64(n); s.left == 0 {
		trailer := binary.BigEndian.AppendUint64(make([]byte, 0, streamTrailerSize), uint64(s.info.Size))
		s.end = bytes.NewReader(s.hash.Sum(trailer))
		return n, nil
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF // the file is shorter than its meta page says
	}
	return n, err
}

// WriteTo writes what was not read yet of the stream.
func (s *Snapshot) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{s}) // without this method
}

// Detach copies what was not read yet to a file without a name beside the state,
// and lets go of the state: a slow reader then holds up no page.
func (s *Snapshot) Detach() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tx == nil {
		return nil
	}
	f, err := os.CreateTemp(s.dir, "state.send-*")
	if err != nil {
		return err
	}
	// The name goes first: a process that is killed while it copies leaves no file.
	if err := os.Remove(f.Name()); err != nil {
		return errors.Join(err, f.Close())
	}
	size, err := io.Copy(f, s.pages)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	s.spill, s.pages = f, io.NewSectionReader(f, 0, size)
	s.letGo()
	return nil
}

func (s *Snapshot) letGo() {
	if s.tx != nil {
		s.tx.release()
		s.tx = nil
	}
}

// Release lets go of the state. It is idempotent.
func (s *Snapshot) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.letGo()
	if s.spill != nil {
		_ = s.spill.Close() // it has no name and was only read
		s.spill = nil
	}
}
