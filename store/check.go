package store

import (
	"bytes"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Report is what Check found in a state file.
type Report struct {
	AppliedIndex uint64 `json:"applied_index"`
	AppliedTerm  uint64 `json:"applied_term"`
	LastClockMs  int64  `json:"last_clock_ms"`
	Digest       string `json:"digest"` // recomputed
	Totals       Totals `json:"totals"` // as stored

	// Problems is what is wrong, at most maxProblems; MoreProblems counts the rest.
	Problems     []string `json:"problems,omitempty"`
	MoreProblems int      `json:"more_problems,omitempty"`
}

// maxProblems bounds a report: one broken page can make thousands.
const maxProblems = 20

// Err is nil for a file that is whole, else wraps ErrCorrupt and says the first problem.
func (r *Report) Err() error {
	if len(r.Problems) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s (problems: %d)", ErrCorrupt, r.Problems[0], len(r.Problems)+r.MoreProblems)
}

// Check recounts every invariant of the state from the bytes of a file that no
// process has open for writing, and changes nothing. Damage is in the report;
// the error says that the file could not be read at all. Damage that gets past
// the check of the pages can still make bbolt panic: see CheckInChild.
func Check(path string) (Report, error) {
	var r Report
	problem, err := CheckPages(path)
	if err != nil {
		return r, err
	}
	if problem != "" {
		r.Problems = []string{problem}
		return r, nil
	}
	db, err := bbolt.Open(path, 0, &bbolt.Options{ReadOnly: true, Timeout: defaultLockTimeout, FreelistType: bbolt.FreelistMapType})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return r, fmt.Errorf("%w: %s", ErrLocked, path)
	case err != nil:
		return r, err
	}
	err = db.View(func(tx *bbolt.Tx) error {
		c := checker{report: &r, tx: tx}
		c.run()
		return nil
	})
	return r, errors.Join(err, db.Close())
}

// checker recounts one state. What one bucket must hold is learned from those
// before it: topics, logs, batches, files and what hangs on them, then indexes.
type checker struct {
	report *Report
	tx     *bbolt.Tx
	meta   Meta
	digest Digest
	totals Totals

	topics   map[TopicID]*topicCheck
	logs     map[uint64]*logCheck // by internal id
	logByKey map[LogKey]*logCheck
	refs     map[uint64]int64   // file id -> batches that refer to it; what no file has claimed is left
	index    [bucketCount]int64 // rows that each index must have

	registrations map[LogKey]Registration
}

func (c *checker) problem(format string, args ...any) {
	if len(c.report.Problems) == maxProblems {
		c.report.MoreProblems++
		return
	}
	c.report.Problems = append(c.report.Problems, fmt.Sprintf(format, args...))
}

func (c *checker) run() {
	for err := range c.tx.Check() {
		c.problem("page structure: %v", err)
	}
	if c.report.Problems != nil || !c.checkBuckets() || !c.checkMeta() {
		return
	}
	c.checkTopics()
	c.checkLogs()
	c.checkBatches()
	c.checkFiles()
	c.checkReplays()
	c.checkProducers()
	c.checkFences()
	c.checkBrokers()
	c.checkRegistrations()
	c.checkSealProducers()
	c.checkEvents()
	c.checkIndexes()
	if c.totals != c.meta.Totals {
		c.problem("totals: stored %+v, counted %+v", c.meta.Totals, c.totals)
	}
	if c.digest != c.meta.Digest {
		c.problem("digest: stored %s, computed %s", c.meta.Digest, c.digest)
	}
	c.report.Digest = c.digest.String()
}

// checkBuckets says whether exactly the buckets of the layout are there.
func (c *checker) checkBuckets() bool {
	known := 0
	for b := range bucket(bucketCount) {
		switch {
		case c.tx.Bucket([]byte(b.String())) != nil:
			known++
		case !bucketTable[b].late:
			c.problem("bucket %s is missing", b)
		}
	}
	count := 0
	_ = c.tx.ForEach(func([]byte, *bbolt.Bucket) error { // fails only where the function does
		count++
		return nil
	})
	if count > known {
		c.problem("the file has %d buckets that the layout does not have", count-known)
	}
	return c.report.Problems == nil
}

func (c *checker) checkMeta() bool {
	rows := 0
	ok := false
	c.scan(bucketMeta, len(metaKey), func(key, payload []byte) error {
		rows++
		var err error
		c.meta, err = decodeMeta(payload)
		ok = err == nil && bytes.Equal(key, metaKey)
		return err
	})
	switch {
	case !ok || rows != 1:
		c.problem("bucket meta has no state, or more than that")
		return false
	case c.meta.SchemaVersion != SchemaVersion:
		c.problem("layout version %d, this release reads %d", c.meta.SchemaVersion, SchemaVersion)
		return false
	}
	c.report.AppliedIndex, c.report.AppliedTerm = c.meta.AppliedIndex, c.meta.AppliedTerm
	c.report.LastClockMs, c.report.Totals = c.meta.LastClockMs, c.meta.Totals
	return true
}

// scan calls fn for each row of a bucket whose key has the right length (0: any)
// and whose CRC is right, and adds it to the digest. What fn returns is a problem.
func (c *checker) scan(b bucket, keySize int, fn func(key, payload []byte) error) {
	rows := c.tx.Bucket([]byte(b.String()))
	if rows == nil { // a late one
		return
	}
	cursor := rows.Cursor()
	for key, row := cursor.First(); key != nil; key, row = cursor.Next() {
		payload, err := openRow(b, key, row)
		if err == nil && keySize != 0 && len(key) != keySize {
			err = corrupt(b, key, "wrong length of key")
		}
		if err == nil {
			if bucketTable[b].logical && b != bucketBatches {
				c.digest.add(rowHash(b, key, payload))
			}
			err = fn(key, payload)
		}
		if err != nil {
			c.problem("%v", err)
		}
	}
}

// expect counts an index row that must exist, and compares it.
func (c *checker) expect(b bucket, key, payload []byte) {
	c.index[b]++
	var row []byte
	if rows := c.tx.Bucket([]byte(b.String())); rows != nil {
		row = rows.Get(key)
	}
	if row == nil {
		c.problem("bucket %s, key %x: row is missing", b, key)
		return
	}
	if got, err := openRow(b, key, row); err == nil && !bytes.Equal(got, payload) {
		c.problem("bucket %s, key %x: row holds %x instead of %x", b, key, got, payload)
	}
}

// has says whether a row exists.
func (c *checker) has(b bucket, key []byte) bool {
	return c.tx.Bucket([]byte(b.String())).Get(key) != nil
}

// checkIndexes finds rows that nothing asked for: every row that must exist was
// looked up, so the numbers tell.
func (c *checker) checkIndexes() {
	for _, index := range []struct {
		bucket  bucket
		keySize int
	}{
		{bucketTopicNames, 0}, {bucketDeletedLogs, deletedLogKeySize}, {bucketBatchTimes, batchTimeKeySize},
		{bucketFileKeys, 0}, {bucketDeletingFiles, deletingKeySize}, {bucketFenceTimes, 0},
		{bucketReplicas, replicaKeySize},
	} {
		var rows int64
		c.scan(index.bucket, index.keySize, func([]byte, []byte) error { rows++; return nil })
		if rows != c.index[index.bucket] {
			c.problem("bucket %s has %d rows, should have %d", index.bucket, rows, c.index[index.bucket])
		}
	}
}
