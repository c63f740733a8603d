package wire

import (
	"bytes"
	"errors"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// jsonOptions let duplicate keys through the tokenizer: the decoder finds them itself, without a set of names per object.
var jsonOptions = []jsontext.Options{jsontext.AllowDuplicateNames(true)}

type jsonReader struct {
	buf     bytes.Buffer // lends the body to the tokenizer, which then does not copy it
	tokens  jsontext.Decoder
	unquote []byte // room for strings with escapes
}

func (r *jsonReader) reset(data []byte) {
	r.buf = *bytes.NewBuffer(data)
	r.tokens.Reset(&r.buf, jsonOptions...)
}

func (r *jsonReader) next() (kind, error) {
	switch r.tokens.PeekKind() {
	case jsontext.KindNumber:
		return integer, nil
	case jsontext.KindString:
		return text, nil
	case jsontext.KindBeginObject:
		return object, nil
	case jsontext.KindBeginArray:
		return array, nil
	case jsontext.KindTrue, jsontext.KindFalse:
		return boolean, nil
	case jsontext.KindNull:
		return null, nil
	}
	_, err := r.tokens.ReadToken()
	return invalid, syntax(err)
}

func (r *jsonReader) boolean() (bool, error) {
	t, err := r.tokens.ReadToken()
	if err != nil {
		return false, syntax(err)
	}
	return t.Bool(), nil
}

// integer takes digits only: 1.0 and 1e3 are refused, since a client that writes them computes in doubles.
func (r *jsonReader) integer() (int64, error) {
	raw, err := r.tokens.ReadValue()
	if err != nil {
		return 0, syntax(err)
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, problem("does not fit in int64")
	case err != nil:
		return 0, problem("must be an integer, without fraction or exponent")
	}
	return n, nil
}

func (r *jsonReader) text() ([]byte, error) {
	raw, err := r.tokens.ReadValue()
	if err != nil {
		return nil, syntax(err)
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1], nil
	}
	r.unquote, err = jsontext.AppendUnquote(r.unquote[:0], raw)
	return r.unquote, syntax(err)
}

func (r *jsonReader) skip() error {
	return syntax(r.tokens.SkipValue())
}

func (r *jsonReader) open() (int, error) {
	_, err := r.tokens.ReadToken()
	return -1, syntax(err)
}

func (r *jsonReader) more(_, _ int) bool {
	k := r.tokens.PeekKind()
	return k != jsontext.KindEndObject && k != jsontext.KindEndArray
}

func (r *jsonReader) name() ([]byte, error) { return r.text() }

func (r *jsonReader) close() error {
	_, err := r.tokens.ReadToken()
	return syntax(err)
}

func (r *jsonReader) finish() error {
	if _, err := r.tokens.ReadToken(); err != io.EOF {
		return problem("trailing data after the object")
	}
	return nil
}

// syntax puts an error of the tokenizer in plain words; its pointer to the place is left to the path of the FieldError.
func syntax(err error) error {
	if err == nil {
		return nil
	}
	if err == io.EOF {
		return problem("is empty")
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return problem("ends too early")
	}
	if s, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return problem("bad JSON at byte %d: %v", s.ByteOffset, s.Err)
	}
	return problem("%v", err)
}

type jsonWriter struct{}

func (jsonWriter) openObject(dst []byte, _ int) []byte { return append(dst, '{') }

func (jsonWriter) closeObject(dst []byte) []byte { return append(dst, '}') }

func (jsonWriter) openArray(dst []byte, _ int) []byte { return append(dst, '[') }

func (jsonWriter) closeArray(dst []byte) []byte { return append(dst, ']') }

func (jsonWriter) next(dst []byte, i int) []byte {
	if i == 0 {
		return dst
	}
	return append(dst, ',')
}

func (w jsonWriter) key(dst, name []byte) ([]byte, error) {
	dst, err := w.text(dst, name)
	return append(dst, ':'), err
}

func (jsonWriter) boolean(dst []byte, b bool) []byte { return strconv.AppendBool(dst, b) }

func (jsonWriter) integer(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }

func (jsonWriter) text(dst, s []byte) ([]byte, error) {
	dst, err := jsontext.AppendQuote(dst, s)
	if err != nil {
		return dst, problem("is not valid UTF-8")
	}
	return dst, nil
}
