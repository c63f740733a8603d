// Package loopback gives addresses to the nodes of clusters that run on one machine.
package loopback

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports from below those that systems give to outgoing connections and to listeners that
// ask for any: while a node is down, one of these could take its port, or even connect to
// itself.
const firstPort, lastPort = 11000, 30000

// claims are UDP sockets, one at each port that this process gave out. Nobody speaks UDP
// here: binding one is how processes that run side by side, such as the tests of several
// packages, agree on whose a TCP port is, also between its owner's stop and its restart.
var claims struct {
	sync.Mutex
	sockets []net.PacketConn
}

// FreeAddr is a loopback address, host:port, at which nobody listens. No other call gives
// it out, here or in another process, until this process ends.
func FreeAddr() (string, error) {
	const attempts = 100
	var err error
	for range attempts {
		addr := fmt.Sprintf("127.0.0.1:%d", firstPort+rand.N(lastPort-firstPort))
		if err = claim(addr); err == nil {
			return addr, nil
		}
	}
	return "", fmt.Errorf("no free port between %d and %d in %d attempts: %w", firstPort, lastPort, attempts, err)
}

func claim(addr string) error {
	socket, err := net.ListenPacket("udp", addr)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return errors.Join(err, socket.Close())
	}
	claims.Lock()
	claims.sockets = append(claims.sockets, socket) // an unreachable one would be closed
	claims.Unlock()
	return l.Close()
}
