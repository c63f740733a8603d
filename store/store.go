package store

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Errors that Open and the transactions wrap.
var (
	// ErrLocked: another process has the file open.
	ErrLocked = errors.New("state file is in use by another process")
	// ErrSchema: the file was written by a release with another layout.
	ErrSchema = errors.New("state file has a layout that this release does not know")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store is closed")
)

// SyncMode says when the state is synced to disk.
type SyncMode int

const (
	// SyncAlways syncs with every transaction.
	SyncAlways SyncMode = iota
	// SyncInterval syncs with every committed Point, to which the state goes back
	// when the machine has crashed.
	SyncInterval
	// SyncNever keeps no records: a crash of the machine, not of the process, can
	// tear the file. It is for states that can be made again.
	SyncNever
)

// NoSpace says whether err is for want of space, on the disk or under MaxBytes. The
// transaction is then undone, and may be tried again. A sync that failed, for whatever
// reason, is not tried again: what it was to write may be gone.
func NoSpace(err error) bool {
	if errors.Is(err, ErrSync) {
		return false
	}
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, bolterrors.ErrMaxSizeReached)
}

// Options say how to open a Store. The zero value is a durable store.
type Options struct {
	Sync SyncMode
	// Child verifies files that a crash of the machine may have torn.
	Child Child
	// BootID overrides the number of the machine's present boot, for tests.
	BootID func() string
	// LockTimeout bounds the wait for the file's lock; 0 is two seconds.
	LockTimeout time.Duration
	// InitialMmapBytes is address space, not memory: large enough, and readers
	// never wait for the file to be mapped again. 0 is 64 GiB. With SyncInterval the
	// file cannot grow beyond it, or beyond MaxBytes if that is more.
	InitialMmapBytes int
	// MaxBytes is the size the file may grow to; 0 is no bound.
	MaxBytes int

	// Watch, for tests and simulators, sees each change to the files before it is made,
	// and refuses it with an error. It may be called from any goroutine, and must not
	// wait.
	Watch func(Change) error
}

func (o *Options) lockTimeout() time.Duration {
	if o.LockTimeout == 0 {
		return defaultLockTimeout
	}
	return o.LockTimeout
}

// Store is an open state file. View may be called from any goroutine; Update
// calls are serialised.
type Store struct {
	path    string
	options Options
	disk    disk
	boot    string
	records *recordFile // nil with SyncNever

	// committing is held by what writes records: commits of points, Install, Close.
	committing sync.Mutex
	pinned     *held     // of the newest record: keeps its pages
	pinnedDB   *bbolt.DB // that the newest record is of
	closed     bool      // after the farewell no record is written
	committed  atomic.Uint64
	record     atomic.Pointer[Record]

	// mu is held shared by every transaction and exclusively by Install and
	// Close, which replace or drop db.
	mu      sync.RWMutex
	db      *bbolt.DB
	file    *os.File        // of db
	holders *sync.WaitGroup // of db: transactions that are held

	// writing is held by the one write transaction and by what must not see half of it.
	writing      sync.Mutex
	transactions atomic.Uint64
	arena        arena // of the write transaction
	broken       atomic.Pointer[error]

	receiving atomic.Bool    // by the one Receiver there is
	retired   sync.WaitGroup // files that Install replaced and snapshots still hold
}

const (
	defaultLockTimeout = 2 * time.Second
	defaultMmapBytes   = 64 << 30
)

// Open opens the state file at path, and makes an empty one (with its
// directory's entry on disk) when there is none. A file that was not closed before
// the machine went down is set back to the newest record that verifies; ErrCorrupt
// says that there is none, or that the file is damaged in another way.
func Open(path string, options Options) (*Store, error) {
	s := &Store{path: path, options: options, disk: disk{options.Watch}}
	if options.Sync == SyncNever {
		if err := s.openAlone(); err != nil {
			return nil, err
		}
		return s, nil
	}
	s.boot = BootID()
	if options.BootID != nil {
		s.boot = options.BootID()
	}
	if err := s.openRecorded(); err != nil {
		return nil, errors.Join(err, s.closeFiles())
	}
	return s, nil
}

