package wire

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"
)

// packed is a msgpack map of raw parts: keys as Go strings, values as bytes.
func packed(members ...any) []byte {
	out := []byte{0x80 | byte(len(members)/2)}
	for _, m := range members {
		switch m := m.(type) {
		case string:
			out, _ = msgpackWriter{}.text(out, []byte(m))
		case []byte:
			out = append(out, m...)
		}
	}
	return out
}

func TestDecodeMsgpackRefuses(t *testing.T) {
	large := []byte{1}
	for _, c := range []struct {
		want string
		body []byte
	}{
		{`body: is empty`, nil},
		{`body: must be an object, got an array`, []byte{0x90}},
		{`body: must be an object, got null`, []byte{0xc0}},
		{`body: must be an object, got a floating-point number`, []byte{0xca, 0, 0, 0, 0}},
		{`body: bad msgpack: 0xc1 starts no value`, []byte{0xc1}},
		{`body: ends too early`, []byte{0xde, 0}},
		{`body: an object of length 1, but only 1 bytes are left`, []byte{0x81, 0xa0}},
		{`body: trailing data after the object`, append(packed("large", large), 0xc0)},
		{`large: is required`, packed()},
		{`large: duplicate key`, packed("large", large, "large", large)},
		{`large: must not be null`, packed("large", []byte{0xc0})},
		{`lorge: unknown field (did you mean large?)`, packed("lorge", large)},
		{`body: keys must be strings, got an integer`, packed([]byte{1}, large)},
		{`body: keys must be strings, got binary data`, packed([]byte{0xc4, 1, 'a'}, large)},
		{`body: is not valid UTF-8`, packed([]byte{0xa1, 0xff}, large)},
		{`large: must be an integer, got a string`, packed("large", []byte{0xa1, '1'})},
		{`large: must be an integer, got a floating-point number`, packed("large", []byte{0xca, 0, 0, 0, 0})},
		{`large: must be an integer, got a floating-point number`, packed("large", []byte{0xcb, 0, 0, 0, 0, 0, 0, 0, 0})},
		{`large: must be an integer, got an extension type`, packed("large", []byte{0xd4, 1, 0})},
		{`large: must be an integer, got an extension type`, packed("large", []byte{0xc7, 1, 1, 0})},
		{`large: does not fit in int64`, packed("large", []byte{0xcf, 0x80, 0, 0, 0, 0, 0, 0, 0})},
		{`large: ends too early`, packed("large", []byte{0xd3, 0, 0})},
		{`tiny: does not fit in int8`, packed("tiny", []byte{0xcc, 0x80})},
		{`tiny: must be >= -1`, packed("tiny", []byte{0xfe})},
		{`flag: must be true or false, got an integer`, packed("flag", []byte{1})},
		{`name: must be a string, got binary data`, packed("name", []byte{0xc4, 1, 'a'})},
		{`name: is not valid UTF-8`, packed("name", []byte{0xa1, 0xff})},
		{`name: must be at most 8 bytes`, packed("name", []byte("\xa9123456789"))},
		{`name: a string of length 9, but only 2 bytes are left`, packed("name", []byte("\xa912"))},
		{`name: a string of length 4294967295, but only 0 bytes are left`, packed("name", []byte{0xdb, 0xff, 0xff, 0xff, 0xff})},
		{`mode: must be one of: fast, safe`, packed("mode", "slow")},
		{`topic: must be 32 hexadecimal digits`, packed("topic", "00")},
		{`topic: must be 16 bytes`, packed("topic", []byte{0xc4, 1, 0})},
		{`keys: an array of length 4294967295, but only 0 bytes are left`, packed("keys", []byte{0xdd, 0xff, 0xff, 0xff, 0xff})},
		{`keys[0]: must not be null`, packed("keys", []byte{0x91, 0xc0})},
		{`config: an object of length 4294967295, but only 0 bytes are left`, packed("config", []byte{0xdf, 0xff, 0xff, 0xff, 0xff})},
		{`config["a"]: duplicate key`, packed("config", []byte("\x82\xa1a\xa1b\xa1a\xa1c"))},
		{`config["a"]: must be a string, got an integer`, packed("config", []byte("\x81\xa1a\x01"))},
		{`config: keys must be strings, got null`, packed("config", []byte("\x81\xc0\x01"))},
		{`windows[1].since: unknown field`, packed("windows", []byte("\x92\x80\x81\xa5since\x01"))},
	} {
		var v everything
		assert.EqualError(t, Decode(Msgpack, c.body, &v, Limits{}), c.want, "%x", c.body)
	}
}

