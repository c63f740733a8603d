package bench

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
)

// bareRows is what bbolt itself costs: one row a batch, 60 bytes under partition
// and offset, in a file of its own.
type bareRows struct {
	dir        string
	db         *bbolt.DB
	partitions int
	rows       int // of each partition
}

const (
	bareValueBytes = 60
	bareKeyBytes   = 12
	bareLoadStep   = 20_000 // rows a transaction while loading
)

var bareBucket = []byte("batches")

// bareOptions are those of the state file and of the raft log.
func bareOptions() *bbolt.Options {
	o := *bbolt.DefaultOptions
	o.NoFreelistSync, o.FreelistType, o.InitialMmapSize = true, bbolt.FreelistMapType, 1<<30
	return &o
}

func newBareRows(parent string, partitions, rows int) (*bareRows, error) {
	dir, err := os.MkdirTemp(parent, "rows-")
	if err != nil {
		return nil, err
	}
	b := &bareRows{dir: dir, partitions: partitions, rows: rows}
	if b.db, err = bbolt.Open(filepath.Join(dir, "rows.db"), 0o600, bareOptions()); err == nil {
		err = b.load()
	}
	if err != nil {
		return nil, errors.Join(err, b.remove())
	}
	return b, nil
}

func (b *bareRows) remove() error {
	var err error
	if b.db != nil {
		err = b.db.Close()
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}

func appendBareKey(k []byte, partition, offset int) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(k[:0], uint32(partition)), uint64(offset))
}

// load writes the rows in the order of commits: offset by offset over all partitions.
func (b *bareRows) load() error {
	b.db.NoSync = true
	value := make([]byte, bareValueBytes)
	total := b.partitions * b.rows
	for from := 0; from < total; from += bareLoadStep {
		err := b.db.Update(func(tx *bbolt.Tx) error {
			bucket, err := tx.CreateBucketIfNotExists(bareBucket)
			if err != nil {
				return err
			}
			for i := from; i < min(from+bareLoadStep, total); i++ {
				if err := bucket.Put(appendBareKey(nil, i%b.partitions, i/b.partitions), value); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	b.db.NoSync = false
	return b.db.Sync()
}

// read gets rows by key: as many in a row, from a random one on, in each of a
// number of random partitions.
func (b *bareRows) read(partitions, rows int) error {
	return b.db.View(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket(bareBucket)
		var key [bareKeyBytes]byte
		for range partitions {
			partition, first := rand.IntN(b.partitions), rand.IntN(max(1, b.rows-rows))
			for i := range rows {
				if err := takeBare(bucket.Get(appendBareKey(key[:], partition, first+i))); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// scan reads the rows that read gets, by one seek in each partition.
func (b *bareRows) scan(partitions, rows int) error {
	return b.db.View(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bareBucket).Cursor()
		var key [bareKeyBytes]byte
		for range partitions {
			_, v := c.Seek(appendBareKey(key[:], rand.IntN(b.partitions), rand.IntN(max(1, b.rows-rows))))
			for range rows {
				if err := takeBare(v); err != nil {
					return err
				}
				_, v = c.Next()
			}
		}
		return nil
	})
}

// takeBare copies a row out of its page.
func takeBare(row []byte) error {
	var value [bareValueBytes]byte
	if copy(value[:], row) != bareValueBytes {
		return fmt.Errorf("bare row of %d bytes", len(row))
	}
	return nil
}

// drain removes everything, oldest first within each partition, in durable
// transactions of step rows, and is one call a transaction.
func (b *bareRows) drain(step int) (calls int, err error) {
	for more := true; more && err == nil; calls++ {
		err = b.db.Update(func(tx *bbolt.Tx) error {
			keys := firstKeys(tx.Bucket(bareBucket), step)
			more = len(keys) == step
			for _, k := range keys {
				if err := tx.Bucket(bareBucket).Delete(k); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return calls, err
}

// firstKeys are collected before any of them is deleted: deleting under a cursor
// can skip keys.
func firstKeys(bucket *bbolt.Bucket, n int) [][]byte {
	keys := make([][]byte, 0, n)
	c := bucket.Cursor()
	for k, _ := c.First(); k != nil && len(keys) < n; k, _ = c.Next() {
		keys = append(keys, bytes.Clone(k))
	}
	return keys
}
