package remotestore

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"

	switchover "github.com/cpnode/cpnode/switch"
)

// Segment is one uploaded segment. It is listed from the moment its metadata has its name,
// which is after its bytes are on disk.
type Segment struct {
	switchover.Segment
	// Epochs are those of its records, the first beginning at its base.
	Epochs []switchover.EpochStart
	// index has the place of a batch every indexInterval bytes, so that a read does not pass
	// over all that is before.
	index [][2]int64
}

// indexInterval bytes, about, are passed over to reach a batch.
const indexInterval = 64 << 10

const (
	metadataVersion = 1
	metadataSuffix  = ".json"
	bytesSuffix     = ".log"
)

// metadata is the file of a Segment.
type metadata struct {
	Version int        `json:"version"`
	Base    int64      `json:"base"`
	End     int64      `json:"end"`
	Bytes   int64      `json:"bytes"`
	Epochs  [][2]int64 `json:"epochs"` // epoch, start
	Index   [][2]int64 `json:"index"`  // base offset, position
}

// name is that of the segment's files, without suffix.
func (s Segment) name() string { return fmt.Sprintf("%020d-%020d", s.Base, s.End) }

func (s Segment) encode() ([]byte, error) {
	m := metadata{Version: metadataVersion, Base: s.Base, End: s.End, Bytes: s.Bytes, Epochs: [][2]int64{}, Index: s.index}
	for _, e := range s.Epochs {
		m.Epochs = append(m.Epochs, [2]int64{int64(e.Epoch), e.Start})
	}
	return json.Marshal(m)
}

// decode reads the metadata in the file called name. What it covers is deleted elsewhere, so
// it must agree with its name.
func decode(name string, b []byte) (Segment, error) {
	var m metadata
	if err := json.Unmarshal(b, &m); err != nil {
		return Segment{}, fmt.Errorf("%s: %w: %w", name, ErrDamaged, err)
	}
	s := Segment{Segment: switchover.Segment{Base: m.Base, End: m.End, Bytes: m.Bytes}, index: m.Index}
	for _, e := range m.Epochs {
		s.Epochs = append(s.Epochs, switchover.EpochStart{Epoch: int32(e[0]), Start: e[1]})
	}
	if m.Version != metadataVersion || s.name()+metadataSuffix != name || m.Base >= m.End {
		return Segment{}, fmt.Errorf("%s: %w: not the metadata of that segment", name, ErrDamaged)
	}
	return s, nil
}

// same says whether two uploads of one range have the same records: then their epochs are
// the same, and so their bytes.
func (s Segment) same(other Segment) bool {
	return s.Segment == other.Segment && slices.Equal(s.Epochs, other.Epochs)
}

// floor is the position of the last indexed batch that does not begin behind offset.
func (s Segment) floor(offset int64) int64 {
	i := sort.Search(len(s.index), func(i int) bool { return s.index[i][0] > offset })
	if i == 0 {
		return 0
	}
	return s.index[i-1][1]
}

// isMetadata tells the metadata of a segment from other files.
func isMetadata(name string) bool { return strings.HasSuffix(name, metadataSuffix) }