func TestDecodeMsgpackLimit(t *testing.T) {
	for want, body := range map[string][]byte{
		`keys: more than 2 items`:   packed("keys", []byte("\x93\xa0\xa0\xa0")),
		`config: more than 2 items`: packed("config", []byte("\x83\xa0\xa0\xa0\xa0\xa0\xa0")),
	} {
		var v everything
		err := Decode(Msgpack, body, &v, Limits{MaxItems: 2})
		require.EqualError(t, err, want)
		require.ErrorIs(t, err, ErrTooLarge)
	}
}

func TestDeclaredLengthsAllocateNothing(t *testing.T) {
	body := packed("windows", append([]byte{0xdd, 0, 0x80, 0, 0}, make([]byte, 8<<20)...)) // 2^23 elements, the first of which is bad
	var v everything
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := Decode(Msgpack, body, &v, Limits{})
	runtime.ReadMemStats(&after)
	require.EqualError(t, err, "windows[0]: must be an object, got an integer")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(256<<10))
}

func TestDecodeMsgpackTakesEveryIntegerEncoding(t *testing.T) {
	for _, body := range [][]byte{
		{5}, {0xcc, 5}, {0xcd, 0, 5}, {0xce, 0, 0, 0, 5}, {0xcf, 0, 0, 0, 0, 0, 0, 0, 5},
		{0xd0, 5}, {0xd1, 0, 5}, {0xd2, 0, 0, 0, 5}, {0xd3, 0, 0, 0, 0, 0, 0, 0, 5},
	} {
		var v everything
		require.NoError(t, Decode(Msgpack, packed("large", body), &v, Limits{}), "%x", body)
		require.EqualValues(t, 5, v.Large, "%x", body)
	}
	for _, body := range [][]byte{
		{0xff}, {0xd0, 0xff}, {0xd1, 0xff, 0xff}, {0xd2, 0xff, 0xff, 0xff, 0xff}, {0xd3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	} {
		var v everything
		require.NoError(t, Decode(Msgpack, packed("large", body), &v, Limits{}), "%x", body)
		require.EqualValues(t, -1, v.Large, "%x", body)
	}
}

func TestDecodeMsgpackTakesBinaryIDs(t *testing.T) {
	var v everything
	id := topicID{1, 15: 2}
	require.NoError(t, Decode(Msgpack, packed("large", []byte{1}, "topic", append([]byte{0xc4, 16}, id[:]...)), &v, Limits{}))
	require.Equal(t, id, v.Topic)
}

func TestDecodeAnswerSkipsAnyMsgpack(t *testing.T) {
	various, err := msgpack.Marshal([]any{1, -1, 1.5, float32(1), "s", []byte("b"), nil, true, map[string]any{"a": []int{1}},
		strings.Repeat("x", 300), make([]int, 70_000), msgpack.RawMessage{0xc7, 2, 1, 0, 0}, msgpack.RawMessage{0xd8, 17: 0}})
	require.NoError(t, err)
	deep := append(bytes.Repeat([]byte{0x91}, 1<<20), 0xc0)
	body := packed("various", various, "deep", deep, "large", []byte{7})
	var v everything
	require.NoError(t, DecodeAnswer(Msgpack, body, &v))
	require.EqualValues(t, 7, v.Large)
	require.Error(t, DecodeAnswer(Msgpack, body[:len(body)-1], &v))
}

// TestMsgpackReadsElsewhere checks the encoder against another implementation.
func TestMsgpackReadsElsewhere(t *testing.T) {
	for n := range 20 {
		v := full()
		v.Name = strings.Repeat("n", n*20)
		v.Keys = make([]string, n*n*n*10)
		v.Config = map[string]string{}
		for i := range n * 4 {
			v.Config[fmt.Sprint(i)] = strings.Repeat("v", i*1000)
		}
		data, err := Append(Msgpack, nil, v)
		require.NoError(t, err)
		var got struct {
			Flag    bool               `msgpack:"flag"`
			Small   int16              `msgpack:"small"`
			Large   int64              `msgpack:"large"`
			Name    string             `msgpack:"name"`
			Topic   string             `msgpack:"topic"`
			Keys    []string           `msgpack:"keys"`
			Config  map[string]string  `msgpack:"config"`
			Windows []map[string]int64 `msgpack:"windows"`
		}
		require.NoError(t, msgpack.Unmarshal(data, &got))
		require.Equal(t, v.Flag, got.Flag)
		require.Equal(t, v.Small, got.Small)
		require.Equal(t, v.Large, got.Large)
		require.Equal(t, v.Name, got.Name)
		require.Equal(t, "01000000000000000000000000000002", got.Topic)
		require.Equal(t, v.Keys, got.Keys)
		require.Equal(t, v.Config, got.Config)
		require.Equal(t, []map[string]int64{{"from": 5, "to": 6}, {"from": -1, "to": 1 << 40}}, got.Windows)
	}
}
