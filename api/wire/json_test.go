package wire

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// commitJSON is a whole request of one batch, with old replaced by new.
func commitJSON(old, new string) string {
	const whole = `{"object_key":"k","uploader_broker_id":1,"file_size":10,"batches":[{"topic_id":"` +
		`000102030405060708090a0b0c0d0e0f","partition":0,"byte_offset":0,"byte_size":10,"base_offset":0,"last_offset":1,"batch_max_timestamp":5}]}`
	return strings.Replace(whole, old, new, 1)
}

func TestDecodeJSONRefuses(t *testing.T) {
	for body, want := range map[string]string{
		``:                                       `body: is empty`,
		"  \n":                                   `body: is empty`,
		`[]`:                                     `body: must be an object, got an array`,
		`null`:                                   `body: must be an object, got null`,
		`"x"`:                                    `body: must be an object, got a string`,
		`{`:                                      `body: ends too early`,
		`nul`:                                    `body: must be an object, got null`,
		`x`:                                      `body: bad JSON at byte 0: invalid character 'x' at start of value`,
		`{"a" 1}`:                                `a: unknown field`,
		`{1:2}`:                                  `body: bad JSON at byte 1: object member name must be a string`,
		`{}`:                                     `object_key: is required`,
		`{"batches":1`:                           `batches: must be an array, got an integer`,
		commitJSON(`}]}`, `}]} {}`):              `body: trailing data after the object`,
		commitJSON(`}]}`, `}]},`):                `body: trailing data after the object`,
		commitJSON(`}]}`, `}]`):                  `body: ends too early`,
		commitJSON(`}]}`, `},]}`):                `batches[1]: bad JSON at byte 215: invalid character ',' at start of value`,
		commitJSON(`}]}`, `}}`):                  `batches: bad JSON at byte 215: invalid character '}' after array element (expecting ',' or ']')`,
		commitJSON(`"byte_size"`, `"byte_sise"`): `batches[0].byte_sise: unknown field (did you mean byte_size?)`,
		commitJSON(`"byte_size"`, `"bytesize"`):  `batches[0].bytesize: unknown field (did you mean byte_size?)`,
		commitJSON(`"byte_size"`, `"Byte_Size"`): `batches[0].Byte_Size: unknown field (did you mean byte_size?)`,
		commitJSON(`"byte_size"`, `"cap"`):       `batches[0].cap: unknown field`,
		commitJSON(`"byte_size"`, `"a\n.b"`):     `batches[0]["a\n.b"]: unknown field`,
		commitJSON(`"byte_size"`, `""`):          `batches[0][""]: unknown field`,
		commitJSON(`"byte_size"`, `"`+strings.Repeat("x", 99)+`"`):           `batches[0]["` + strings.Repeat("x", 64) + `..."]: unknown field`,
		commitJSON(`"byte_size":10,`, ``):                                    `batches[0].byte_size: is required`,
		commitJSON(`"byte_size":10`, `"byte_size":null`):                     `batches[0].byte_size: must not be null`,
		commitJSON(`"object_key":"k"`, `"object_key":null`):                  `object_key: must not be null`,
		commitJSON(`"file_size":10`, `"file_size":10,"format":null`):         `format: must not be null`,
		commitJSON(`[{`, `[null,{`):                                          `batches[0]: must not be null`,
		commitJSON(`"byte_size":10`, `"byte_size":10,"byte_size":10`):        `batches[0].byte_size: duplicate key`,
		commitJSON(`"byte_size":10`, `"byte_size":10,"byte_\u0073ize":10`):   `batches[0].byte_size: duplicate key`,
		commitJSON(`"byte_size":10`, `"byte_size":1.5`):                      `batches[0].byte_size: must be an integer, without fraction or exponent`,
		commitJSON(`"byte_size":10`, `"byte_size":1.0`):                      `batches[0].byte_size: must be an integer, without fraction or exponent`,
		commitJSON(`"byte_size":10`, `"byte_size":1e3`):                      `batches[0].byte_size: must be an integer, without fraction or exponent`,
		commitJSON(`"byte_offset":0`, `"byte_offset":01`):                    `batches[0]: bad JSON at byte 143: invalid character '1' after object value (expecting ',' or '}')`,
		commitJSON(`"byte_size":10`, `"byte_size":+1`):                       `batches[0].byte_size: bad JSON at byte 156: invalid character '+' at start of value`,
		commitJSON(`"byte_size":10`, `"byte_size":"10"`):                     `batches[0].byte_size: must be an integer, got a string`,
		commitJSON(`"byte_size":10`, `"byte_size":true`):                     `batches[0].byte_size: must be an integer, got true or false`,
		commitJSON(`"byte_size":10`, `"byte_size":[[[[`):                     `batches[0].byte_size: must be an integer, got an array`,
		commitJSON(`"byte_size":10`, `"byte_size":{}`):                       `batches[0].byte_size: must be an integer, got an object`,
		commitJSON(`"byte_size":10`, `"byte_size":9223372036854775808`):      `batches[0].byte_size: does not fit in int64`,
		commitJSON(`"byte_size":10`, `"byte_size":0`):                        `batches[0].byte_size: must be > 0`,
		commitJSON(`"byte_offset":0`, `"byte_offset":-1`):                    `batches[0].byte_offset: must be >= 0`,
		commitJSON(`"partition":0`, `"partition":-1`):                        `batches[0].partition: must be >= 0`,
		commitJSON(`"partition":0`, `"partition":2147483648`):                `batches[0].partition: does not fit in int32`,
		commitJSON(`"partition":0`, `"partition":0,"magic":128`):             `batches[0].magic: does not fit in int8`,
		commitJSON(`"partition":0`, `"partition":0,"producer_epoch":-32769`): `batches[0].producer_epoch: does not fit in int16`,
		commitJSON(`0001020`, `0001`):                                        `batches[0].topic_id: must be 32 hexadecimal digits`,
		commitJSON(`"object_key":"k"`, `"object_key":1`):                     `object_key: must be a string, got an integer`,
		commitJSON(`"object_key":"k"`, "\"object_key\":\"\xff\""):            `object_key: bad JSON at byte 15: invalid UTF-8`,
		commitJSON(`"object_key":"k"`, `"object_key":"\ud800"`):              "object_key: bad JSON at byte 15: invalid surrogate pair `\\ud800\",\"upl` in string",
		commitJSON(`"k"`, `"`+strings.Repeat("k", 1025)+`"`):                 `object_key: must be at most 1024 bytes`,
	} {
		var req commitFile
		assert.EqualError(t, Decode(JSON, []byte(body), &req, Limits{}), want, body)
	}
}

