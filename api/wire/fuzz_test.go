package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// checkAccepted decodes data strictly; what is accepted must be the same value after a way through either format, and the
// tolerant decoder must agree.
func checkAccepted[T any](t *testing.T, f Format, data []byte) {
	var first, answer T
	lim := Limits{MaxItems: 100}
	tolerated := DecodeAnswer(f, data, &answer)
	if err := Decode(f, data, &first, lim); err != nil {
		require.IsType(t, &FieldError{}, err)
		return
	}
	require.NoError(t, tolerated)
	require.Equal(t, first, answer)
	for _, other := range formats {
		again, err := Append(other, nil, &first)
		require.NoError(t, err)
		var second T
		require.NoError(t, Decode(other, again, &second, lim))
		require.Equal(t, first, second)
	}
}

func seed(f *testing.F, format Format) {
	for _, v := range []any{full(), everything{Mode: "fast"}, sampleCommit(2)} {
		data, err := Append(format, nil, v)
		require.NoError(f, err)
		f.Add(data)
	}
}

func FuzzDecodeJSON(f *testing.F) {
	seed(f, JSON)
	f.Add([]byte(`{"large":-0,"name":"\u00e9","config":{"\ud83d\ude00":""}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		checkAccepted[everything](t, JSON, data)
		checkAccepted[commitFile](t, JSON, data)
	})
}

func FuzzDecodeMsgpack(f *testing.F) {
	seed(f, Msgpack)
	f.Add(packed("keys", []byte{0xdd, 0xff, 0xff, 0xff, 0xff}))
	f.Fuzz(func(t *testing.T, data []byte) {
		checkAccepted[everything](t, Msgpack, data)
		checkAccepted[commitFile](t, Msgpack, data)
	})
}
