package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Recorder writes a history to a file as it happens; what it holds in memory does
// not grow. It may be used from any goroutine.
type Recorder struct {
	began time.Time

	mu    sync.Mutex
	file  *os.File
	buf   *bufio.Writer
	count int   // of what has no group and was not refused
	err   error // the first; nothing is written after it
}

// Create begins a history in a new file; the clock starts at 0.
func Create(path string) (*Recorder, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &Recorder{began: time.Now(), file: f, buf: bufio.NewWriter(f)}, nil
}

// Now is the time on the history's clock, in nanoseconds.
func (r *Recorder) Now() int64 { return int64(time.Since(r.began)) }

// Add writes one operation. Its error shows in Close.
func (r *Recorder) Add(record *Record) {
	line, err := json.Marshal(record)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
	if r.err == nil {
		_, r.err = r.buf.Write(append(line, '\n'))
	}
	if record.Outcome != Refused && record.Group == "" {
		r.count++
	}
}

// Count is how many operations without a group were added that were not refused.
func (r *Recorder) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

// SoFar reads what was added until now; who adds more waits meanwhile.
func (r *Recorder) SoFar() ([]*Record, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := errors.Join(r.err, r.buf.Flush()); err != nil {
		return nil, err
	}
	return Read(r.file.Name())
}

// Close ends the history, and says whether all of it is in the file.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.err, r.buf.Flush(), r.file.Close())
}

// Read reads a whole history; the operation of line n is at n-1.
func Read(path string) ([]*Record, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	var records []*Record
	for d := json.NewDecoder(bufio.NewReader(f)); d.More(); {
		r := &Record{}
		if err := d.Decode(r); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, len(records)+1, err)
		}
		records = append(records, r)
	}
	return records, nil
}
