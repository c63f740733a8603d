package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"go.etcd.io/bbolt"
)

// Compact writes the state file at path, which no process may have open, anew
// without its free pages, checks that the new file holds the same state and every
// invariant, and puts it in place of the old one. It returns the sizes before and
// after. A crash leaves the old file or the new one.
func Compact(path string, options Options) (before, after int64, err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return 0, 0, err
	}
	s, err := Open(path, options)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	was, err := s.Stats()
	if err != nil {
		return 0, 0, err
	}
	if err := s.compact(); err != nil {
		return was.FileBytes, was.FileBytes, err
	}
	is, err := s.Stats()
	return was.FileBytes, is.FileBytes, err
}

func (s *Store) compact() error {
	beside := installPath(s.path)
	if err := s.disk.remove(beside); err != nil {
		return err
	}
	var head Meta
	if err := s.View(func(tx *ReadTx) error { head = tx.Meta(); return copyState(tx.btx, beside, s.options) }); err != nil {
		return errors.Join(err, s.disk.remove(beside))
	}
	report, err := s.options.Child.Check(context.Background(), beside)
	if err == nil {
		err = report.Err()
	}
	if err == nil && report.Digest != head.Digest.String() {
		err = fmt.Errorf("%w: the compacted state has digest %s, the old one %s", ErrCorrupt, report.Digest, head.Digest)
	}
	if err != nil {
		return errors.Join(err, s.disk.remove(beside))
	}
	s.committing.Lock()
	defer s.committing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replace(Record{Index: head.AppliedIndex, Term: head.AppliedTerm, digest: head.Digest, Part: s.Record().Part})
}

// Rows of one transaction of copyState, and how full it leaves the pages of buckets
// whose keys come in any order.
const (
	compactRows = 10_000
	compactFill = 0.9
)

// copyState copies all rows into a new file at path and syncs it.
func copyState(from *bbolt.Tx, path string, options Options) error {
	o := boltOptions(options)
	o.NoSync, o.NoGrowSync = true, true // grows by what it needs, and is synced at the end
	o.MaxSize = 0                       // what is in the old file may be in the new one
	db, err := bbolt.Open(path, 0o600, o)
	if err != nil {
		return err
	}
	for b := range bucket(bucketCount) {
		if rows := from.Bucket([]byte(b.String())); err == nil && rows != nil {
			err = copyBucket(rows, db, b)
		}
	}
	if err == nil {
		err = db.Sync()
	}
	return errors.Join(err, db.Close())
}

// copyBucket copies one bucket, a number of rows a transaction.
func copyBucket(from *bbolt.Bucket, db *bbolt.DB, b bucket) error {
	cursor := from.Cursor()
	for key, row := cursor.First(); ; {
		err := db.Update(func(tx *bbolt.Tx) error {
			to, err := tx.CreateBucketIfNotExists([]byte(b.String()))
			if err != nil {
				return err
			}
			if to.FillPercent = bucketTable[b].fill; to.FillPercent < compactFill {
				to.FillPercent = compactFill
			}
			for n := 0; key != nil && n < compactRows; n++ {
				if err := to.Put(key, row); err != nil {
					return err
				}
				key, row = cursor.Next()
			}
			return nil
		})
		if err != nil || key == nil {
			return err
		}
	}
}
