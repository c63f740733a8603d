package raftnode

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"github.com/zeebo/xxh3"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/cpnode/cpnode/raftnode/wal"
	"github.com/cpnode/cpnode/store"
)

// LogReport is what CheckLog found in a raft log.
type LogReport struct {
	FirstIndex  uint64 `json:"first_index"` // 0 when it is empty
	LastIndex   uint64 `json:"last_index"`
	CurrentTerm uint64 `json:"current_term"`
	Digest      string `json:"digest"` // of all entries and promises

	// Problem is the first thing that is wrong, empty when all is well.
	Problem string `json:"problem,omitempty"`
}

// Err is nil for a log that is whole, else wraps ErrLogDamaged.
func (r *LogReport) Err() error {
	if r.Problem == "" {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrLogDamaged, r.Problem)
}

// CheckLog reads every page, entry and promise of a raft log that no process has
// open for writing, and changes nothing. Damage is in the report; the error says
// that the file could not be read at all. Damage that gets past the check of the
// pages can still make bbolt panic: see CheckLogInChild.
func CheckLog(path string) (LogReport, error) {
	var r LogReport
	problem, err := store.CheckPages(path)
	if problem != "" || err != nil {
		r.Problem = problem
		return r, err
	}
	c := logChecker{report: &r, hash: xxh3.New()}
	if err := c.checkBuckets(path); err != nil || r.Problem != "" {
		return r, err
	}
	err = c.checkContents(path)
	if errors.Is(err, ErrLogDamaged) || errors.Is(err, wal.ErrDamaged) || errors.Is(err, ErrLogLost) {
		r.Problem, err = err.Error(), nil
	}
	r.Digest = hex.EncodeToString(c.hash.Sum(nil))
	return r, err
}

func (c *logChecker) checkContents(path string) (err error) {
	if c.log, err = readLog(path); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.log.Close()) }()
	if err := c.checkSegments(); err != nil {
		return err
	}
	return errors.Join(c.checkEntries(), c.checkTerms())
}

// checkSegments reads the segment files, if the entries are there.
func (c *logChecker) checkSegments() (err error) {
	log, ok := c.log.entries.(*wal.Log)
	if !ok {
		return nil
	}
	if c.report.LastIndex > 0 {
		return fmt.Errorf("%w: it has entries in two places", ErrLogDamaged)
	}
	if c.report.FirstIndex, err = log.FirstIndex(); err != nil {
		return err
	}
	if c.report.LastIndex, err = log.LastIndex(); err != nil {
		return err
	}
	return log.Check()
}

type logChecker struct {
	report *LogReport
	hash   *xxh3.Hasher
	log    *logStore

	lastEntryTerm uint64
}

// Buckets and keys of raft-boltdb, and of raft in it.
const (
	logBucket       = "logs"
	promiseBucket   = "conf"
	keyLastVoteCand = "LastVoteCand"
)

// checkBuckets checks what raft-boltdb takes on trust: the keys.
func (c *logChecker) checkBuckets(path string) error {
	db, err := bbolt.Open(path, 0, boltOptions(true))
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("%w: %s", ErrLocked, path)
	case err != nil:
		return err
	}
	err = db.View(func(tx *bbolt.Tx) error {
		for err := range tx.Check() {
			c.problem("page structure: %v", err)
		}
		entries, promises := tx.Bucket([]byte(logBucket)), tx.Bucket([]byte(promiseBucket))
		if entries == nil || promises == nil {
			c.problem("a bucket is missing")
			return nil
		}
		c.checkKeys(entries)
		return promises.ForEach(c.checkPromise)
	})
	return errors.Join(err, db.Close())
}

func (c *logChecker) problem(format string, args ...any) {
	if c.report.Problem == "" {
		c.report.Problem = fmt.Sprintf(format, args...)
	}
}

// checkKeys finds keys that are not the next index.
func (c *logChecker) checkKeys(entries *bbolt.Bucket) {
	cursor := entries.Cursor()
	for k, _ := cursor.First(); k != nil; k, _ = cursor.Next() {
		if len(k) != 8 {
			c.problem("key %x of an entry is not an index", k)
			return
		}
		index := binary.BigEndian.Uint64(k)
		if c.report.FirstIndex == 0 {
			c.report.FirstIndex = index
		} else if index != c.report.LastIndex+1 {
			c.problem("entry %d follows entry %d", index, c.report.LastIndex)
			return
		}
		c.report.LastIndex = index
	}
}

func (c *logChecker) checkPromise(key, sealed []byte) error {
	value, err := openValue(key, sealed)
	switch {
	case err != nil:
		c.problem("%v", err)
	case !slices.Contains([]string{string(keyCurrentTerm), string(keyLastVoteTerm), keyLastVoteCand, string(keySegments)}, string(key)):
		c.problem("unknown promise %q", key)
	}
	c.hash.Write(key)
	c.hash.Write(value)
	return nil
}

// checkEntries reads every entry; terms never go back.
func (c *logChecker) checkEntries() error {
	var number [8]byte
	for i := c.report.FirstIndex; i > 0 && i <= c.report.LastIndex; i++ {
		var entry raft.Log
		if err := c.log.GetLog(i, &entry); err != nil {
			return err
		}
		if entry.Term < c.lastEntryTerm {
			return fmt.Errorf("%w: entry %d is of term %d, the one before of %d", ErrLogDamaged, i, entry.Term, c.lastEntryTerm)
		}
		c.lastEntryTerm = entry.Term
		binary.BigEndian.PutUint32(number[:], entryCRC(&entry))
		c.hash.Write(number[:4])
		c.hash.Write(entry.Data)
	}
	return nil
}

// checkTerms holds the promises against the log and each other.
func (c *logChecker) checkTerms() error {
	terms := [2]uint64{}
	for i, key := range [][]byte{keyCurrentTerm, keyLastVoteTerm} {
		term, err := c.log.GetUint64(key)
		if err != nil && !errors.Is(err, raftboltdb.ErrKeyNotFound) {
			return err
		}
		terms[i] = term
	}
	c.report.CurrentTerm = terms[0]
	if terms[0] < c.lastEntryTerm || terms[0] < terms[1] {
		return fmt.Errorf("%w: the present term is %d, that of the last vote %d, that of the last entry %d", ErrLogDamaged, terms[0], terms[1], c.lastEntryTerm)
	}
	return nil
}

// Time that a check may take: to start, and to read the log from a slow disk.
const (
	checkLogTask      = "check-raft-log"
	checkTimeBase     = 30 * time.Second
	checkBytesPerTime = 2 << 20 // a second
)

func init() {
	store.RegisterChildTask(checkLogTask, func(args []string) (any, error) {
		if len(args) != 1 {
			return nil, errors.New("the check of a raft log takes one path")
		}
		return CheckLog(args[0])
	})
}

// CheckLogInChild is CheckLog in a child process. A child that dies is a log that
// is damaged: the report says so.
func CheckLogInChild(ctx context.Context, child store.Child, path string) (LogReport, error) {
	var r LogReport
	info, err := os.Stat(path)
	if err != nil {
		return r, err
	}
	segments, err := wal.Bytes(walDir(path))
	if err != nil {
		return r, err
	}
	limit := checkTimeBase + time.Duration((info.Size()+segments)/checkBytesPerTime)*time.Second
	result, err := child.Run(ctx, limit, checkLogTask, path)
	switch {
	case errors.Is(err, store.ErrChildDied):
		r.Problem = err.Error()
		return r, nil
	case err != nil:
		return r, err
	}
	return r, json.Unmarshal(result, &r)
}