// openAlone opens a file without records.
func (s *Store) openAlone() error {
	if err := s.openFile(); err != nil {
		return err
	}
	// Under the lock of the state file nobody else is writing this one.
	if err := s.disk.remove(installPath(s.path)); err != nil {
		return errors.Join(err, s.db.Close())
	}
	return nil
}

// openDB opens a state file, and the same file for reading.
func openDB(path string, options Options) (*bbolt.DB, *os.File, error) {
	var file *os.File
	o := boltOptions(options)
	o.OpenFile = func(path string, flag int, mode os.FileMode) (_ *os.File, err error) {
		file, err = os.OpenFile(path, flag, mode)
		return file, err
	}
	db, err := bbolt.Open(path, 0o600, o)
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, nil, fmt.Errorf("%w: %s", ErrLocked, path)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return nil, nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, path, err)
	case err != nil:
		return nil, nil, fmt.Errorf("open state file: %w", err)
	}
	if err := prepare(db); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", path, err), db.Close())
	}
	return db, file, nil
}

func boltOptions(o Options) *bbolt.Options {
	b := *bbolt.DefaultOptions
	b.Timeout = o.lockTimeout()
	b.NoSync = o.Sync != SyncAlways
	// Growing in steps would sync the file within a transaction. Without, each
	// write at the end grows it, and the sync of a point makes its size durable.
	b.NoGrowSync = o.Sync == SyncInterval
	// The free list is rebuilt by a scan on open instead of being written with
	// every commit; the hash map finds runs of pages in constant time.
	b.NoFreelistSync = true
	b.FreelistType = bbolt.FreelistMapType
	b.InitialMmapSize = o.InitialMmapBytes
	if b.InitialMmapSize == 0 {
		b.InitialMmapSize = defaultMmapBytes
	}
	b.MaxSize = o.MaxBytes
	if o.Sync == SyncInterval {
		// To map the file anew bbolt waits for all readers, and the pinned one would
		// wait for the transaction: the file must never outgrow the mapping.
		b.InitialMmapSize = max(b.InitialMmapSize, o.MaxBytes)
		if b.MaxSize == 0 {
			b.MaxSize = b.InitialMmapSize
		}
	}
	return &b
}

// prepare makes the buckets of a new file and checks the layout of an old one.
func prepare(db *bbolt.DB) error {
	empty := false
	err := db.View(func(btx *bbolt.Tx) error {
		if empty = btx.Bucket([]byte(bucketMeta.String())) == nil; empty {
			return nil
		}
		_, err := layoutOf(btx)
		return err
	})
	if err != nil || !empty {
		return err
	}
	return db.Update(func(btx *bbolt.Tx) error {
		for b, t := range bucketTable {
			if t.late {
				continue
			}
			if _, err := btx.CreateBucket([]byte(bucket(b).String())); err != nil {
				return err
			}
		}
		tx := WriteTx{ReadTx: ReadTx{btx: btx, meta: Meta{SchemaVersion: SchemaVersion, FeatureLevel: 1}}, arena: &arena{}}
		return tx.flushMeta()
	})
}

// layoutOf is the meta row of a file that has the buckets and the layout that
// this release knows.
func layoutOf(btx *bbolt.Tx) (Meta, error) {
	for b := range bucket(bucketCount) {
		if btx.Bucket([]byte(b.String())) == nil && !bucketTable[b].late {
			return Meta{}, fmt.Errorf("%w: bucket %s is missing", ErrCorrupt, b)
		}
	}
	var tx ReadTx
	if err := tx.init(btx); err != nil {
		return Meta{}, err
	}
	if tx.meta.SchemaVersion != SchemaVersion {
		return Meta{}, fmt.Errorf("%w: version %d, this release reads %d", ErrSchema, tx.meta.SchemaVersion, SchemaVersion)
	}
	return tx.meta, nil
}

// Path is the file's path.
func (s *Store) Path() string { return s.path }

