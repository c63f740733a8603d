package raftnode

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// authority signs certificates for nodes.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	path string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	a := &authority{t: t, key: key, path: filepath.Join(t.TempDir(), "ca.pem")}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, key.Public(), key)
	require.NoError(t, err)
	writePEM(t, a.path, "CERTIFICATE", der)
	return a
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

// issue writes a node's certificate and key into dir.
func (a *authority) issue(dir string) TLSFiles {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, key.Public(), a.key)
	require.NoError(a.t, err)
	secret, err := x509.MarshalECPrivateKey(key)
	require.NoError(a.t, err)
	f := TLSFiles{CertFile: filepath.Join(dir, "node.pem"), KeyFile: filepath.Join(dir, "node.key"), CAFile: a.path}
	writePEM(a.t, f.CertFile, "CERTIFICATE", der)
	writePEM(a.t, f.KeyFile, "EC PRIVATE KEY", secret)
	return f
}

func secretFile(t *testing.T, secret string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(path, []byte(secret+"\n"), 0o600))
	return path
}

const testSecret = "correct horse battery staple"

func TestClusterWithTLS(t *testing.T) {
	ca := newAuthority(t)
	c := startCluster(t, func(c *Config) { c.RaftTLS = ca.issue(t.TempDir()) })
	createTopic(t, c.nodes[c.leader()])
	follower := c.nodes[c.followers()[0]]
	c.nodes[c.leader()].HandleForwarded(func(_ context.Context, payload []byte) []byte { return payload })
	for range 3 { // over one connection
		answer, err := follower.Forward(t.Context(), []byte("x"))
		require.NoError(t, err)
		require.Equal(t, "x", string(answer))
	}
	c.settled()

	// Certificates of another authority replace the first ones while nodes run.
	newer := newAuthority(t)
	pem, err := os.ReadFile(newer.path)
	require.NoError(t, err)
	for i := range c.configs {
		newer.issue(filepath.Dir(c.configs[i].RaftTLS.CertFile))
	}
	require.NoError(t, os.WriteFile(ca.path, pem, 0o600))
	down := c.followers()[0]
	c.stop(down)
	ready(t, c.start(down))
	c.settled()
}

func TestClusterWithSecret(t *testing.T) {
	c := startCluster(t, func(c *Config) { c.RaftSecretFile = secretFile(t, testSecret) })
	createTopic(t, c.nodes[c.leader()])
	c.settled()
}

func TestWhoIsNotLetIn(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	open := func(id string, change func(*Config)) *Node {
		c := testConfig(t, id)
		change(&c)
		n := openNode(t, c)
		ready(t, n)
		return n
	}
	plain := open("plain", func(*Config) {})
	secret := open("secret", func(c *Config) { c.RaftSecretFile = secretFile(t, testSecret) })
	wrong := open("wrong", func(c *Config) { c.RaftSecretFile = secretFile(t, testSecret+"!") })
	tls := open("tls", func(c *Config) { c.RaftTLS = ca.issue(t.TempDir()) })
	foreign := open("foreign", func(c *Config) { c.RaftTLS = other.issue(t.TempDir()) })
	for _, c := range []struct {
		from, to *Node
		says     string
	}{
		{plain, secret, "has a shared secret, this node has none"},
		{secret, plain, "has no shared secret, this node has one"},
		{wrong, secret, "the shared secrets differ"},
		{plain, tls, "no answer to hello"},
		{tls, plain, "TLS: "},
		{foreign, tls, "certificate"},
	} {
		_, err := c.from.askAddr(t.Context(), Peer{c.to.config.NodeID, c.to.RaftAddr()}, controlRequest{Verb: verbReport})
		require.ErrorContains(t, err, c.says, "%s to %s", c.from.config.NodeID, c.to.config.NodeID)
		require.Empty(t, c.to.network.book.of(c.from.id()), "nothing that it said is believed")
	}
}

// impostor dials a node and goes through the hello by hand.
type impostor struct {
	net.Conn
	helloFrame, answerFrame []byte
	said                    answer
}

func greetAs(t *testing.T, to *Node, nonce []byte) *impostor {
	t.Helper()
	conn, err := net.Dial("tcp", to.RaftAddr())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	i := &impostor{Conn: conn}
	mine := hello{party: to.self()}
	mine.NodeID, mine.Nonce = "impostor", nonce
	i.helloFrame, err = writeGreeting(conn, []byte{byte(kindControl), networkVersion}, mine)
	require.NoError(t, err)
	i.answerFrame, err = readAnswer(conn, &i.said)
	require.NoError(t, err)
	return i
}

