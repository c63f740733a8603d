package purger

import (
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/purger/objectstore"
	"github.com/cpnode/cpnode/purger/objectstore/s3test"
)

// failingProxy stands before a real S3 server and fails deletions.
type failingProxy struct {
	t      *testing.T
	server http.Handler      // the real one
	direct objectstore.Store // the same, past the proxy
	clock  *clockwork.FakeClock
	fault  atomic.Int32
	hung   atomic.Int64 // requests that were not answered
}

func newFailingProxy(t *testing.T, server *s3test.Server, direct objectstore.Store, clock *clockwork.FakeClock) (*failingProxy, string) {
	target, err := url.Parse(server.Endpoint)
	require.NoError(t, err)
	p := &failingProxy{t: t, server: httputil.NewSingleHostReverseProxy(target), direct: direct, clock: clock}
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	return p, s.URL
}

func (p *failingProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !r.URL.Query().Has("delete") {
		p.server.ServeHTTP(w, r)
		return
	}
	switch fault(p.fault.Load()) {
	case refusing:
		http.Error(w, "out of order", http.StatusInternalServerError)
	case hanging:
		if _, err := io.Copy(io.Discard, r.Body); err != nil { // only then the client's end is noticed
			p.t.Error(err)
		}
		p.hung.Add(1)
		<-r.Context().Done()
	case partial:
		p.partly(w, r)
	case lost:
		p.server.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler) // the connection breaks off
	case slow:
		p.clock.Advance(30 * time.Second)
		p.server.ServeHTTP(w, r)
	default:
		p.server.ServeHTTP(w, r)
	}
}

// partly deletes every second object and says so.
func (p *failingProxy) partly(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Object []struct{ Key string }
	}
	if err := xml.NewDecoder(r.Body).Decode(&request); err != nil {
		p.t.Error(err)
	}
	var answer strings.Builder
	for i, o := range request.Object {
		if i%2 == 1 {
			fmt.Fprintf(&answer, "<Error><Key>%s</Key><Code>InternalError</Code><Message>out of order</Message></Error>", o.Key)
			continue
		}
		if err := p.direct.Delete(context.WithoutCancel(r.Context()), []string{o.Key})[0]; err != nil {
			p.t.Error(err)
		}
		fmt.Fprintf(&answer, "<Deleted><Key>%s</Key></Deleted>", o.Key)
	}
	w.Header().Set("Content-Type", "application/xml")
	fmt.Fprintf(w, "<DeleteResult>%s</DeleteResult>", answer.String())
}

// TestFileCleanerBehindFailingS3 lets the cleaner run while a real S3 server fails in one
// way after the other. Nothing is forgotten that was not confirmed, each failed cycle is
// followed by a longer pause, and once the server answers, if slowly, all go by
// themselves.
func TestFileCleanerBehindFailingS3(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: starts an S3 server process")
	}
	w := newWorld(t)
	server := s3test.Start(t)
	config := server.Bucket(t, "objects")
	direct, err := objectstore.OpenS3(t.Context(), config)
	require.NoError(t, err)
	proxy, url := newFailingProxy(t, server, direct, w.clock)
	config.Endpoint = url
	objects, err := objectstore.OpenS3(t.Context(), config)
	require.NoError(t, err)

	w.marked(direct, 40)
	w.clock.Advance(time.Hour)
	proxy.fault.Store(int32(refusing))
	c := w.cleaner(objects, func(c *FileCleanerConfig) { c.BatchFiles = 20 })
	w.run(c.Run)
	w.eventually(func() bool { return w.cleanCycles() == 1 }, "the first cycle fails")
	left := func(files, there int) {
		t.Helper()
		require.Len(t, w.files(), files)
		require.Len(t, keysOf(t, direct), there)
	}
	backsOff := func(seconds float64) {
		t.Helper()
		require.NoError(t, w.clock.BlockUntilContext(t.Context(), 1))
		require.Equal(t, seconds, w.metric("file_cleaner_backoff_seconds"))
		require.EqualValues(t, 1, w.metric("file_cleaner_work_remains"))
		require.Greater(t, w.metric("file_cleaner_oldest_waiting_age_seconds"), 3599.)
	}
	left(40, 40)
	backsOff(0.05)

	proxy.fault.Store(int32(partial))
	w.waits(w.cleanCycles, 50*time.Millisecond)
	left(20, 20)
	backsOff(0.1)
	require.EqualValues(t, 20, w.metric("file_cleaner_objects_deleted_total"))

	proxy.fault.Store(int32(hanging))
	w.clock.Advance(100 * time.Millisecond)
	w.eventually(func() bool { return proxy.hung.Load() > 0 }, "the server is asked")
	require.NoError(t, w.clock.BlockUntilContext(t.Context(), 1))
	w.clock.Advance(time.Minute) // StoreTimeout
	w.eventually(func() bool { return w.cleanCycles() == 3 }, "gives up")
	left(20, 20)
	backsOff(0.2)

	proxy.fault.Store(int32(lost))
	w.waits(w.cleanCycles, 200*time.Millisecond)
	left(20, 0) // deleted, and not confirmed
	backsOff(0.4)
	require.EqualValues(t, 4, w.metric("file_cleaner_errors_total"))

	proxy.fault.Store(int32(slow))
	w.waits(w.cleanCycles, 400*time.Millisecond)
	left(0, 0)
	require.Zero(t, w.metric("file_cleaner_backoff_seconds"))
	require.Zero(t, w.metric("file_cleaner_work_remains"))
	require.EqualValues(t, 40, w.metric("file_cleaner_files_total"))
	require.Contains(t, w.log.String(), "works again")
}
