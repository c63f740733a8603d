package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cpnode/cpnode/api/wire"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

const (
	backupPath      = operationPath + backupName
	backupName      = "backup"
	backupMediaType = "application/octet-stream"
	// backupStall is how long one part of a backup may be on its way: a reader that
	// is slower holds up what the state frees.
	backupStall = 30 * time.Second
	backupPart  = 256 << 10
)

// backup streams the state of this node. A stream that is cut short shows: its
// length is announced, and its end has a count and a hash.
func (s *Server) backup(w http.ResponseWriter, r *http.Request) {
	b, err := s.embedded.node.Backup()
	if err != nil {
		e, foreseen := answerFor(err)
		if !foreseen {
			s.embedded.logger.Error("a backup failed", "error", err)
		}
		out, _ := answerFormat(r.Header, wire.JSON)
		s.embedded.backups.done(time.Now(), e.Code)
		send(w, out, failed(out, nil, e))
		return
	}
	defer b.Release()
	started := time.Now()
	h := w.Header()
	h.Set("Content-Type", backupMediaType)
	h.Set("Content-Length", strconv.FormatInt(b.Size(), 10))
	h.Set(headerAppliedIndex, strconv.FormatUint(b.Index(), 10))
	if _, err := b.WriteTo(&patientWriter{to: w, control: http.NewResponseController(w)}); err != nil {
		s.embedded.logger.Warn("a backup was cut short", "error", err)
		s.embedded.backups.done(started, ops.OutcomeUnknown)
		panic(http.ErrAbortHandler) // the connection too, so that the reader knows
	}
	s.embedded.backups.done(started, "")
}

// patientWriter gives each part of an answer its own time.
type patientWriter struct {
	to      io.Writer
	control *http.ResponseController
}

func (p *patientWriter) Write(b []byte) (n int, err error) {
	for err == nil && n < len(b) {
		if err = p.control.SetWriteDeadline(time.Now().Add(backupStall)); err != nil {
			return n, err
		}
		var wrote int
		wrote, err = p.to.Write(b[n:min(len(b), n+backupPart)])
		n += wrote
	}
	return n, err
}

// Backup copies the state of one node, the first of the endpoints that answers, to w
// and checks that it arrives whole. progress, unless nil, is told how much of how
// much has arrived. After an error w holds a part that must not be used.
func (c *Client) Backup(ctx context.Context, w io.Writer, progress func(done, total int64)) (store.StreamInfo, error) {
	var errs []error
	for _, endpoint := range c.config.Endpoints {
		body, total, err := c.openBackup(ctx, endpoint)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if progress == nil {
			progress = func(int64, int64) {}
		}
		info, err := store.CopyStream(w, &progressReader{from: body, total: total, show: progress})
		return info, errors.Join(err, body.Close())
	}
	if reached := slices.DeleteFunc(slices.Clone(errs), unreached); len(reached) > 0 {
		errs = reached // which says more
	}
	return store.StreamInfo{}, errors.Join(errs...)
}

func (c *Client) openBackup(ctx context.Context, endpoint string) (body io.ReadCloser, total int64, err error) {
	resp, err := c.openStream(ctx, endpoint, backupPath, backupStall)
	if err != nil {
		return nil, 0, err
	}
	return resp.Body, resp.ContentLength, nil
}

// openStream gets an answer that is read as it comes. It is cut off when nothing comes
// for stall.
func (c *Client) openStream(ctx context.Context, endpoint, path string, stall time.Duration) (*http.Response, error) {
	ctx, cancel := context.WithCancel(ctx)
	watched := &watchedBody{stall: stall, watch: time.AfterFunc(c.config.AttemptTimeout, cancel), cancel: cancel}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(endpoint, "/")+path, nil)
	if err != nil {
		watched.stop()
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		watched.stop()
		return nil, &noAnswer{ops.NoLeader, err}
	}
	watched.body, resp.Body = resp.Body, watched
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, backupPart))
	err = errors.Join(err, resp.Body.Close())
	if e, ok := decodeError(wire.JSON, text); ok && err == nil {
		return nil, e
	}
	return nil, errors.Join(err, fmt.Errorf("status %d from %s", resp.StatusCode, endpoint))
}

// watchedBody ends a body that stands still.
type watchedBody struct {
	body   io.ReadCloser
	stall  time.Duration // that ends it
	watch  *time.Timer
	cancel context.CancelFunc
}

func (b *watchedBody) Read(p []byte) (int, error) {
	b.watch.Reset(b.stall)
	return b.body.Read(p)
}

// Close lets go of the connection.
func (b *watchedBody) Close() error {
	b.stop()
	return b.body.Close()
}

func (b *watchedBody) stop() {
	b.watch.Stop()
	b.cancel()
}

type progressReader struct {
	from        io.Reader
	done, total int64
	show        func(done, total int64)
}

func (p *progressReader) Read(b []byte) (int, error) {
	n, err := p.from.Read(b)
	p.done += int64(n)
	p.show(p.done, p.total)
	return n, err
}