// Close waits for transactions, and for snapshots to be released, records that the
// file is whole, and closes it. It is idempotent.
func (s *Store) Close() error {
	defer s.retired.Wait()
	s.committing.Lock()
	s.mu.Lock()
	s.closed = true
	var err error
	if s.db != nil {
		err = s.farewell()
	}
	s.unpin()
	last := Store{db: s.db, records: s.records}
	holders := s.holders
	s.db, s.file, s.records = nil, nil, nil
	s.retired.Add(1)
	defer s.retired.Done()
	s.mu.Unlock()
	s.committing.Unlock()
	if last.db != nil {
		holders.Wait() // who holds a snapshot may need what was locked
	}
	return errors.Join(err, last.closeFiles())
}

// closeFiles closes what Open opened.
func (s *Store) closeFiles() error {
	s.unpin()
	var errs []error
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	if s.records != nil {
		errs = append(errs, s.records.Close())
	}
	s.db, s.file, s.records = nil, nil, nil
	return errors.Join(errs...)
}

// Stats are figures of the file for metrics.
type Stats struct {
	FileBytes int64
	PageBytes int64
	FreePages int64 // of the file, for use by later transactions
}

// Stats is the present size of the file and what of it is free.
func (s *Store) Stats() (Stats, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.db == nil {
		return Stats{}, ErrClosed
	}
	info, err := os.Stat(s.path)
	if err != nil {
		return Stats{}, err
	}
	b := s.db.Stats()
	return Stats{FileBytes: info.Size(), PageBytes: int64(s.db.Info().PageSize), FreePages: int64(b.FreePageN + b.PendingPageN)}, nil
}

// View calls fn with one consistent state. Calls must not be nested.
func (s *Store) View(fn func(*ReadTx) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.db == nil {
		return ErrClosed
	}
	btx, err := s.db.Begin(false)
	if err != nil {
		return err
	}
	defer btx.Rollback() //nolint:errcheck // a read transaction's rollback fails only when it is closed
	var tx ReadTx
	if err := tx.init(btx); err != nil {
		return err
	}
	return fn(&tx)
}

// Update calls fn with a write transaction and commits what it did, or nothing
// when it returns an error.
func (s *Store) Update(fn func(*WriteTx) error) error {
	tx, err := s.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// Begin starts a write transaction, which its one user commits or rolls back. Until
// then everything else that writes waits, and so do Point, Install and Close.
func (s *Store) Begin() (_ *WriteTx, err error) {
	s.mu.RLock()
	defer func() {
		if err != nil {
			s.mu.RUnlock()
		}
	}()
	if s.db == nil {
		return nil, ErrClosed
	}
	if err := s.unsound(); err != nil {
		return nil, err
	}
	s.writing.Lock()
	tx, err := s.begin()
	if err != nil {
		s.writing.Unlock()
	}
	return tx, err
}

func (s *Store) begin() (*WriteTx, error) {
	btx, err := s.db.Begin(true)
	if err != nil {
		return nil, err
	}
	s.arena.reset()
	tx := &WriteTx{store: s, arena: &s.arena, tails: map[uint64]*tail{}}
	tx.write = tx
	if err := tx.init(btx); err != nil {
		return nil, errors.Join(err, btx.Rollback())
	}
	tx.topics.slots = map[TopicID]*slot[Topic]{}
	tx.logs.slots = map[LogKey]*slot[Log]{}
	tx.files.slots = map[uint64]*slot[File]{}
	tx.producers.slots = map[producerKey]*slot[Producer]{}
	tx.brokers.slots = map[int32]*slot[Broker]{}
	tx.registrations.slots = map[LogKey]*slot[Registration]{}
	for b := range bucket(bucketCount) {
		tx.fill(b)
	}
	return tx, nil
}

// Commit writes what the transaction did, all of it or, with an error, nothing. It
// ends the transaction either way.
func (tx *WriteTx) Commit() error {
	defer tx.Rollback()
	if err := errors.Join(tx.flush(), tx.flushMeta()); err != nil {
		return err
	}
	if err := tx.btx.Commit(); err != nil {
		return err
	}
	tx.store.transactions.Add(1)
	return nil
}

// Rollback undoes the transaction. Once that has ended it does nothing.
func (tx *WriteTx) Rollback() {
	if tx.store == nil {
		return
	}
	_ = tx.btx.Rollback() // fails only after a commit
	tx.store.writing.Unlock()
	tx.store.mu.RUnlock()
	tx.store = nil
}
