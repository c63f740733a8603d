package loopback

import (
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Two packages' tests once got the same port, one while the other's node was down.
func TestAddressIsGivenOutOnce(t *testing.T) {
	const asked = "CPNODE_TEST_CLAIM"
	if addr := os.Getenv(asked); addr != "" {
		require.ErrorIs(t, claim(addr), syscall.EADDRINUSE)
		return
	}
	addr, err := FreeAddr()
	require.NoError(t, err)
	runtime.GC()
	require.ErrorIs(t, claim(addr), syscall.EADDRINUSE)
	other := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$") //nolint:gosec // this program
	other.Env = append(os.Environ(), asked+"="+addr)
	output, err := other.CombinedOutput()
	require.NoError(t, err, "%s", output)

	for range 3 { // the owner comes and goes
		l, err := net.Listen("tcp", addr)
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
}
