package wal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
	raftwal "github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// List keeps which files make up the log.
type List interface {
	// Load returns what was saved last, nil when nothing ever was.
	Load() ([]byte, error)
	// Save replaces it; when it returns nil that is durable.
	Save([]byte) error
}

// catalogFormat is that of the list and of the entries in the files.
const catalogFormat = 1

// catalog is what List keeps, as JSON.
type catalog struct {
	Format   int        `json:"format"`
	NextID   uint64     `json:"next_id"`
	Segments []*segment `json:"segments"` // ascending; the last one is appended to
}

// segment is one file of the log.
type segment struct {
	ID         uint64 `json:"id"`    // no other file ever has it
	First      uint64 `json:"first"` // index of the first entry in the file
	Min        uint64 `json:"min"`   // of the first one that was not deleted
	Last       uint64 `json:"last"`  // of the last one that was not deleted; 0: it is appended to
	IndexStart uint64 `json:"index_start"`
	Size       uint32 `json:"size"`    // the file was made with
	Durable    int64  `json:"durable"` // bytes at its front that are, at the least

	reader types.SegmentReader
	writer types.SegmentWriter // of the last one, which is reader too
	file   *file               // of one that was written to since it was opened
}

func (s *segment) info() types.SegmentInfo {
	return types.SegmentInfo{
		ID: s.ID, BaseIndex: s.First, MinIndex: s.Min, MaxIndex: s.Last, IndexStart: s.IndexStart, SizeLimit: s.Size, Codec: codecID,
	}
}

func (s *segment) name() string { return raftwal.FileName(s.info()) }

// get reads one entry that the segment has.
func (s *segment) get(index uint64, entry *raft.Log) error {
	raw, err := s.reader.GetLog(index)
	if err != nil {
		return s.damaged("entry %d: %v", index, err)
	}
	_, ok := decodeEntry(raw.Bs, entry)
	if err := raw.Close(); err != nil {
		return err
	}
	if !ok || entry.Index != index {
		return s.damaged("entry %d is not what its place says", index)
	}
	return nil
}

// load reads the list; c is empty when there is none yet.
func load(list List) (c catalog, err error) {
	data, err := list.Load()
	if err != nil || data == nil {
		return catalog{NextID: 1}, err
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("%w: the list of segments: %w", ErrDamaged, err)
	}
	if len(c.Segments) == 0 {
		return c, fmt.Errorf("%w: the list of segments is empty", ErrDamaged)
	}
	if c.Format != catalogFormat {
		return c, fmt.Errorf("the list of segments has format %d, this release reads %d", c.Format, catalogFormat)
	}
	for i, s := range c.Segments {
		if (s.Last == 0) != (i == len(c.Segments)-1) || i > 0 && s.First != c.Segments[i-1].Last+1 {
			return c, fmt.Errorf("%w: the list of segments has a hole", ErrDamaged)
		}
	}
	return c, nil
}

// end is the index of the last entry, 0 without any. Only the last segment may have
// none.
func (s *segment) end() uint64 {
	if s.Last == 0 {
		return s.writer.LastIndex()
	}
	return s.Last
}

// ended is the last segment, to be followed by another one.
func (s *segment) ended(last, indexStart uint64) *segment {
	c := *s
	c.Last, c.IndexStart, c.writer = last, indexStart, nil
	return &c
}

// read is the file of a segment, whole.
func (s *segment) read(dir string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(dir, s.name()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, s.damaged("it is missing")
	}
	return data, err
}
