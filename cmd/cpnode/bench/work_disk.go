package bench

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
)

const diskPageBytes = 4096

// disk measures what everything durable waits for.
func (r *runner) disk(ctx context.Context) error {
	r.step("disk")
	return errors.Join(r.diskSync(ctx), r.boltCommit(ctx))
}

func (r *runner) diskSync(ctx context.Context) error {
	f, err := os.Create(filepath.Join(r.dir, "sync"))
	if err != nil {
		return err
	}
	page := make([]byte, diskPageBytes)
	s, err := measure(ctx, 1, r.options.Duration/2, func(context.Context, int) error {
		if _, err := f.Write(page); err != nil {
			return err
		}
		return dataSync(f)
	})
	r.add("disk", "append 4 KiB, fdatasync", "calls/s", s.figures())
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

func (r *runner) boltCommit(ctx context.Context) error {
	path := filepath.Join(r.dir, "commit.db")
	db, err := bbolt.Open(path, 0o600, bareOptions())
	if err != nil {
		return err
	}
	n := 0
	s, err := measure(ctx, 1, r.options.Duration/2, func(context.Context, int) error {
		n++
		return db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists(bareBucket)
			if err != nil {
				return err
			}
			return b.Put(appendBareKey(nil, 0, n), make([]byte, bareValueBytes))
		})
	})
	r.add("disk", "bbolt commit of one row", "calls/s", s.figures())
	return errors.Join(err, db.Close(), os.Remove(path))
}
