package network

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ends is a connection from node a to node b through a proxy.
type ends struct{ near, far net.Conn }

func connect(t *testing.T, l *Links) ends {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	addr, err := l.Between("a", "b", listener.Addr().String())
	require.NoError(t, err)
	near, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { near.Close() })
	far, err := listener.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { far.Close() })
	return ends{near, far}
}

func say(t *testing.T, c net.Conn, line string) {
	_, err := io.WriteString(c, line+"\n")
	require.NoError(t, err)
}

func hear(t *testing.T, c net.Conn) string {
	require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	line, err := bufio.NewReaderSize(c, 16).ReadString('\n')
	require.NoError(t, err)
	return line[:len(line)-1]
}

// silent says that nothing comes for a moment, in which everything would come that is
// not held up.
func silent(t *testing.T, c net.Conn) {
	require.NoError(t, c.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	_, err := c.Read(make([]byte, 1))
	var late net.Error
	require.ErrorAs(t, err, &late)
	require.True(t, late.Timeout())
}

// One direction is cut, the other is not, whoever made the connection; what was held up
// arrives when the cut is healed.
func TestCutOneDirection(t *testing.T) {
	for name, test := range map[string]struct {
		from, to  string
		cut, open func(ends) (from, to net.Conn)
	}{
		"as it was made":     {"a", "b", func(e ends) (net.Conn, net.Conn) { return e.near, e.far }, func(e ends) (net.Conn, net.Conn) { return e.far, e.near }},
		"against its making": {"b", "a", func(e ends) (net.Conn, net.Conn) { return e.far, e.near }, func(e ends) (net.Conn, net.Conn) { return e.near, e.far }},
	} {
		t.Run(name, func(t *testing.T) {
			l := New()
			t.Cleanup(l.Close)
			e := connect(t, l)
			say(t, e.near, "hello")
			require.Equal(t, "hello", hear(t, e.far))

			l.Cut(test.from, test.to)
			from, to := test.cut(e)
			say(t, from, "held up")
			silent(t, to)
			from, to = test.open(e)
			say(t, from, "passes")
			require.Equal(t, "passes", hear(t, to))

			l.Heal()
			_, to = test.cut(e)
			require.Equal(t, "held up", hear(t, to))
		})
	}
}

// The end of a connection is held up like its bytes.
func TestCutHoldsUpTheEnd(t *testing.T) {
	l := New()
	t.Cleanup(l.Close)
	e := connect(t, l)
	l.Cut("a", "b")
	require.NoError(t, e.near.Close())
	silent(t, e.far)
	l.Heal()
	require.NoError(t, e.far.SetReadDeadline(time.Now().Add(time.Minute)))
	_, err := e.far.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

// A link that is slow is not slower than that for ever.
func TestSlow(t *testing.T) {
	l := New()
	t.Cleanup(l.Close)
	e := connect(t, l)
	l.Slow("a", "b", time.Hour)
	say(t, e.near, "late")
	silent(t, e.far)
	l.Slow("b", "a", time.Millisecond)
	say(t, e.far, "soon")
	require.Equal(t, "soon", hear(t, e.near))
}

func TestTargetIsDown(t *testing.T) {
	l := New()
	t.Cleanup(l.Close)
	addr, err := l.Between("a", "b", "127.0.0.1:1")
	require.NoError(t, err)
	same, err := l.Between("a", "b", "127.0.0.1:1")
	require.NoError(t, err)
	require.Equal(t, addr, same)
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	_, err = c.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}
