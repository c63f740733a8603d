package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
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

// Options say how to open a Store. The zero value is a durable store.
type Options struct {
	// NoSync skips the fsync of each transaction: a crash of the machine, not of
	// the process, can tear the file.
	NoSync bool
	// LockTimeout bounds the wait for the file's lock; 0 is two seconds.
	LockTimeout time.Duration
	// InitialMmapBytes is address space, not memory: large enough, and readers
	// never wait for the file to be mapped again. 0 is 1 GiB.
	InitialMmapBytes int
	// MaxBytes is the size the file may grow to; 0 is no bound.
	MaxBytes int
}

// Store is an open state file. View may be called from any goroutine; Update
// calls are serialised.
type Store struct {
	path    string
	options Options

	// mu is held shared by every transaction and exclusively by Install and
	// Close, which replace or drop db.
	mu    sync.RWMutex
	db    *bbolt.DB
	arena arena // of the one write transaction

	retired sync.WaitGroup // files that Install replaced and snapshots still hold
}

const (
	defaultLockTimeout = 2 * time.Second
	defaultMmapBytes   = 1 << 30
)

// Open opens the state file at path, and makes an empty one (with its
// directory's entry on disk) when there is none.
func Open(path string, options Options) (*Store, error) {
	s := &Store{path: path, options: options}
	db, err := openDB(path, options)
	if err != nil {
		return nil, err
	}
	// Under the lock of the state file nobody else is writing this one.
	if err := os.Remove(installPath(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, db.Close())
	}
	s.db = db
	return s, nil
}

func openDB(path string, options Options) (*bbolt.DB, error) {
	_, statErr := os.Stat(path)
	db, err := bbolt.Open(path, 0o600, boltOptions(options))
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("%w: %s", ErrLocked, path)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, path, err)
	case err != nil:
		return nil, fmt.Errorf("open state file: %w", err)
	}
	if err := prepare(db); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), db.Close())
	}
	if errors.Is(statErr, fs.ErrNotExist) {
		if err := syncDir(filepath.Dir(path)); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return db, nil
}

func boltOptions(o Options) *bbolt.Options {
	b := *bbolt.DefaultOptions
	b.Timeout = o.LockTimeout
	if b.Timeout == 0 {
		b.Timeout = defaultLockTimeout
	}
	b.NoSync = o.NoSync
	// The free list is rebuilt by a scan on open instead of being written with
	// every commit; the hash map finds runs of pages in constant time.
	b.NoFreelistSync = true
	b.FreelistType = bbolt.FreelistMapType
	b.InitialMmapSize = o.InitialMmapBytes
	if b.InitialMmapSize == 0 {
		b.InitialMmapSize = defaultMmapBytes
	}
	b.MaxSize = o.MaxBytes
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
		for b := range bucket(bucketCount) {
			if _, err := btx.CreateBucket([]byte(b.String())); err != nil {
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
		if btx.Bucket([]byte(b.String())) == nil {
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

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Path is the file's path.
func (s *Store) Path() string { return s.path }

// Close waits for transactions, and for snapshots to be released, and closes the
// file. It is idempotent.
func (s *Store) Close() error {
	defer s.retired.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db == nil {
		return nil
	}
	err := s.db.Close()
	s.db = nil
	return err
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
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.db == nil {
		return ErrClosed
	}
	btx, err := s.db.Begin(true)
	if err != nil {
		return err
	}
	defer btx.Rollback() //nolint:errcheck // after a commit this does nothing
	s.arena.reset()
	tx := WriteTx{arena: &s.arena, tails: map[uint64]*tail{}}
	tx.write = &tx
	if err := tx.init(btx); err != nil {
		return err
	}
	tx.topics.slots = map[TopicID]*slot[Topic]{}
	tx.logs.slots = map[LogKey]*slot[Log]{}
	tx.files.slots = map[uint64]*slot[File]{}
	tx.producers.slots = map[producerKey]*slot[Producer]{}
	for b, t := range bucketTable {
		if t.fill > 0 {
			tx.bucket(bucket(b)).FillPercent = t.fill
		}
	}
	if err := fn(&tx); err != nil {
		return err
	}
	if err := errors.Join(tx.flush(), tx.flushMeta()); err != nil {
		return err
	}
	return btx.Commit()
}
