package api

import (
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A body that is announced and never comes must not take its memory.
func TestAnnouncedBodiesTakeNoMemory(t *testing.T) {
	s := single(t, nil)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	const connections = 100
	for range connections {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		_, err = fmt.Fprintf(conn, "POST /v1/get-log-info HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{", 8<<20)
		require.NoError(t, err)
	}
	reading := func() bool {
		buf := make([]byte, 8<<20)
		return strings.Count(string(buf[:runtime.Stack(buf, true)]), ".readBody(") >= connections
	}
	require.Eventually(t, reading, 20*time.Second, 10*time.Millisecond)
	after := heap()
	require.Less(t, after-min(before, after), uint64(connections)*(1<<20))
}