func TestDecodeJSONRefusesInEverything(t *testing.T) {
	for member, want := range map[string]string{
		`"flag":1`:                    `flag: must be true or false, got an integer`,
		`"flag":tru`:                  `flag: bad JSON at byte 21: invalid character ',' in literal true (expecting 'e')`,
		`"medium":-`:                  `medium: bad JSON at byte 21: invalid character ',' in number (expecting digit)`,
		`"tiny":-2`:                   `tiny: must be >= -1`,
		`"name":"123456789"`:          `name: must be at most 8 bytes`,
		`"mode":"slow"`:               `mode: must be one of: fast, safe`,
		`"keys":["a",2]`:              `keys[1]: must be a string, got an integer`,
		`"keys":["a","123456789"]`:    `keys[1]: must be at most 8 bytes`,
		`"keys":{}`:                   `keys: must be an array, got an object`,
		`"config":[]`:                 `config: must be an object, got an array`,
		`"config":{"retention.ms":1}`: `config["retention.ms"]: must be a string, got an integer`,
		`"config":{"a":"1","b":"2","\u0061":"3"}`: `config["a"]: duplicate key`,
		`"config":{"a":null}`:                     `config["a"]: must not be null`,
		`"counts":{"a":1.0}`:                      `counts["a"]: must be an integer, without fraction or exponent`,
		`"window":{"till":1}`:                     `window.till: unknown field`,
		`"windows":[{"from":{}}]`:                 `windows[0].from: must be an integer, got an object`,
		`"Inner":1`:                               `Inner: unknown field`,
	} {
		var v everything
		assert.EqualError(t, Decode(JSON, []byte(`{"large":1,`+member+`,"small":1}`), &v, Limits{}), want, member)
	}
}

func TestDecodeJSONLimit(t *testing.T) {
	for body, want := range map[string]string{
		`{"large":1,"keys":["a","b","c"]}`:                       `keys: more than 2 items`,
		`{"large":1,"counts":{"a":1,"b":2,"c":3}}`:               `counts: more than 2 items`,
		`{"large":1,"keys":["a","b"],"counts":{"a":1,"b":2}}`:    ``,
		`{"large":1,"windows":[{},{}],"keys":[],"window":{}}`:    ``,
		`{"large":1,"windows":[{},{},{}],"keys":[],"window":{}}`: `windows: more than 2 items`,
	} {
		var v everything
		err := Decode(JSON, []byte(body), &v, Limits{MaxItems: 2})
		if want == "" {
			require.NoError(t, err, body)
			continue
		}
		require.EqualError(t, err, want, body)
		require.ErrorIs(t, err, ErrTooLarge)
	}
}

func TestDecodeJSONNumbers(t *testing.T) {
	for text, want := range map[string]int64{
		"9007199254740993":     1<<53 + 1,
		"9223372036854775807":  1<<63 - 1,
		"-9223372036854775808": -1 << 63,
		"-0":                   0,
	} {
		var v everything
		require.NoError(t, Decode(JSON, []byte(`{"large":`+text+`}`), &v, Limits{}), text)
		require.Equal(t, want, v.Large)
	}
}
