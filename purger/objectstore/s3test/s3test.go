// Package s3test gives tests a real S3 server of their own, which ends with them.
package s3test

import (
	"context"
	"errors"
	"testing"

	"github.com/cpnode/cpnode/purger/objectstore"
	"github.com/cpnode/cpnode/purger/objectstore/s3server"
)

// Server is a running server.
type Server struct {
	*s3server.Server
}

// Start builds and starts a server, which is stopped when the test ends. A machine that
// can have neither the module nor the network skips the test; anything else that goes
// wrong fails it.
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := s3server.New(t.TempDir())
	if errors.Is(err, s3server.ErrOffline) {
		t.Skip(err)
	}
	must(t, err)
	server := &Server{s}
	server.Restart(t)
	t.Cleanup(func() { server.Stop(t) })
	return server
}

// Restart starts a server that was stopped, on the same address and objects.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	must(t, s.Server.Start())
}

// Stop ends the server as a crash would. It may be stopped already.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	must(t, s.Kill())
}

// Bucket makes a bucket, and says how to open it.
func (s *Server) Bucket(t testing.TB, name string) objectstore.S3Config {
	t.Helper()
	config, err := s.MakeBucket(context.WithoutCancel(t.Context()), name)
	must(t, err)
	return config
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