// Who knows the secret proves it anew on each connection, in its own role.
func TestProofsAreOfNoUseElsewhere(t *testing.T) {
	config := testConfig(t, "n1")
	config.RaftSecretFile = secretFile(t, testSecret)
	n := openNode(t, config)
	ready(t, n)
	ends := func(i *impostor, proof []byte) {
		t.Helper()
		_, err := i.Write(proof)
		require.NoError(t, err)
		_ = writeFrame(i, []byte(`{"verb":"report"}`))
		_, err = readFrame(i, controlLimit)
		require.Error(t, err)
	}
	first := greetAs(t, n, newNonce())
	mirrored := make([]byte, 32)
	_, err := io.ReadFull(first, mirrored)
	require.NoError(t, err)
	require.Equal(t, mac([]byte(testSecret), macAcceptor, first.helloFrame, first.answerFrame), mirrored)
	ends(first, mirrored)

	good := greetAs(t, n, newNonce())
	_, err = io.ReadFull(good, mirrored)
	require.NoError(t, err)
	proof := mac([]byte(testSecret), macDialer, good.helloFrame, good.answerFrame)
	replay := greetAs(t, n, newNonce())
	_, err = io.ReadFull(replay, mirrored)
	require.NoError(t, err)
	ends(replay, proof)
	_, err = good.Write(proof)
	require.NoError(t, err)
	require.NoError(t, writeFrame(good, []byte(`{"verb":"report"}`)))
	_, err = readFrame(good, controlLimit)
	require.NoError(t, err)
}

// Keys that are of no use are said, and the old ones go on until there are better.
func TestWrongKeysDoNotReplaceGoodOnes(t *testing.T) {
	path := secretFile(t, testSecret)
	var log bytes.Buffer
	s, err := newSecurity(TLSFiles{}, path, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	for i, c := range []struct{ file, used, says string }{
		{"short", testSecret, "at least 16 are needed"},
		{"another long secret", "another long secret", ""},
	} {
		log.Reset()
		require.NoError(t, os.WriteFile(path, []byte(c.file), 0o600))
		require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(time.Duration(i+1)*time.Minute)))
		secret, err := s.sharedSecret()
		require.NoError(t, err)
		require.Equal(t, c.used, string(secret))
		require.Contains(t, log.String(), c.says)
	}
	require.NoError(t, os.Remove(path))
	secret, err := s.sharedSecret()
	require.NoError(t, err)
	require.Equal(t, "another long secret", string(secret))
	require.Contains(t, log.String(), "no such file")
}

// Connections that never say who they are cost little, and not for long.
func TestSlowStrangers(t *testing.T) {
	n := openNode(t, testConfig(t, "n1"))
	ready(t, n)
	conns := make([]net.Conn, greetings)
	for i := range conns {
		conn, err := net.Dial("tcp", n.RaftAddr())
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.Write([]byte{byte(kindControl)})
		require.NoError(t, err)
		conns[i] = conn
	}
	eventually(t, func() bool { return len(n.network.greeting) == greetings }, "all are waited for")
	late, err := net.Dial("tcp", n.RaftAddr())
	require.NoError(t, err)
	defer late.Close()
	_, err = late.Read(make([]byte, 1))
	require.Error(t, err, "no more are let in")
	eventually(t, func() bool { return len(n.network.greeting) == 0 }, "they are cut off")
	_, err = n.askAddr(t.Context(), Peer{"n1", n.RaftAddr()}, controlRequest{Verb: verbReport})
	require.NoError(t, err)
	require.ErrorContains(t, func() error { _, err := readGreeting(conns[0], nil, new(answer)); return err }(), "EOF")
}

func TestSecurityIsChecked(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		says   string
	}{
		{func(c *Config) { c.RaftAddr = "0.0.0.0:0" }, "is not a loopback address"},
		{func(c *Config) { c.RaftAddr, c.Insecure = "0.0.0.0:0", true }, "RaftAdvertise: must be given"},
		{func(c *Config) { c.RaftSecretFile = secretFile(t, "short") }, "at least 16 are needed"},
		{func(c *Config) { c.RaftSecretFile = filepath.Join(t.TempDir(), "none") }, "no such file"},
		{func(c *Config) { c.RaftTLS.CAFile = "x" }, "go together"},
		{func(c *Config) { c.RaftTLS = TLSFiles{"x", "x", "x"} }, "no such file"},
	} {
		config := testConfig(t, "n1")
		c.change(&config)
		_, err := Open(config)
		require.ErrorContains(t, err, c.says)
	}
}
