//go:build faults

package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/cpnode/cpnode/raftnode"
)

// What a fault harness may change in a build with the tag faults. They are taken out
// of the environment, of which the configuration lets nothing stand that it does not know.
var (
	// faultClockOffset is what the node's clock, which stamps entries, is ahead of the
	// machine's, in milliseconds.
	faultClockOffset = takeEnv("CPNODE_FAULT_CLOCK_OFFSET_MS")
	// faultDialFile names a file of lines "address other", read at each connection to
	// another node: it is made to other in place of address.
	faultDialFile = takeEnv("CPNODE_FAULT_DIAL_FILE")
)

func takeEnv(name string) string {
	text := os.Getenv(name)
	_ = os.Unsetenv(name) // it fails for names that are none
	return text
}

// injectFaults has the node believe its environment about the clock and the network.
func injectFaults(c *raftnode.Config) error {
	if faultClockOffset != "" {
		ms, err := strconv.ParseInt(faultClockOffset, 10, 64)
		if err != nil {
			return fmt.Errorf("clock offset: %w", err)
		}
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ms) * time.Millisecond) }
	}
	if faultDialFile != "" {
		c.Surroundings.Dial = dialElsewhere
	}
	return nil
}

func dialElsewhere(ctx context.Context, addr string) (net.Conn, error) {
	other, err := elsewhere(addr)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", other)
}

// elsewhere is what the file says of the address; the address itself when it says
// nothing.
func elsewhere(addr string) (string, error) {
	file, err := os.Open(faultDialFile)
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // it was only read
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if from, to, ok := strings.Cut(lines.Text(), " "); ok && from == addr {
			return to, nil
		}
	}
	return addr, lines.Err()
}
