// Package loopback finds addresses for the nodes of clusters that run on one machine.
package loopback

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports from below those that systems give to outgoing connections: while a node is
// down, one of these could take its port, or even connect to itself.
const firstPort, lastPort = 11000, 30000

// FreeAddr is a loopback address, host:port, at which nobody listened a moment ago.
func FreeAddr() (string, error) {
	const attempts = 100
	for range attempts {
		addr := fmt.Sprintf("127.0.0.1:%d", firstPort+rand.N(lastPort-firstPort))
		if l, err := net.Listen("tcp", addr); err == nil {
			return addr, l.Close()
		}
	}
	return "", fmt.Errorf("no free port between %d and %d in %d attempts", firstPort, lastPort, attempts)
}
