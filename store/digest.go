package store

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"

	"github.com/zeebo/xxh3"
)

// Digest is a 128-bit sum over the hashes of all logical rows. Addition makes it
// independent of order, and subtraction keeps it current at the cost of the rows
// that change. It detects replicas that differ by accident, not by intent: the
// hash is fast, not cryptographic.
type Digest struct{ hi, lo uint64 }

func (d Digest) String() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], d.hi)
	binary.BigEndian.PutUint64(b[8:], d.lo)
	return hex.EncodeToString(b[:])
}

// MarshalText is String.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText parses what String has made.
func (d *Digest) UnmarshalText(text []byte) error {
	var b [16]byte
	if n, err := hex.Decode(b[:], text); err != nil || n != len(b) {
		return fmt.Errorf("%q is not a digest", text)
	}
	d.hi, d.lo = binary.BigEndian.Uint64(b[:]), binary.BigEndian.Uint64(b[8:])
	return nil
}

func (d *Digest) add(h Digest) {
	var carry uint64
	d.lo, carry = bits.Add64(d.lo, h.lo, 0)
	d.hi, _ = bits.Add64(d.hi, h.hi, carry)
}

func (d *Digest) sub(h Digest) {
	var borrow uint64
	d.lo, borrow = bits.Sub64(d.lo, h.lo, 0)
	d.hi, _ = bits.Sub64(d.hi, h.hi, borrow)
}

// rowHash hashes a logical row. The bucket is the hash's key, so that equal rows
// of two buckets differ; the length of the key keeps key and payload apart.
func rowHash(b bucket, key, payload []byte) Digest {
	var room [256]byte
	buf := binary.AppendUvarint(room[:0], uint64(len(key)))
	buf = append(append(buf, key...), payload...)
	h := xxh3.Hash128Seed(buf, uint64(b))
	return Digest{hi: h.Hi, lo: h.Lo}
}

// batchHash hashes one batch by its content, so that the digest does not depend
// on how batches are packed into blocks.
func batchHash(logID uint64, b *Batch) Digest {
	var buf [74]byte
	for i, v := range [9]uint64{
		logID, b.ID, uint64(b.BaseOffset), uint64(b.LastOffset), b.FileID, uint64(b.ByteOffset), uint64(b.ByteSize),
		uint64(b.LogAppendTimestamp), uint64(b.BatchMaxTimestamp),
	} {
		binary.LittleEndian.PutUint64(buf[i*8:], v)
	}
	buf[72], buf[73] = byte(b.Magic), byte(b.TimestampType)
	h := xxh3.Hash128Seed(buf[:], uint64(bucketBatches))
	return Digest{hi: h.Hi, lo: h.Lo}
}

// DigestOf computes the digest of the state from all of its rows, where
// Meta().Digest is kept as they change: the two are equal unless the file is
// damaged. It reads the whole file.
func DigestOf(tx *ReadTx) (Digest, error) {
	if tx.write != nil {
		if err := tx.write.flush(); err != nil {
			return Digest{}, err
		}
	}
	var d Digest
	for b := range bucket(bucketCount) {
		if !bucketTable[b].logical || tx.bucket(b) == nil {
			continue
		}
		err := tx.bucket(b).ForEach(func(key, row []byte) error {
			payload, err := openRow(b, key, row)
			if err != nil {
				return err
			}
			return d.addRow(b, key, payload)
		})
		if err != nil {
			return Digest{}, err
		}
	}
	return d, nil
}

// addRow adds a row of any bucket.
func (d *Digest) addRow(b bucket, key, payload []byte) error {
	switch {
	case b == bucketBatches:
		return d.addBlock(key, payload)
	case bucketTable[b].logical:
		d.add(rowHash(b, key, payload))
	}
	return nil
}

func (d *Digest) addBlock(key, payload []byte) error {
	if len(key) != batchKeySize {
		return corrupt(bucketBatches, key, "wrong length of key")
	}
	logID, _ := decodeBatchKey(key)
	r := newBlockReader(key, payload)
	for r.next() {
		d.add(batchHash(logID, &r.batch))
	}
	return r.err()
}
