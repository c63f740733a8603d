package segmentlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"
	"strings"

	switchover "github.com/cpnode/cpnode/switch"
)

// segment is one file of a log: batches that follow each other. Its name is the offset of
// its first record. All but base and file, which never change, is guarded by Log.state.
type segment struct {
	base int64
	file *os.File
	next int64 // offset behind its last record
	size int64 // bytes up to there; the file may be longer while an append is under way
	// index has the position of a batch every indexInterval bytes or so. That of a segment
	// that was not active since the log was opened is built when it is first read.
	index   []indexEntry
	indexed bool
}

type indexEntry struct{ offset, position int64 }

// indexInterval bytes, about, are passed over to reach a batch.
const indexInterval = 4 << 10

const segmentSuffix = ".log"

// segmentName is the name of the file whose first record has the offset base.
func segmentName(base int64) string { return fmt.Sprintf("%020d%s", base, segmentSuffix) }

// parseSegmentName is the offset in a segment's name; false for the name of anything else.
func parseSegmentName(name string) (int64, bool) {
	digits, found := strings.CutSuffix(name, segmentSuffix)
	base, err := strconv.ParseInt(digits, 10, 64)
	return base, found && err == nil && segmentName(base) == name
}

// add counts a batch that stands behind the others. Its place enters the index if the last
// entry is far away.
func (s *segment) add(b switchover.Batch) {
	s.index = appendIndex(s.index, b.BaseOffset, s.size)
	s.next = b.NextOffset()
	s.size += FrameSize(b)
}

func appendIndex(index []indexEntry, offset, position int64) []indexEntry {
	if n := len(index); n > 0 && position-index[n-1].position < indexInterval {
		return index
	}
	return append(index, indexEntry{offset, position})
}

// floor is the position of the last indexed batch that does not begin behind offset.
func (s *segment) floor(offset int64) int64 {
	i := sort.Search(len(s.index), func(i int) bool { return s.index[i].offset > offset })
	if i == 0 {
		return 0
	}
	return s.index[i-1].position
}

// cut forgets the batches from position on, the first of which begins at next.
func (s *segment) cut(next, position int64) {
	s.next, s.size = next, position
	i := sort.Search(len(s.index), func(i int) bool { return s.index[i].position >= position })
	s.index = s.index[:i:i]
}

// place is a part of a segment's file, as it was at a moment.
type place struct {
	seg        *segment
	name       string
	from, to   int64 // bytes; a batch begins at from
	end        int64 // offset behind the last record before to
	generation uint64
}

func (p place) reader() *Reader {
	return NewReader(p.name, io.NewSectionReader(p.seg.file, p.from, p.to-p.from), p.from)
}

// seek is where the batch that owns offset begins, and its base offset.
func (p place) seek(offset int64) (position, base int64, err error) {
	r := p.reader()
	h, err := r.seek(offset)
	return r.Position(), h.batch.BaseOffset, p.short(r, err)
}

// read returns the batches from the one that owns offset on, as Log.Read does.
func (p place) read(offset, limit int64, maxBytes int) ([]switchover.Batch, error) {
	r := p.reader()
	batches, err := r.From(offset, limit, maxBytes)
	return batches, p.short(r, err)
}

// short makes the end of the file an error of a file that lacks what it should hold.
func (p place) short(r *Reader, err error) error {
	if errors.Is(err, io.EOF) {
		return corrupt(p.name, r.Position(), fmt.Sprintf("the file ends before offset %d", p.end))
	}
	return err
}

// scanIndex is the index of the place's batches. It ends at damage: what reads there finds
// it again, and says so.
func (p place) scanIndex() []indexEntry {
	var index []indexEntry
	r := p.reader()
	for {
		h, err := r.header()
		if err != nil {
			return index
		}
		index = appendIndex(index, h.batch.BaseOffset, r.Position())
		if r.skip(h) != nil {
			return index
		}
	}
}
