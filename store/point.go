package store

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"go.etcd.io/bbolt"
)

// ErrSync is wrapped when the state could not be synced. What the kernel holds of
// the file after that may not be what was written: nothing more is.
var ErrSync = errors.New("the state file could not be synced")

// Point is a state that can be made the one to recover from. It holds a read
// transaction, so the pages that the state is made of are not written to, until it
// is released or a later one is committed. It is used by one goroutine.
type Point struct {
	store  *Store
	db     *bbolt.DB
	tx     *held
	file   *os.File // of db
	count  uint64   // of transactions before it
	record Record
}

// held is a read transaction that outlives the call that began it.
type held struct {
	*bbolt.Tx
	holders *sync.WaitGroup // of the file
}

// hold begins a transaction that is to be released. It needs mu.
func (s *Store) hold() (*held, error) {
	tx, err := s.db.Begin(false)
	if err != nil {
		return nil, err
	}
	s.holders.Add(1)
	return &held{tx, s.holders}, nil
}

func (h *held) release() {
	_ = h.Rollback() // fails only when it is closed
	h.holders.Done()
}

// Point takes hold of the present state, between two transactions, and copies and
// syncs nothing. at, unless nil, is called with the state's head before another
// transaction can begin: what it notes goes with the point.
func (s *Store) Point(at func(Meta)) (*Point, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.db == nil {
		return nil, ErrClosed
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.point(at)
}

// point needs mu and writing.
func (s *Store) point(at func(Meta)) (*Point, error) {
	btx, err := s.hold()
	if err != nil {
		return nil, err
	}
	var tx ReadTx
	metas, err := readMetas(s.file, int64(s.db.Info().PageSize))
	if err := errors.Join(err, tx.init(btx.Tx)); err != nil {
		btx.release()
		return nil, err
	}
	if at != nil {
		at(tx.meta)
	}
	return &Point{store: s, db: s.db, tx: btx, file: s.file, count: s.transactions.Load(), record: Record{
		Index: tx.meta.AppliedIndex, Term: tx.meta.AppliedTerm, digest: tx.meta.Digest, metas: metas, boot: s.boot, synced: s.options.Sync == SyncAlways,
	}}, nil
}

// Index is that of the last log entry in the point's state.
func (p *Point) Index() uint64 { return p.record.Index }

// Commit makes the point the one that the state is recovered from: it syncs the
// state file, then writes a record, then lets go of the point before. A point that
// is older than the one committed last, or whose file was replaced, is let go of
// instead. part makes the owner's part from that of the record before; nil keeps
// it. After an error that wraps ErrSync the store takes no more transactions.
func (p *Point) Commit(part func(last []byte) ([]byte, error)) error {
	s := p.store
	s.committing.Lock()
	defer s.committing.Unlock()
	defer p.Release()
	if p.tx == nil || s.closed {
		return ErrClosed
	}
	if s.records == nil {
		return errors.New("a store without sync has no points to recover from")
	}
	if err := s.unsound(); err != nil {
		return err
	}
	if p.db != s.pinnedDB && s.pinnedDB != nil || p.count < s.committed.Load() {
		return nil
	}
	rec, err := s.complete(p.record, part)
	if err != nil {
		return err
	}
	if err := s.disk.syncDB(s.path, p.db); err != nil {
		return s.failSync(err)
	}
	if err := s.records.write(&rec); err != nil {
		return s.failSync(err)
	}
	s.pin(p, rec)
	return nil
}

// complete adds the owner's part to a record.
func (s *Store) complete(rec Record, part func(last []byte) ([]byte, error)) (_ Record, err error) {
	rec.Part = s.Record().Part
	if part != nil {
		rec.Part, err = part(rec.Part)
	}
	return rec, err
}

// pin keeps the transaction of a committed point, in place of the one before.
// Where every transaction is synced none is needed.
func (s *Store) pin(p *Point, rec Record) {
	s.unpin()
	s.record.Store(&rec)
	s.committed.Store(p.count)
	s.pinnedDB = p.db
	if s.options.Sync == SyncInterval {
		s.pinned, p.tx = p.tx, nil
	}
}

func (s *Store) unpin() {
	if s.pinned != nil {
		s.pinned.release()
		s.pinned = nil
	}
}

// Release lets go of a point, unless it is the one committed last. It is idempotent.
func (p *Point) Release() {
	if p.tx != nil {
		p.tx.release()
		p.tx = nil
	}
}

// Record is the newest record on disk: the state is recovered from there, or from
// later.
func (s *Store) Record() Record {
	if r := s.record.Load(); r != nil {
		return *r
	}
	return Record{}
}

// Unrecorded is how many transactions came after the newest record.
func (s *Store) Unrecorded() uint64 { return s.transactions.Load() - s.committed.Load() }

// failSync ends the store's writing. The kernel may have dropped what it could not
// write, so the next process must not take the file for whole: a record without a
// boot id says so, if that much can still be written.
func (s *Store) failSync(err error) error {
	err = fmt.Errorf("%w: %w", ErrSync, err)
	s.broken.CompareAndSwap(nil, &err)
	doubt := s.Record()
	doubt.boot, doubt.clean = "", false
	if s.options.Sync == SyncInterval && doubt.metas != (metaPages{}) {
		_ = s.records.write(&doubt) // nothing is left to do about it
	}
	return err
}

// unsound is why nothing more may be written, nil while all is well.
func (s *Store) unsound() error {
	if err := s.broken.Load(); err != nil {
		return *err
	}
	return nil
}

// farewell records, with nobody else using the store, that the file is whole.
func (s *Store) farewell() error {
	if s.records == nil || s.unsound() != nil || s.record.Load() == nil {
		return nil
	}
	p, err := s.point(nil)
	if err != nil {
		return err
	}
	defer p.Release()
	rec := p.record
	rec.Part, rec.clean = s.Record().Part, true
	if err := s.disk.syncDB(s.path, s.db); err != nil {
		return s.failSync(err)
	}
	return s.records.write(&rec)
}
