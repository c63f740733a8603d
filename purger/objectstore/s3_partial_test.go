package objectstore_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/purger/objectstore"
	"github.com/cpnode/cpnode/purger/objectstore/s3test"
)

// TestS3PartialAnswers puts a proxy before the server that changes its answers to
// deletions: a key is confirmed only where the answer names it as deleted.
func TestS3PartialAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: starts an S3 server process")
	}
	server := s3test.Start(t)
	config := server.Bucket(t, "objects")
	var answer func([]byte) []byte
	config.Endpoint = rewriteDeletions(t, server.Endpoint, func(b []byte) []byte { return answer(b) })
	s, err := objectstore.OpenS3(t.Context(), config)
	require.NoError(t, err)

	keys := []string{"a", "b", "c"}
	failed := func(change func([]byte) []byte) (bad []string) {
		t.Helper()
		for _, key := range keys {
			put(t, s, key, "x")
		}
		answer = change
		for i, err := range s.Delete(t.Context(), keys) {
			if err != nil {
				bad = append(bad, keys[i])
			}
		}
		return bad
	}
	require.Empty(t, failed(func(b []byte) []byte { return b }))
	require.Equal(t, []string{"b"}, failed(replacing("<Deleted><Key>b</Key></Deleted>", "<Error><Key>b</Key><Code>AccessDenied</Code></Error>")))
	require.Equal(t, []string{"b"}, failed(replacing("<Deleted><Key>b</Key></Deleted>", "<Error><Key>b</Key><Code>InvalidArgument</Code></Error>")))
	require.Equal(t, []string{"c"}, failed(replacing("<Deleted><Key>c</Key></Deleted>", "")))
	require.Equal(t, []string{"c"}, failed(replacing("<Key>c</Key>", "<Key>d</Key>")))
	require.Empty(t, failed(replacing("<Deleted><Key>b</Key></Deleted>", "<Error><Key>b</Key><Code>NoSuchKey</Code></Error>")))
	require.Equal(t, keys, failed(func(b []byte) []byte { return b[:len(b)/2] }))
	require.Equal(t, keys, failed(func([]byte) []byte { return nil }))
}

func replacing(before, after string) func([]byte) []byte {
	return func(b []byte) []byte {
		if !bytes.Contains(b, []byte(before)) {
			panic("the server answers in another form: " + string(b))
		}
		return bytes.Replace(b, []byte(before), []byte(after), 1)
	}
}

// rewriteDeletions is the URL of a proxy that changes the answers to deletions.
func rewriteDeletions(t *testing.T, endpoint string, change func([]byte) []byte) string {
	t.Helper()
	target, err := url.Parse(endpoint)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(r *http.Response) error {
		if !r.Request.URL.Query().Has("delete") {
			return nil
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		body = change(body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.ContentLength = int64(len(body))
		r.Header.Set("Content-Length", strconv.Itoa(len(body)))
		return nil
	}
	p := httptest.NewServer(proxy)
	t.Cleanup(p.Close)
	return p.URL
}
