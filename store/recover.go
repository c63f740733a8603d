package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
)

// bootIDPath names a number that the kernel makes at each boot.
const bootIDPath = "/proc/sys/kernel/random/boot_id"

// BootID is the number of the present boot of this machine, empty when it cannot
// be told.
func BootID() string {
	b, err := os.ReadFile(bootIDPath)
	if err != nil {
		return ""
	}
	id := strings.TrimSpace(string(b))
	return id[:min(len(id), recordBootSize)]
}

// openRecorded opens the state file by what its records say about it, and takes a
// sync point: the one on disk is not pinned any more.
func (s *Store) openRecorded() (err error) {
	var records []Record
	if s.records, records, err = openRecords(s.path, s.options.lockTimeout(), s.disk); err != nil {
		return fmt.Errorf("records of the state: %w", err)
	}
	if err := s.disk.remove(installPath(s.path)); err != nil {
		return err
	}
	_, err = os.Stat(s.path)
	switch {
	case err == nil:
		err = s.settle(records)
	case errors.Is(err, fs.ErrNotExist):
		records, err = s.create(records)
	}
	if err != nil {
		return err
	}
	if err := s.openFile(); err != nil {
		return err
	}
	return s.firstPoint(records)
}

// create makes an empty state, which appears under its name only when it is whole.
func (s *Store) create(records []Record) ([]Record, error) {
	for _, r := range records {
		if r.Index > 0 {
			return nil, fmt.Errorf("%w: %s is missing, and held the state of index %d", ErrCorrupt, s.path, r.Index)
		}
	}
	if err := s.disk.saw(Change{Op: OpCreate, Path: installPath(s.path)}); err != nil {
		return nil, err
	}
	db, _, err := openDB(installPath(s.path), s.options)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(s.disk.syncDB(installPath(s.path), db), db.Close()); err != nil {
		return nil, err
	}
	rec, err := s.putInPlace(Record{})
	return []Record{rec}, err
}

// putInPlace makes the file beside the state file. rec is completed and
// made durable first: it belongs to the new file, and the one before it, which
// stays, to the old.
func (s *Store) putInPlace(rec Record) (Record, error) {
	beside := installPath(s.path)
	f, err := os.Open(beside)
	if err != nil {
		return rec, err
	}
	metas, problem, err := metasOf(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return rec, err
	}
	if problem != "" {
		return rec, fmt.Errorf("%w: %s: %s", ErrCorrupt, beside, problem)
	}
	rec.metas, rec.boot, rec.synced = metas, s.boot, s.options.Sync == SyncAlways
	if err := s.records.write(&rec); err != nil {
		return rec, err
	}
	if err := s.disk.rename(beside, s.path); err != nil {
		return rec, err
	}
	return rec, s.disk.syncDir(s.path)
}

// settle makes the state file one that bbolt can open: as it is, when its records
// say that nothing can have been lost; verified; or set back to a record that
// verifies.
func (s *Store) settle(records []Record) error {
	if len(records) == 0 {
		return s.verifyPresent("it has no record")
	}
	newest := records[0]
	switch {
	case newest.clean:
		if s.present(newest.metas) {
			return s.checkPresent()
		}
		return s.verifyPresent("it is not the one that was closed")
	case newest.synced, newest.boot != "" && newest.boot == s.boot:
		return s.checkPresent()
	}
	return s.setBack(records)
}

// checkPresent reads the pages of a file from which no write is lost: what a bad
// disk did to them would end the process within bbolt.
func (s *Store) checkPresent() error {
	problem, err := CheckPages(s.path)
	if err == nil && problem != "" {
		err = fmt.Errorf("%w: %s: %s", ErrCorrupt, s.path, problem)
	}
	return err
}

// present says whether the file's meta pages are these.
func (s *Store) present(metas metaPages) bool {
	f, err := os.Open(s.path)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // it was only read
	got, problem, err := metasOf(f)
	return err == nil && problem == "" && got == metas
}

func (s *Store) verifyPresent(why string) error {
	v, err := s.options.Child.verify(s.path, "")
	if err == nil && v.Problem != "" {
		err = fmt.Errorf("%w: %s (%s): %s", ErrCorrupt, s.path, why, v.Problem)
	}
	return err
}

// setBack puts the meta pages of the newest record that verifies back into the
// file, which is not touched before. What the digest does not cover, indexes and
// events, is recounted then: a disk that has lost what it said was durable can have
// left an earlier state of those alone.
func (s *Store) setBack(records []Record) error {
	var problems []string
	for _, r := range records {
		v, err := s.options.Child.verify(s.path, r.metas.String())
		if err != nil {
			return err
		}
		if v.Problem == "" && (v.Index != r.Index || v.Term != r.Term || v.Digest != r.digest) {
			v.Problem = fmt.Sprintf("another state is there, of index %d", v.Index)
		}
		if v.Problem == "" {
			if v.Problem, err = s.putAndRecount(r.metas); err != nil || v.Problem == "" {
				return err
			}
		}
		problems = append(problems, fmt.Sprintf("record of index %d: %s", r.Index, v.Problem))
	}
	return fmt.Errorf("%w: %s was not closed and writes to it are lost: %s", ErrCorrupt, s.path, strings.Join(problems, "; "))
}

func (s *Store) putAndRecount(metas metaPages) (problem string, err error) {
	if err := s.putMetas(metas); err != nil {
		return "", err
	}
	report, err := s.options.Child.Check(context.Background(), s.path)
	if err != nil || len(report.Problems) == 0 {
		return "", err
	}
	return report.Problems[0], nil
}

func (s *Store) putMetas(metas metaPages) error {
	newest, problem := metas.newest()
	if problem != "" {
		return fmt.Errorf("%w: %s", ErrCorrupt, problem)
	}
	f, err := os.OpenFile(s.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	for i := range metas {
		page := make([]byte, newest.pageSize)
		copy(page, metas[i][:])
		if err := s.disk.writeAt(f, page, int64(i)*newest.pageSize); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(s.disk.sync(f), f.Close())
}

// firstPoint finds the record that belongs to the open file, and takes a sync point
// that goes on from it, before any transaction.
func (s *Store) firstPoint(records []Record) error {
	p, err := s.Point(nil)
	if err != nil {
		return err
	}
	defer p.Release()
	rec, err := belonging(records, p)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrCorrupt, s.path, err)
	}
	s.records.keep(rec)
	s.record.Store(&rec)
	return p.Commit(nil)
}

// belonging is the newest record that the file has reached. A record of an install
// that did not come to its end is of a state that is not there.
func belonging(records []Record, p *Point) (Record, error) {
	present, problem := p.record.metas.newest()
	if problem != "" {
		return Record{}, errors.New(problem)
	}
	for _, r := range records {
		recorded, problem := r.metas.newest()
		same := r.Index < p.record.Index || r.Index == p.record.Index && r.digest == p.record.digest
		if problem == "" && same && recorded.transaction <= present.transaction {
			return r, nil
		}
	}
	if len(records) > 0 {
		return Record{}, fmt.Errorf("it holds the state of index %d, which is older than its records, or another", p.record.Index)
	}
	return Record{}, nil
}

// openFile opens the state file, whose pages nothing is wrong with.
func (s *Store) openFile() (err error) {
	s.holders = new(sync.WaitGroup)
	s.db, s.file, err = openDB(s.path, s.options)
	if err != nil {
		return err
	}
	return s.disk.saw(Change{Op: OpOpenDB, Path: s.path, DB: s.db})
}
