package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cpnode/cpnode/jepsen/network"
)

// What a build with the tag faults takes from its environment; see cmd/cpnode.
const (
	dialFileVar = "CPNODE_FAULT_DIAL_FILE"
	clockVar    = "CPNODE_FAULT_CLOCK_OFFSET_MS"
)

// SkewClock sets the node's clock ahead of the machine's, from its next start on. It is
// for a binary that HasFaults.
func (n *Node) SkewClock(by time.Duration) {
	n.Env[clockVar] = strconv.FormatInt(by.Milliseconds(), 10)
}

// Interpose puts a proxy between any two nodes, also those that are added later. It is
// for nodes that have not run yet, of a binary that HasFaults.
func (c *Cluster) Interpose() error {
	c.Links = network.New()
	return c.wire()
}

// wire tells every node where it reaches the others. A node reads that at each
// connection.
func (c *Cluster) wire() error {
	for _, n := range c.Nodes {
		var lines strings.Builder
		for _, other := range c.Nodes {
			if other == n {
				continue
			}
			proxy, err := c.Links.Between(n.ID, other.ID, other.RaftAddr)
			if err != nil {
				return err
			}
			fmt.Fprintf(&lines, "%s %s\n", other.RaftAddr, proxy)
		}
		path := filepath.Join(c.dir, n.ID+".dial")
		if err := os.WriteFile(path+".new", []byte(lines.String()), 0o600); err != nil {
			return err
		}
		if err := os.Rename(path+".new", path); err != nil { // the node may be reading it
			return err
		}
		n.Env[dialFileVar] = path
	}
	return nil
}
