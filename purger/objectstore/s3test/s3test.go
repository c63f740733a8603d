// Package s3test runs a real S3 server in a process of its own, for tests: versitygw,
// built from the module beside, on a directory that goes with the test.
package s3test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/cpnode/cpnode/purger/objectstore"
)

const (
	accessKey = "cpnode"
	secretKey = "a-secret-for-tests"
	region    = "us-east-1"
)

// Server is a running server.
type Server struct {
	// Endpoint is its URL.
	Endpoint string
	// Directory holds each bucket's objects in a directory of the bucket's name.
	Directory string

	binary string
	addr   string
	cmd    *exec.Cmd
}

// Start builds and starts a server, which is stopped when the test ends. A machine that
// can have neither the module nor the network skips the test; anything else that goes
// wrong fails it.
func Start(t testing.TB) *Server {
	t.Helper()
	dir := t.TempDir()
	s := &Server{Directory: filepath.Join(dir, "buckets"), binary: build(t), addr: freeAddress(t)}
	s.Endpoint = "http://" + s.addr
	for _, d := range []string{s.Directory, s.metadata()} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s.Restart(t)
	t.Cleanup(func() { s.Stop(t) })
	return s
}

func (s *Server) metadata() string { return filepath.Join(filepath.Dir(s.Directory), "metadata") }

// binary is built into Go's build cache, which keeps it and clears it away in time.
var binary = sync.OnceValues(func() (string, error) {
	_, self, _, _ := runtime.Caller(0)
	output, err := exec.Command("go", "tool", "-C", filepath.Join(filepath.Dir(self), "versitygw"), "-n", "versitygw").Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return strings.TrimSpace(string(output)), err
})

// build makes the program once a process.
func build(t testing.TB) string {
	t.Helper()
	path, err := binary()
	if err != nil && offline(err.Error()) {
		t.Skipf("the S3 server's module cannot be had without network: %v", err)
	}
	if err != nil {
		t.Fatalf("building the S3 server: %v", err)
	}
	return path
}

func offline(output string) bool {
	for _, sign := range []string{"dial tcp", "no such host", "GOPROXY=off", "module lookup disabled", "TLS handshake timeout"} {
		if strings.Contains(output, sign) {
			return true
		}
	}
	return false
}

func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

// Restart starts a server that was stopped, on the same address and objects.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.cmd = exec.Command(s.binary, "--port", s.addr, "--access", accessKey, "--secret", secretKey, "--region", region, "--quiet",
		"posix", "--sidecar", s.metadata(), s.Directory)
	s.cmd.Stderr = os.Stderr
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", s.addr)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the S3 server does not answer: %v", err)
		}
	}
}

// Stop ends the server as a crash would. It may be stopped already.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if s.cmd == nil {
		return
	}
	if err := s.cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	var exit *exec.ExitError
	if err := s.cmd.Wait(); !errors.As(err, &exit) || !exit.Sys().(syscall.WaitStatus).Signaled() {
		t.Errorf("the S3 server ended by itself: %v", err)
	}
	s.cmd = nil
}

// Bucket makes a bucket, and says how to open it.
func (s *Server) Bucket(t testing.TB, name string) objectstore.S3Config {
	t.Helper()
	u, err := url.Parse(s.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	client, err := minio.New(u.Host, &minio.Options{Creds: credentials.NewStaticV4(accessKey, secretKey, ""), Region: region})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := client.MakeBucket(ctx, name, minio.MakeBucketOptions{Region: region}); err != nil {
		t.Fatal(err)
	}
	return objectstore.S3Config{Endpoint: s.Endpoint, Bucket: name, Region: region, AccessKey: accessKey, SecretKey: secretKey}
}
