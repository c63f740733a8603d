// Package s3server runs a real S3 server in a process of its own, for tests and trials:
// versitygw, built from the module beside, on a directory of objects.
package s3server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/cpnode/cpnode/internal/loopback"
	"github.com/cpnode/cpnode/purger/objectstore"
)

// What a client signs its requests with.
const (
	AccessKey = "cpnode"
	SecretKey = "a-secret-for-tests"
	Region    = "us-east-1"
)

// patience is how long a server may take to answer.
const patience = 20 * time.Second

// ErrOffline: the server's module is not on this machine, and cannot be had without
// network.
var ErrOffline = errors.New("the S3 server's module cannot be had without network")

// Server is one server. Its methods are for one goroutine at a time.
type Server struct {
	// Endpoint is its URL.
	Endpoint string
	// Directory holds each bucket's objects in a directory of the bucket's name.
	Directory string

	binary, addr, metadata string
	cmd                    *exec.Cmd // nil while it is down
}

// New builds the server, whose objects will lie under dir, which exists; it does not run
// yet. The error is ErrOffline where it cannot be built.
func New(dir string) (*Server, error) {
	path, err := binary()
	if err != nil {
		return nil, err
	}
	addr, err := loopback.FreeAddr()
	if err != nil {
		return nil, err
	}
	s := &Server{Endpoint: "http://" + addr, Directory: filepath.Join(dir, "buckets"),
		binary: path, addr: addr, metadata: filepath.Join(dir, "metadata")}
	return s, errors.Join(os.Mkdir(s.Directory, 0o700), os.Mkdir(s.metadata, 0o700))
}

// binary is built into Go's build cache, once a process; the cache keeps it and clears it
// away in time.
var binary = sync.OnceValues(func() (string, error) {
	_, self, _, _ := runtime.Caller(0)
	output, err := exec.Command("go", "tool", "-C", filepath.Join(filepath.Dir(self), "versitygw"), "-n", "versitygw").Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("building the S3 server: %w: %s", err, exit.Stderr)
	}
	if err != nil && offline(err.Error()) {
		err = fmt.Errorf("%w: %w", ErrOffline, err)
	}
	return strings.TrimSpace(string(output)), err
})

func offline(output string) bool {
	for _, sign := range []string{"dial tcp", "no such host", "GOPROXY=off", "module lookup disabled", "TLS handshake timeout"} {
		if strings.Contains(output, sign) {
			return true
		}
	}
	return false
}

// Start starts the server unless it runs, always on the same address and objects, and
// waits until it listens.
func (s *Server) Start() error {
	if s.cmd != nil {
		return nil
	}
	cmd := exec.Command(s.binary, "--port", s.addr, "--access", AccessKey, "--secret", SecretKey, "--region", Region, "--quiet",
		"posix", "--sidecar", s.metadata, s.Directory)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd = cmd
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", s.addr)
		if err == nil {
			return c.Close()
		}
		if time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("the S3 server does not answer: %w", err), s.Kill())
		}
	}
}

// Kill ends the server as a crash would, if it runs. Its error is a server that had ended
// by itself.
func (s *Server) Kill() error {
	if s.cmd == nil {
		return nil
	}
	_ = s.cmd.Process.Kill() // it may be gone already, which Wait says
	err := s.cmd.Wait()
	s.cmd = nil
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Sys().(syscall.WaitStatus).Signaled() {
		return nil
	}
	return fmt.Errorf("the S3 server ended by itself: %w", err)
}

// MakeBucket makes a bucket, and says how to open it.
func (s *Server) MakeBucket(ctx context.Context, name string) (objectstore.S3Config, error) {
	config := objectstore.S3Config{Endpoint: s.Endpoint, Bucket: name, Region: Region, AccessKey: AccessKey, SecretKey: SecretKey}
	client, err := minio.New(s.addr, &minio.Options{Creds: credentials.NewStaticV4(AccessKey, SecretKey, ""), Region: Region})
	if err != nil {
		return config, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return config, client.MakeBucket(ctx, name, minio.MakeBucketOptions{Region: Region})
}
