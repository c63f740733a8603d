package remotestore

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/cpnode/cpnode/ops"
	switchover "github.com/cpnode/cpnode/switch"
	"github.com/cpnode/cpnode/switch/segmentlog"
)

// Upload copies a rolled segment, and lists it when its bytes are on disk. Every batch is
// checked on the way, and that together they are the segment: what is damaged here must not
// be relied on there. Uploading the same again does nothing, whichever replica does it; a
// range that is listed with other records is ErrConflict. Other errors: ErrCorrupt and
// ErrStorage of package segmentlog for what is read, those of the system for what is written.
func (s *Store) Upload(ctx context.Context, p ops.LogRef, from *segmentlog.SegmentFile) error {
	segment := Segment{Segment: from.Segment, Epochs: from.Epochs}
	listed, err := s.metadata(p, segment.name()+metadataSuffix)
	switch {
	case err != nil:
		return err
	case listed != nil && listed.same(segment):
		return nil
	case listed != nil:
		return fmt.Errorf("%s %s: %w", directory(p), segment.name(), ErrConflict)
	}
	err = s.makeDirectory(directory(p))
	if err == nil {
		err = s.removeAbandoned(directory(p))
	}
	if err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	err = s.place(p, segment.name()+bytesSuffix, s.forgetful, func(w io.Writer) (err error) {
		segment.index, err = copyBatches(ctx, w, from)
		return err
	})
	if err != nil {
		return fmt.Errorf("upload %s: %w", segment.name(), err)
	}
	encoded, err := segment.encode()
	if err == nil {
		err = s.place(p, segment.name()+metadataSuffix, false, func(w io.Writer) error {
			_, err := w.Write(encoded)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("upload metadata of %s: %w", segment.name(), err)
	}
	return nil
}

// copyBatches copies a segment, and returns its index.
func copyBatches(ctx context.Context, w io.Writer, from *segmentlog.SegmentFile) ([][2]int64, error) {
	r := segmentlog.NewReader(fmt.Sprintf("segment %d", from.Base), from, 0)
	index, next := [][2]int64{}, from.Base
	var frame []byte
	for {
		position := r.Position()
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			return index, checkWhole(from.Segment, next, r.Position())
		}
		if err == nil && b.BaseOffset != next {
			err = fmt.Errorf("segment %d: batch at offset %d: %w", from.Base, b.BaseOffset, segmentlog.ErrCorrupt)
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return nil, err
		}
		if n := len(index); n == 0 || position-index[n-1][1] >= indexInterval {
			index = append(index, [2]int64{b.BaseOffset, position})
		}
		frame = segmentlog.AppendFrame(frame[:0], b)
		if _, err := w.Write(frame); err != nil {
			return nil, err
		}
		next = b.NextOffset()
	}
}

// checkWhole is ErrCorrupt if what was copied is not all of the segment.
func checkWhole(s switchover.Segment, end, bytes int64) error {
	if end != s.End || bytes != s.Bytes {
		return fmt.Errorf("segment %d: ends at offset %d, not %d: %w", s.Base, end, s.End, segmentlog.ErrCorrupt)
	}
	return nil
}

// A file under way has this prefix and a random name. An upload writes to it all the time, so
// one that nobody has written to for so long is left of a process that died.
const (
	incomingPrefix = "incoming."
	abandonedAfter = 24 * time.Hour
)

// removeAbandoned removes what uploads to a directory have left that died.
func (s *Store) removeAbandoned(dir string) error {
	entries, err := fs.ReadDir(s.root.FS(), dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), incomingPrefix) {
			continue
		}
		info, err := entry.Info()
		if err == nil && time.Since(info.ModTime()) > abandonedAfter {
			err = s.root.Remove(path.Join(dir, entry.Name()))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // another broker has done it, or is done
			return err
		}
	}
	return nil
}

// place writes a file beside, and gives it its name when it is on disk; with drop, it throws
// it away instead.
func (s *Store) place(p ops.LogRef, name string, drop bool, write func(io.Writer) error) error {
	beside := path.Join(directory(p), incomingPrefix+rand.Text())
	f, err := s.root.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(f, indexInterval)
	err = write(buffered)
	if err == nil {
		err = buffered.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err != nil || drop {
		return errors.Join(err, s.root.Remove(beside))
	}
	if err := s.root.Rename(beside, path.Join(directory(p), name)); err != nil {
		return errors.Join(err, s.root.Remove(beside))
	}
	return s.sync(directory(p))
}

func (s *Store) makeDirectory(dir string) error {
	if err := s.root.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return s.sync(".")
}

func (s *Store) sync(dir string) error {
	d, err := s.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
