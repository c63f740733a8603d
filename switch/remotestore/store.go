package remotestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"

	"github.com/cpnode/cpnode/ops"
	switchover "github.com/cpnode/cpnode/switch"
	"github.com/cpnode/cpnode/switch/segmentlog"
)

var (
	// ErrNotListed: no segment that is listed holds the offset.
	ErrNotListed = errors.New("offset is not in a listed remote segment")
	// ErrLost: a segment is listed, and its bytes are not there.
	ErrLost = errors.New("remote segment is listed, and its bytes are not there")
	// ErrDamaged: metadata cannot be read.
	ErrDamaged = errors.New("remote metadata is damaged")
	// ErrConflict: the range was uploaded before, with other records.
	ErrConflict = errors.New("range was uploaded with other records")
)

// Store is a directory with a directory for each partition, and in it two files for each
// segment: its bytes, and its metadata.
type Store struct {
	root      *os.Root
	forgetful bool
}

// Open opens the store in dir, which must exist: a disk that is not mounted must not look
// like an empty store.
func Open(dir string) (*Store, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("remote store: %w", err)
	}
	return &Store{root: root}, nil
}

// OpenWithoutBytes opens a store that lists what was uploaded and keeps none of it. For tests
// of what must fail then.
func OpenWithoutBytes(dir string) (*Store, error) {
	s, err := Open(dir)
	if err == nil {
		s.forgetful = true
	}
	return s, err
}

// Close closes the directory.
func (s *Store) Close() error { return s.root.Close() }

func directory(p ops.LogRef) string { return fmt.Sprintf("%s-%d", p.TopicID, p.Partition) }

// List is the segments of a partition, by base offset, then end. None for a partition
// that has none.
func (s *Store) List(ctx context.Context, p ops.LogRef) ([]Segment, error) {
	entries, err := fs.ReadDir(s.root.FS(), directory(p))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list remote segments: %w", err)
	}
	var segments []Segment
	for _, entry := range entries {
		if !isMetadata(entry.Name()) {
			continue
		}
		segment, err := s.metadata(p, entry.Name())
		if err = errors.Join(err, ctx.Err()); err != nil {
			return nil, err
		}
		if segment != nil {
			segments = append(segments, *segment)
		}
	}
	slices.SortFunc(segments, func(a, b Segment) int { return cmp.Or(cmp.Compare(a.Base, b.Base), cmp.Compare(a.End, b.End)) })
	return segments, nil
}

// metadata reads a metadata file; nil if it is not there.
func (s *Store) metadata(p ops.LogRef, name string) (*Segment, error) {
	b, err := s.root.ReadFile(path.Join(directory(p), name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read remote metadata: %w", err)
	}
	segment, err := decode(name, b)
	if err != nil {
		return nil, err
	}
	return &segment, nil
}

// Read returns whole, checked batches of a listed segment, the first being the one that owns
// offset, which the segment holds; at least one, and more while maxBytes of payload and the
// segment allow. Errors: ErrLost, and of package segmentlog ErrCorrupt and ErrStorage, which
// here is the store's and not the local disk's.
func (s *Store) Read(ctx context.Context, p ops.LogRef, segment Segment, offset int64, maxBytes int) ([]switchover.Batch, error) {
	name := path.Join(directory(p), segment.name()+bytesSuffix)
	f, err := s.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", name, ErrLost)
	}
	if err != nil {
		return nil, fmt.Errorf("read remote segment: %w", err)
	}
	from := segment.floor(offset)
	r := segmentlog.NewReader(name, io.NewSectionReader(f, from, segment.Bytes-from), from)
	batches, err := r.From(offset, math.MaxInt64, maxBytes)
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("%s ends before offset %d, which is listed: %w", name, offset, ErrLost)
	}
	return batches, errors.Join(err, f.Close(), ctx.Err())
}

// Delete deletes a segment: first its metadata, so that nobody lists bytes that are gone.
// Deleting what is not there is fine.
func (s *Store) Delete(ctx context.Context, p ops.LogRef, segment Segment) error {
	for _, suffix := range []string{metadataSuffix, bytesSuffix} {
		err := s.root.Remove(path.Join(directory(p), segment.name()+suffix))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return fmt.Errorf("delete remote segment: %w", err)
		}
	}
	return nil
}
