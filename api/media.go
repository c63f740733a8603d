package api

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/cpnode/cpnode/api/wire"
	"github.com/cpnode/cpnode/ops"
)

// mediaTypes are the names of the formats in Content-Type and Accept.
var mediaTypes = [...]string{wire.JSON: "application/json", wire.Msgpack: "application/msgpack"}

func formatOf(mediaType string) (wire.Format, bool) {
	for f, name := range mediaTypes {
		if mediaType == name {
			return wire.Format(f), true
		}
	}
	return 0, false
}

// bodyFormat is the format of a request's body: JSON unless it says otherwise.
func bodyFormat(h http.Header) (wire.Format, *ops.Error) {
	contentType := h.Get("Content-Type")
	if contentType == "" {
		return wire.JSON, encodingRefused(h)
	}
	if f, ok := formatOf(contentType); ok {
		return f, encodingRefused(h)
	}
	mediaType, params, err := mime.ParseMediaType(contentType)
	f, ok := formatOf(mediaType)
	charset, given := params["charset"]
	if err != nil || !ok || given && !strings.EqualFold(charset, "utf-8") {
		return wire.JSON, ops.Errorf(ops.UnsupportedMediaType, "Content-Type: %q is neither %s nor %s", contentType, mediaTypes[wire.JSON], mediaTypes[wire.Msgpack])
	}
	return f, encodingRefused(h)
}

func encodingRefused(h http.Header) *ops.Error {
	if coding := h.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return ops.Errorf(ops.UnsupportedMediaType, "Content-Encoding: %q is not supported", coding)
	}
	return nil
}

// answerFormat is the format that Accept likes best, the request's own where it
// has no opinion.
func answerFormat(h http.Header, body wire.Format) (wire.Format, *ops.Error) {
	accept := h["Accept"]
	if len(accept) == 0 {
		return body, nil
	}
	if len(accept) == 1 {
		if f, ok := formatOf(accept[0]); ok {
			return f, nil
		}
	}
	best, quality := body, 0.0
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		if f, q := accepted(part, body); q > quality {
			best, quality = f, q
		}
	}
	if quality == 0 {
		return body, ops.Errorf(ops.UnsupportedMediaType, "Accept: answers are %s or %s", mediaTypes[wire.JSON], mediaTypes[wire.Msgpack])
	}
	return best, nil
}

// accepted is what one part of Accept stands for, and how much it is liked: 0 for
// none of the formats.
func accepted(part string, body wire.Format) (wire.Format, float64) {
	mediaType, params, err := mime.ParseMediaType(part)
	if err != nil {
		return body, 0
	}
	f, ok := formatOf(mediaType)
	if mediaType == "*/*" || mediaType == "application/*" {
		f, ok = body, true
	}
	quality := 1.0
	if q, given := params["q"]; given {
		quality, err = strconv.ParseFloat(q, 64)
	}
	if !ok || err != nil {
		return body, 0
	}
	return f, quality
}
