package wire

import (
	"errors"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

var formats = map[string]Format{"json": JSON, "msgpack": Msgpack}

// full has no field at its default.
func full() *everything {
	return &everything{
		Flag: true, Tiny: 3, Small: -300, Medium: 1 << 20, Large: 1<<53 + 1, Name: "é\"\n", Mode: "safe",
		Topic: topicID{1, 15: 2}, Keys: []string{"a", "", "<&>"}, Config: map[string]string{"retention.ms": "1", "a": ""},
		Counts: map[string]int64{"x": -1 << 63}, Window: window{3, 4}, Windows: []window{{5, 6}, {-1, 1 << 40}}, Note: "n",
	}
}

func TestRoundTrip(t *testing.T) {
	for name, f := range formats {
		t.Run(name, func(t *testing.T) {
			for _, v := range []any{full(), sampleCommit(0), sampleCommit(1), sampleCommit(300)} {
				data, err := Append(f, nil, v)
				require.NoError(t, err)
				got := reflect.New(reflect.TypeOf(v).Elem()).Interface()
				require.NoError(t, Decode(f, data, got, Limits{}))
				require.Equal(t, v, got)
				answer := reflect.New(reflect.TypeOf(v).Elem()).Interface()
				require.NoError(t, DecodeAnswer(f, data, answer))
				require.Equal(t, v, answer)
			}
		})
	}
}

func TestIntegersOfAllSizesRoundTrip(t *testing.T) {
	for name, f := range formats {
		t.Run(name, func(t *testing.T) {
			for bit := range 64 {
				for _, n := range []int64{1<<bit - 1, 1 << bit, 1<<bit + 1, -1 << bit, -1<<bit - 1, -1<<bit + 1} {
					data, err := Append(f, nil, everything{Mode: "fast", Large: n})
					require.NoError(t, err)
					var got everything
					require.NoError(t, Decode(f, data, &got, Limits{}))
					require.Equal(t, n, got.Large)
				}
			}
		})
	}
}

func TestDefaultsReplaceWhatWasThere(t *testing.T) {
	want := everything{Tiny: -1, Small: 7, Large: 5, Mode: "fast", Window: window{-1, -1}, Inner: 9, private: 8}
	for name, body := range map[string]string{
		"missing":  `{"large":5}`,
		"explicit": `{"large":5,"keys":[],"config":{},"counts":{},"windows":[],"window":{},"name":"","mode":"fast"}`,
	} {
		got := full()
		got.Inner, got.private = 9, 8
		require.NoError(t, Decode(JSON, []byte(body), got, Limits{}), name)
		require.Equal(t, &want, got, name)
	}
}

func TestAppendJSON(t *testing.T) {
	data, err := Append(JSON, []byte("> "), everything{})
	require.NoError(t, err)
	require.Equal(t, `> {"flag":false,"tiny":0,"small":0,"medium":0,"large":0,"name":"","mode":"","topic":"00000000000000000000000000000000",`+
		`"keys":[],"config":{},"counts":{},"window":{"from":0,"to":0},"windows":[]}`, string(data))
	data, err = Append(JSON, nil, full())
	require.NoError(t, err)
	require.Equal(t, `{"flag":true,"tiny":3,"small":-300,"medium":1048576,"large":9007199254740993,"name":"é\"\n","mode":"safe",`+
		`"topic":"01000000000000000000000000000002","keys":["a","","<&>"],"config":{"a":"","retention.ms":"1"},`+
		`"counts":{"x":-9223372036854775808},"window":{"from":3,"to":4},"windows":[{"from":5,"to":6},{"from":-1,"to":1099511627776}],"note":"n"}`,
		string(data))
}

func TestAppendRefusesInvalidUTF8(t *testing.T) {
	for name, f := range formats {
		v := full()
		v.Keys[1] = "\xff"
		out, err := Append(f, []byte("kept"), v)
		require.EqualError(t, err, "keys[1]: is not valid UTF-8", name)
		require.Equal(t, "kept", string(out))
		v = full()
		v.Config["\xff"] = ""
		_, err = Append(f, nil, v)
		require.EqualError(t, err, `config["\xff"]: is not valid UTF-8`, name)
	}
}

// failing is a text type whose text cannot be written.
type failing struct{}

func (failing) MarshalText() ([]byte, error)  { return nil, errors.New("no text") }
func (*failing) UnmarshalText(_ []byte) error { return nil }

func TestAppendNamesTheFieldThatFails(t *testing.T) {
	_, err := Append(JSON, nil, struct {
		List []failing `json:"list"`
	}{make([]failing, 1)})
	require.EqualError(t, err, "list[0]: no text")
}

func TestDecodeAnswerIsTolerant(t *testing.T) {
	const body = `{"new":{"a":[1,{"b":null}],"c":1.5e300},"tiny":-7,"mode":"unheard","name":"longer than eight","medium":null,"small":null,
		"keys":null,"window":{"from":2,"since":3},"windows":[null,{"to":1}],"counts":{"a":null,"b":2},"topic":null}`
	want := everything{Tiny: -7, Small: 7, Mode: "unheard", Name: "longer than eight", Window: window{2, -1},
		Windows: []window{{-1, -1}, {-1, 1}}, Counts: map[string]int64{"a": 0, "b": 2}}
	var below batch
	require.NoError(t, DecodeAnswer(JSON, []byte(`{"byte_size":-1}`), &below))
	require.Equal(t, batch{Magic: 2, ByteSize: -1, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1}, below)
	got := full()
	require.NoError(t, DecodeAnswer(JSON, []byte(body), got))
	require.Equal(t, &want, got)
}

func TestDecodeAnswerRefuses(t *testing.T) {
	for body, want := range map[string]string{
		``:                         `body: is empty`,
		`{"tiny":128}`:             `tiny: does not fit in int8`,
		`{"large":1.5}`:            `large: must be an integer, without fraction or exponent`,
		`{"windows":[{"from":""}]`: `windows[0].from: must be an integer, got a string`,
		`{"new":[}`:                `body: bad JSON at byte 8: invalid character '}' at start of value`,
		`{"new":`:                  `body: ends too early`,
	} {
		var v everything
		require.EqualError(t, DecodeAnswer(JSON, []byte(body), &v), want, body)
	}
}

func TestDecodeKeepsNothingOfTheBody(t *testing.T) {
	for name, f := range formats {
		data, err := Append(f, nil, full())
		require.NoError(t, err)
		var got everything
		require.NoError(t, Decode(f, data, &got, Limits{}))
		for i := range data {
			data[i] = '#'
		}
		require.Equal(t, full(), &got, name)
	}
}

func TestBadTypesPanic(t *testing.T) {
	for name, v := range map[string]any{
		"wire: a body is a struct, not map[string]string": map[string]string{},
	} {
		require.PanicsWithValue(t, name, func() { _, _ = Append(JSON, nil, v) })
	}
	for want, v := range map[string]any{
		`wire: bad tag json:"" (in struct { A int64 }.A)`: struct{ A int64 }{},
		`wire: *int64 has no place on the wire (in struct { A *int64 "json:\"a\"" }.A)`: struct {
			A *int64 `json:"a"`
		}{},
		`wire: default 128: body: does not fit in int8`: struct {
			A int8 `json:"a" default:"128"`
		}{},
		`wire: default -1: body: must be >= 0`: struct {
			A int8 `json:"a" default:"-1" min:"0"`
		}{},
		`wire: default {}: from: is required`: struct {
			A struct {
				From int64 `json:"from"`
			} `json:"a" default:"{}"`
		}{},
		`wire: only an empty default can be shared by all values`: struct {
			A []int64 `json:"a" default:"[1]"`
		}{},
		`wire: tag min is for an integer, not string`: struct {
			A []string `json:"a" min:"1"`
		}{},
		`wire: tag "x" is not an integer`: struct {
			A int64 `json:"a" min:"x"`
		}{},
		`has two fields from`: struct {
			window
			A int64 `json:"from"`
		}{},
	} {
		func() {
			defer func() { require.Contains(t, recover(), want) }()
			_, _ = Append(JSON, nil, v)
		}()
	}
}
