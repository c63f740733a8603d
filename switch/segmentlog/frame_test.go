package segmentlog_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	switchover "github.com/cpnode/cpnode/switch"
	"github.com/cpnode/cpnode/switch/segmentlog"
)

// The bytes of version 1: a segment of an older release is read for ever.
func TestGoldenFrame(t *testing.T) {
	b := switchover.Batch{BaseOffset: 0x0102030405060708, Records: 3, LeaderEpoch: 9, Kind: switchover.Consolidated, Payload: []byte("payload")}
	frame := segmentlog.AppendFrame([]byte("before"), b)
	require.Equal(t, "before", string(frame[:6]))
	require.Equal(t, "54e3c6d5"+"00000007"+"01"+"02"+"00000009"+"0102030405060708"+"00000003"+hex.EncodeToString([]byte("payload")), hex.EncodeToString(frame[6:]))
	require.EqualValues(t, len(frame)-6, segmentlog.FrameSize(b))
	got, err := segmentlog.NewReader("golden", bytes.NewReader(frame[6:]), 0).Next()
	require.NoError(t, err)
	require.Equal(t, b, got)
}

// The bytes of a checkpoint of version 1.
func TestGoldenCheckpoint(t *testing.T) {
	l := open(t, t.TempDir(), small)
	fill(t, l, 3, 4)
	fill(t, l, 7, 3)
	require.NoError(t, l.DeleteBelow(3))
	require.NoError(t, l.SetLogStart(1))
	require.NoError(t, l.Close())
	got, err := os.ReadFile(filepath.Join(l.Dir(), "checkpoint"))
	require.NoError(t, err)
	require.Equal(t, `{"version":1,"log_start":1,"local_log_start":3,"flushed":7,"high_watermark":7,"epochs":[[3,1],[7,4]]}`+"\n7425b645\n", string(got))
}

func TestReaderRefusesAHole(t *testing.T) {
	var data []byte
	for _, base := range []int64{5, 7, 8} { // each of one record
		data = segmentlog.AppendFrame(data, switchover.Batch{BaseOffset: base, Records: 1, Kind: switchover.Classic})
	}
	r := segmentlog.NewReader("hole", bytes.NewReader(data), 1000)
	_, err := r.Next()
	require.NoError(t, err)
	_, err = r.Next()
	require.ErrorIs(t, err, segmentlog.ErrCorrupt)
	require.ErrorContains(t, err, "hole at byte 1026")
}

// FuzzReader: whatever the bytes are, the reader returns batches that are written with
// these very bytes, and then the end or ErrCorrupt; a flipped bit is never passed over.
func FuzzReader(f *testing.F) {
	whole := segmentlog.AppendFrame(nil, switchover.Batch{BaseOffset: 5, Records: 2, Kind: switchover.Classic, Payload: []byte("abc")})
	whole = segmentlog.AppendFrame(whole, switchover.Batch{BaseOffset: 7, Records: 1, LeaderEpoch: 1, Kind: switchover.Consolidated})
	f.Add(whole, uint16(0))
	f.Add(whole[:40], uint16(77))
	f.Add(make([]byte, 100), uint16(1))
	f.Fuzz(func(t *testing.T, data []byte, bit uint16) {
		read := readAll(t, data)
		if read == 0 {
			return
		}
		flipped := bytes.Clone(data)
		at := int(bit) % (read * 8)
		flipped[at/8] ^= 1 << (at % 8)
		require.LessOrEqual(t, readAll(t, flipped), at/8)
	})
}

// readAll reads to the end or to damage, and returns how many bytes batches took up to there.
func readAll(t *testing.T, data []byte) int {
	t.Helper()
	var again []byte
	r := segmentlog.NewReader("fuzz", bytes.NewReader(data), 0)
	for {
		b, err := r.Next()
		if err != nil {
			require.True(t, errors.Is(err, segmentlog.ErrCorrupt) || err == io.EOF, err)
			require.EqualValues(t, len(again), r.Position())
			require.Equal(t, err == io.EOF, len(again) == len(data))
			return len(again)
		}
		again = segmentlog.AppendFrame(again, b)
		require.Equal(t, data[:len(again)], again)
	}
}
