package store

import (
	"bytes"
	"errors"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestCopyStreamChecksOnTheWay(t *testing.T) {
	from, _ := twoWorlds(t)
	stream := streamOf(t, from.s)
	require.True(t, IsStream(stream))
	require.False(t, IsStream([]byte("cpnstat")))
	var out bytes.Buffer
	info, err := CopyStream(&out, iotest.HalfReader(bytes.NewReader(stream)))
	require.NoError(t, err)
	require.Equal(t, stream, out.Bytes())
	require.Equal(t, StreamInfo{Index: 70, Term: 4, Size: int64(len(stream) - streamHeaderSize - streamTrailerSize)}, info)

	for _, n := range []int{0, 8, 39, 40, 41, len(stream) / 2, len(stream) - 41, len(stream) - 40, len(stream) - 1} {
		_, err := CopyStream(&bytes.Buffer{}, bytes.NewReader(stream[:n]))
		require.ErrorIs(t, err, ErrStream, "cut at %d", n)
	}
	for _, at := range []int{0, 9, 13, 30, 39, 41, len(stream) / 2, len(stream) - 41, len(stream) - 39, len(stream) - 1} {
		damaged := bytes.Clone(stream)
		damaged[at] ^= 1
		_, err := CopyStream(&bytes.Buffer{}, bytes.NewReader(damaged))
		require.ErrorIs(t, err, ErrStream, "flipped at %d", at)
	}
	_, err = CopyStream(&bytes.Buffer{}, bytes.NewReader(append(bytes.Clone(stream), 0)))
	require.ErrorIs(t, err, ErrStream)
	broken := errors.New("broken")
	_, err = CopyStream(&bytes.Buffer{}, iotest.ErrReader(broken))
	require.ErrorIs(t, err, broken)
}
