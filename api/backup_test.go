package api

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/api/wire"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

func clientOf(t *testing.T, endpoints ...string) *Client {
	c, err := NewClient(DefaultClientConfig(endpoints...))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestBackupIsThisNodesState(t *testing.T) {
	s := single(t, nil)
	var info Info
	c := clientOf(t, "http://127.0.0.1:1", s.url) // nothing listens at the first
	_, err := c.CreateTopics(t.Context(), newTopic(2), Observe(&info))
	require.NoError(t, err)
	var file bytes.Buffer
	var last [2]int64
	got, err := c.Backup(t.Context(), &file, func(done, total int64) { last = [2]int64{done, total} })
	require.NoError(t, err)
	require.Equal(t, info.Index, got.Index)
	require.Equal(t, [2]int64{int64(file.Len()), int64(file.Len())}, last)
	_, err = store.CopyStream(&bytes.Buffer{}, &file)
	require.NoError(t, err)
}

func TestBackupsAreBounded(t *testing.T) {
	s := single(t, nil)
	for range 2 {
		b, err := s.node.Backup()
		require.NoError(t, err)
		t.Cleanup(b.Release)
	}
	_, err := clientOf(t, s.url).Backup(t.Context(), &bytes.Buffer{}, nil)
	requireCode(t, err, ops.Overloaded)
	r := s.send(t, http.MethodGet, backupPath, nil)
	r.requireCode(t, http.StatusTooManyRequests, ops.Overloaded, "2 backups are being read")
	r = s.send(t, http.MethodPost, backupPath, nil)
	r.requireCode(t, http.StatusMethodNotAllowed, ops.MethodNotAllowed, "takes GET")
}

// A reader that has gone lets go of the state.
func TestBackupEndsWithItsReader(t *testing.T) {
	s := single(t, nil)
	full := errors.New("no room")
	for range 5 {
		_, err := clientOf(t, s.url).Backup(t.Context(), writerFunc(func([]byte) (int, error) { return 0, full }), nil)
		require.ErrorIs(t, err, full)
	}
	eventually(t, "all are released", func() bool {
		b, err := s.node.Backup()
		if err == nil {
			defer b.Release()
			other, err := s.node.Backup()
			if err == nil {
				other.Release()
				return true
			}
		}
		return false
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// A stream that a proxy cut short is not taken for a backup.
func TestBackupCutShortIsRefused(t *testing.T) {
	s := single(t, nil)
	whole := s.send(t, http.MethodGet, backupPath, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	cut := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(whole.body[:len(whole.body)-1]) })}
	go func() { _ = cut.Serve(l) }()
	t.Cleanup(func() { require.NoError(t, cut.Close()) })
	_, err = clientOf(t, "http://"+l.Addr().String()).Backup(t.Context(), &bytes.Buffer{}, nil)
	require.ErrorIs(t, err, store.ErrStream)
}

// What a node answered says more than that another one was not reached.
func TestRefusedBackupIsNotHiddenByADeadEndpoint(t *testing.T) {
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		send(w, wire.JSON, failed(wire.JSON, nil, ops.Errorf(ops.Overloaded, "two backups are under way")))
	}))
	defer busy.Close()
	for _, endpoints := range [][]string{{busy.URL, deadEndpoint(t)}, {deadEndpoint(t), busy.URL}} {
		_, err := newClient(t, DefaultClientConfig(endpoints...)).Backup(t.Context(), &bytes.Buffer{}, nil)
		require.EqualError(t, err, "OVERLOADED: two backups are under way")
	}
}
