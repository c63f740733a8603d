package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
)

// ErrReceiving says that another Receiver has the place where the file is made.
var ErrReceiving = errors.New("another state is being received")

// Receiver takes a stream and writes the state file in it. It is used by one
// goroutine.
type Receiver struct {
	disk  disk
	path  string
	leave func()   // the path is another one's from then on; nil once it was called
	file  *os.File // nil once it is finished or aborted
	info  StreamInfo
	hash  hash.Hash
	state Digest // of what was received, once it is checked

	head, tail []byte // as far as they were received
	wrote      int64  // of the file
}

func newReceiver(path string, d disk, leave func()) (*Receiver, error) {
	f, err := d.create(path)
	if err != nil {
		leave()
		return nil, err
	}
	return &Receiver{disk: d, path: path, leave: leave, file: f, hash: sha256.New()}, nil
}

// Write takes the next bytes of the stream.
func (r *Receiver) Write(p []byte) (int, error) {
	whole := len(p)
	if missing := streamHeaderSize - len(r.head); missing > 0 {
		n := min(missing, len(p))
		r.head, p = append(r.head, p[:n]...), p[n:]
		if n < missing {
			return whole, nil
		}
		var err error
		if r.info, err = decodeStreamHeader(r.head); err != nil {
			return 0, err
		}
		r.hash.Write(r.head)
	}
	if n := min(r.info.Size-r.wrote, int64(len(p))); n > 0 {
		if err := r.disk.writeAt(r.file, p[:n], r.wrote); err != nil {
			return 0, err
		}
		r.hash.Write(p[:n])
		r.wrote, p = r.wrote+n, p[n:]
	}
	if len(r.tail)+len(p) > streamTrailerSize {
		return 0, fmt.Errorf("%w: it goes on after its end", ErrStream)
	}
	r.tail = append(r.tail, p...)
	return whole, nil
}

// Finish checks the stream against its hash and the file against what the header
// announced, page by page and row by row, and syncs the file and its directory. A
// stream that is damaged, cut short or does not hold what it announces is refused
// with ErrStream, and leaves no file.
func (r *Receiver) Finish() (StreamInfo, error) {
	err := r.finish()
	if err == nil {
		err = r.disk.syncDir(r.path)
	}
	if err != nil {
		r.Abort()
		return StreamInfo{}, err
	}
	return r.info, nil
}

func (r *Receiver) finish() error {
	if len(r.tail) < streamTrailerSize {
		return streamError(io.ErrUnexpectedEOF)
	}
	if !bytes.Equal(r.tail, r.hash.Sum(binary.BigEndian.AppendUint64(nil, uint64(r.info.Size)))) {
		return fmt.Errorf("%w: size or hash differ", ErrStream)
	}
	// The sender may itself have been damaged.
	if err := r.verify(); err != nil {
		return err
	}
	if err := r.disk.sync(r.file); err != nil {
		return err
	}
	f := r.file
	r.file = nil
	return f.Close()
}

func (r *Receiver) verify() error {
	metas, problem, err := metasOf(r.file)
	var v verified
	if err == nil && problem == "" {
		v, err = verifyState(r.file, metas)
		problem = v.Problem
	}
	switch {
	case err != nil:
		return err
	case problem != "":
		return fmt.Errorf("%w: %w: %s", ErrStream, ErrCorrupt, problem)
	case v.Schema != SchemaVersion:
		return fmt.Errorf("%w: version %d, this release reads %d", ErrSchema, v.Schema, SchemaVersion)
	case v.Index != r.info.Index || v.Term != r.info.Term:
		return fmt.Errorf("%w: announced index %d of term %d, holds index %d of term %d", ErrStream, r.info.Index, r.info.Term, v.Index, v.Term)
	}
	r.state = v.Digest
	return nil
}

// Abort gives up what was received. It is idempotent, and does nothing after Install:
// the file at the path may be another one's by then.
func (r *Receiver) Abort() {
	if r.leave == nil {
		return
	}
	if r.file != nil {
		_ = r.file.Close() // it is removed
		r.file = nil
	}
	_ = r.disk.remove(r.path) // the next one, or Open, removes what is left
	r.left()
}

func (r *Receiver) left() {
	r.leave()
	r.leave = nil
}

// Info is what the header announced, once Finish has checked it.
func (r *Receiver) Info() StreamInfo { return r.info }

// Extract writes the state file of the stream that r holds to path, where no file
// may be: see Receiver.Finish.
func Extract(r io.Reader, path string) (StreamInfo, error) {
	to, err := newReceiver(path, disk{}, func() {})
	if err != nil {
		return StreamInfo{}, err
	}
	if _, err := io.Copy(to, r); err != nil {
		to.Abort()
		return StreamInfo{}, err
	}
	return to.Finish()
}

// installPath is where the file is made that takes the place of path.
func installPath(path string) string { return path + ".install" }

// Receive begins to receive a state that may then be installed. There is one Receiver
// at a time, until it was installed or given up: before that, Receive answers
// ErrReceiving. Any goroutine may call it.
func (s *Store) Receive() (*Receiver, error) {
	if !s.receiving.CompareAndSwap(false, true) {
		return nil, ErrReceiving
	}
	leave := func() { s.receiving.Store(false) }
	if err := s.disk.remove(installPath(s.path)); err != nil {
		leave()
		return nil, err
	}
	return newReceiver(installPath(s.path), s.disk, leave)
}

// Install replaces the state by the one that r has received and finished; part is
// the owner's part of its record. A crash at any time leaves the old state with
// its record, or the new state with its own. Snapshots taken before go on to show
// the old state. After an error the store is closed (View answers ErrClosed) unless
// nothing was changed.
func (s *Store) Install(r *Receiver, part []byte) error {
	s.committing.Lock()
	defer s.committing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db == nil {
		r.Abort()
		return ErrClosed
	}
	if err := s.unsound(); err != nil {
		return err
	}
	if r.leave == nil {
		return errors.New("the received state was installed or given up before")
	}
	if err := s.replace(Record{Index: r.info.Index, Term: r.info.Term, Part: part, digest: r.state}); err != nil {
		return err
	}
	r.left()
	return nil
}

// replace puts the file beside in place of the open one, whose last record stays.
func (s *Store) replace(rec Record) (err error) {
	if s.records == nil {
		if err = s.disk.rename(installPath(s.path), s.path); err == nil {
			err = s.disk.syncDir(s.path)
		}
	} else {
		rec, err = s.putInPlace(rec)
	}
	// The old file has lost its name, or may have. It is closed once its snapshots
	// are released, which must not hold up the new one.
	old, holders := s.db, s.holders
	s.db, s.file = nil, nil
	s.unpin()
	s.retired.Go(func() {
		holders.Wait() // bbolt would wait with a mutex, in which no simulated time passes
		_ = old.Close()
	})
	if err != nil {
		return err
	}
	if err := s.openFile(); err != nil {
		return err
	}
	return s.pinInstalled(rec)
}

// pinInstalled pins the state that its record was written for before the rename.
func (s *Store) pinInstalled(rec Record) error {
	if s.records == nil {
		return nil
	}
	s.transactions.Add(1)
	p, err := s.point(nil)
	if err != nil {
		return err
	}
	if p.record.metas != rec.metas {
		p.Release()
		return errors.Join(ErrCorrupt, errors.New("the installed file is not the one that was recorded"))
	}
	s.pin(p, rec)
	p.Release()
	return nil
}
