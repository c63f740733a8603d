package raftnode

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// TLSFiles names PEM files. They are read again when they change.
type TLSFiles struct {
	CertFile, KeyFile string // this node's certificate, for server and client use, and its key
	CAFile            string // the authority that every node's certificate is from
}

func (f TLSFiles) given() bool { return f != TLSFiles{} }

// security is how nodes know each other on the raft port: by certificates of one
// authority, by a secret that all share, or, on loopback or where the operator
// says so, not at all.
type security struct {
	files      TLSFiles
	secretFile string // empty for none
	logger     *slog.Logger
	wrong      quieter

	mu    sync.Mutex
	read  []time.Time // when the files that keys were made of had been changed
	keys  keys
	known bool // keys were read
}

// keys is what the files held. All is nil where there is no security.
type keys struct {
	accept, dial *tls.Config
	secret       []byte
}

// minSecret is a length that nobody guesses.
const minSecret = 16

// newSecurity reads the files once, so that mistakes are found at the start.
func newSecurity(files TLSFiles, secretFile string, logger *slog.Logger) (*security, error) {
	s := &security{files: files, secretFile: secretFile, logger: logger}
	_, err := s.current()
	return s, err
}

// current is the keys, read again if a file has changed. While the new ones are
// wrong, the old ones go on.
func (s *security) current() (keys, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var times []time.Time
	for _, path := range s.paths() {
		info, err := os.Stat(path)
		if err != nil {
			return s.keys, s.unlessKnown(err)
		}
		times = append(times, info.ModTime())
	}
	if s.known && slices.Equal(times, s.read) {
		return s.keys, nil
	}
	k, err := s.load()
	if err != nil {
		return s.keys, s.unlessKnown(err)
	}
	s.keys, s.read, s.known = k, times, true
	return k, nil
}

// unlessKnown says why new keys are not used: nobody else would notice before the
// old ones expire.
func (s *security) unlessKnown(err error) error {
	if !s.known {
		return err
	}
	s.wrong.say(err.Error(), func() {
		s.logger.Warn("the raft port goes on with its old keys: the new ones are of no use", "error", err)
	})
	return nil
}

func (s *security) paths() []string {
	switch {
	case s.files.given():
		return []string{s.files.CertFile, s.files.KeyFile, s.files.CAFile}
	case s.secretFile != "":
		return []string{s.secretFile}
	}
	return nil
}

func (s *security) load() (k keys, err error) {
	switch {
	case s.files.given():
		return s.loadTLS()
	case s.secretFile != "":
		data, err := os.ReadFile(s.secretFile)
		if err != nil {
			return k, fmt.Errorf("shared secret: %w", err)
		}
		if k.secret = bytes.TrimSpace(data); len(k.secret) < minSecret {
			return k, fmt.Errorf("shared secret: %s holds %d bytes, at least %d are needed", s.secretFile, len(k.secret), minSecret)
		}
	}
	return k, nil
}

// loadTLS makes both sides' configurations. Certificates are checked against the
// authority, not against names: a node is known by what its hello says, and is
// reached at whatever address it has.
func (s *security) loadTLS() (k keys, err error) {
	cert, err := tls.LoadX509KeyPair(s.files.CertFile, s.files.KeyFile)
	if err != nil {
		return k, fmt.Errorf("raft certificate: %w", err)
	}
	pem, err := os.ReadFile(s.files.CAFile)
	if err != nil {
		return k, fmt.Errorf("raft authority: %w", err)
	}
	authority := x509.NewCertPool()
	if !authority.AppendCertsFromPEM(pem) {
		return k, fmt.Errorf("raft authority: %s holds no certificate", s.files.CAFile)
	}
	k.accept = &tls.Config{
		Certificates: []tls.Certificate{cert}, ClientCAs: authority, ClientAuth: tls.RequireAndVerifyClientCert,
		MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true,
	}
	k.dial = &tls.Config{
		Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13,
		InsecureSkipVerify: true, // of names only: see VerifyConnection
		VerifyConnection:   func(c tls.ConnectionState) error { return verifyServer(c, authority) },
	}
	return k, nil
}

func verifyServer(c tls.ConnectionState, authority *x509.CertPool) error {
	if len(c.PeerCertificates) == 0 {
		return errors.New("the other side has no certificate")
	}
	between := x509.NewCertPool()
	for _, cert := range c.PeerCertificates[1:] {
		between.AddCert(cert)
	}
	_, err := c.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: authority, Intermediates: between})
	return err
}

// server makes an accepted connection safe, within its deadline.
func (s *security) server(conn net.Conn) (net.Conn, error) {
	k, err := s.current()
	if err != nil || k.accept == nil {
		return conn, err
	}
	return handshake(tls.Server(conn, k.accept))
}

// client is the other side of server.
func (s *security) client(conn net.Conn) (net.Conn, error) {
	k, err := s.current()
	if err != nil || k.dial == nil {
		return conn, err
	}
	return handshake(tls.Client(conn, k.dial))
}

func handshake(conn *tls.Conn) (net.Conn, error) {
	if err := conn.Handshake(); err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return conn, nil
}

// sharedSecret is nil where there is none.
func (s *security) sharedSecret() ([]byte, error) {
	k, err := s.current()
	return k.secret, err
}
