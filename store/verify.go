package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// verified is what a file holds from a pair of meta pages on.
type verified struct {
	Index   uint64 `json:"index"`
	Term    uint64 `json:"term"`
	Digest  Digest `json:"digest"`            // as stored
	Schema  uint64 `json:"schema"`            // version of the layout, which is not judged
	Problem string `json:"problem,omitempty"` // the first, empty when all is well
}

// verifyState reads all pages and rows that metas lead to in a state file, without
// bbolt and without believing anything. The digest is computed from the rows: where a
// disk has lost what it said was durable, pages of several states can be whole, each by
// itself, and lead to each other.
func verifyState(f *os.File, metas metaPages) (v verified, err error) {
	c := rowCheck{buckets: map[string]bucket{}}
	v.Problem, err = walkPages(f, metas, c.row)
	if err != nil || v.Problem != "" {
		return v, err
	}
	for b := range bucket(bucketCount) {
		if _, ok := c.buckets[b.String()]; !ok && !bucketTable[b].late {
			v.Problem = fmt.Sprintf("bucket %s is missing", b)
			return v, nil
		}
	}
	if c.meta == nil {
		v.Problem = "the head of the state is missing"
		return v, nil
	}
	m := c.meta
	if m.Digest != c.digest {
		v.Problem = fmt.Sprintf("digest: stored %s, computed %s", m.Digest, c.digest)
		return v, nil
	}
	v.Index, v.Term, v.Digest, v.Schema = m.AppliedIndex, m.AppliedTerm, m.Digest, uint64(m.SchemaVersion)
	return v, nil
}

// rowCheck checks the checksum of every row, and computes the digest.
type rowCheck struct {
	buckets map[string]bucket // met so far
	meta    *Meta
	digest  Digest
}

func (c *rowCheck) row(name, key, value []byte) string {
	if key == nil {
		return c.enter(string(name))
	}
	b := c.buckets[string(name)]
	payload, err := openRow(b, key, value)
	if err == nil && b == bucketMeta && bytes.Equal(key, metaKey) {
		var m Meta
		m, err = decodeMeta(payload)
		c.meta = &m
	}
	if err == nil {
		err = c.digest.addRow(b, key, payload)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func (c *rowCheck) enter(name string) string {
	for b := range bucket(bucketCount) {
		if b.String() == name {
			c.buckets[name] = b
			return ""
		}
	}
	return fmt.Sprintf("unknown bucket %q", name)
}

const verifyTask = "verify-state"

func init() { RegisterChildTask(verifyTask, runVerify) }

// runVerify takes a path and the meta pages to begin at, or "" for those in the file.
func runVerify(args []string) (any, error) {
	if len(args) != 2 {
		return nil, errors.New("verifying takes a path and meta pages")
	}
	f, err := os.Open(args[0])
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	metas, problem, err := metasOf(f)
	if args[1] != "" {
		problem = ""
		metas, err = parseMetas(args[1])
	}
	if err != nil || problem != "" {
		return verified{Problem: problem}, err
	}
	return verifyState(f, metas)
}

// verify runs verifyState in a child process. A child that dies is a file that is
// damaged.
func (c Child) verify(path, metas string) (v verified, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return v, err
	}
	limit := checkTimeBase + time.Duration(info.Size()/checkBytesPerTime)*time.Second
	result, err := c.Run(context.Background(), limit, verifyTask, path, metas)
	switch {
	case errors.Is(err, ErrChildDied):
		return verified{Problem: err.Error()}, nil
	case errors.Is(err, ErrNoChild):
		return v, fmt.Errorf("%w: %s was not closed and the machine may have lost writes to it since: it cannot be verified without a child process: %w", ErrCorrupt, path, err)
	case err != nil:
		return v, err
	}
	return v, json.Unmarshal(result, &v)
}
