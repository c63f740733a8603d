package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ServerConfig says how to serve a node over HTTP. The zero value will do.
type ServerConfig struct {
	// Version is the release, for /version.
	Version string
	// Gatherer is what /metrics shows; nil is nothing.
	Gatherer prometheus.Gatherer
}

// Server is the HTTP side of a node: HTTP/1.1 and cleartext HTTP/2 on one port.
type Server struct {
	embedded *Embedded
	config   ServerConfig
	routes   map[string]route // by path
	http     http.Server
	// closing ends when Shutdown begins, and with it the watches.
	closing   context.Context
	heartbeat time.Duration // of watches
	maxBehind uint64        // of their clients, in events
}

// What a connection may take. Answers wait for an outcome for 10 s and for a
// confirmation for 5 s; a body of 8 MiB takes a slow client a while.
const (
	headerTimeout  = 10 * time.Second
	readTimeout    = time.Minute
	writeTimeout   = 2 * time.Minute
	idleTimeout    = 5 * time.Minute
	maxHeaderBytes = 16 << 10
	// maxStreams lets one HTTP/2 connection carry the calls of a whole broker.
	maxStreams = 1024
)

// NewServer serves e over HTTP.
func NewServer(e *Embedded, config ServerConfig) *Server {
	s := &Server{embedded: e, config: config, heartbeat: watchHeartbeat, maxBehind: maxBehind}
	closing, end := context.WithCancel(context.Background())
	s.closing = closing
	s.routes = s.makeRoutes()
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	s.http = http.Server{
		Handler: s, Protocols: &protocols, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
	}
	s.http.RegisterOnShutdown(end)
	return s
}

// Serve answers on l until Shutdown, after which it returns nil.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	return nil
}

// Shutdown takes no more connections, ends watches, and waits until what is being answered has
// been, or ctx ends: then it cuts the rest off and returns ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		return errors.Join(err, s.http.Close())
	}
	return nil
}
