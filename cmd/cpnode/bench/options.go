package bench

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cpnode/cpnode/raftnode"
)

// Options say what to measure and at which size.
type Options struct {
	// Work names what to measure, of [WorkNames].
	Work []string
	// Nodes are the cluster sizes to measure, of 1 and 3.
	Nodes []int
	// Sync is state.sync of the nodes, of [SyncModes]; "both" is interval, with the
	// lines of "always" beside for commit.
	Sync string
	// Duration is the length of each measured point.
	Duration time.Duration
	// Dir is where state is kept while it runs; everything made there is removed.
	// Empty is the system's temporary directory.
	Dir string
	// Scale is the size of the states that are measured.
	Scale Scale
	// Progress, when set, is told what is being done.
	Progress func(string)
}

// syncBoth is interval, and always too where it matters most.
const syncBoth = "both"

// SyncModes are what Options.Sync may be.
func SyncModes() []string {
	return []string{raftnode.StateSyncInterval, raftnode.StateSyncAlways, syncBoth}
}

// stateSync is that of the nodes where nothing else is said.
func (o Options) stateSync() string {
	if o.Sync == syncBoth {
		return raftnode.StateSyncInterval
	}
	return o.Sync
}

// Scale is the size of the states that are measured.
type Scale struct {
	Name string `json:"name"`
	// Batches are stored for find, list-offsets, delete-topic, snapshot, catch-up,
	// restart and size.
	Batches int `json:"batches"`
	// Drained is how many batches purge, prune and retention remove.
	Drained int `json:"drained"`
	// Clients are the numbers of concurrent clients of commit with three nodes.
	Clients []int `json:"clients"`
	// Wide adds what takes long: drains of files shared over 1,000 partitions
	// and every number of clients with one node.
	Wide bool `json:"wide"`
}

// FullScale is the size that the targets speak of.
func FullScale() Scale {
	return Scale{Name: "full", Batches: 1_000_000, Drained: 200_000, Clients: []int{1, 8, 64, 256}, Wide: true}
}

// QuickScale gives the order of magnitude in about a minute.
func QuickScale() Scale {
	return Scale{Name: "quick", Batches: 50_000, Drained: 20_000, Clients: []int{1, 8, 64, 256}}
}

// Lengths of one measured point by default.
const (
	FullDuration  = 8 * time.Second
	QuickDuration = time.Second
)

// DefaultOptions measure everything at full size.
func DefaultOptions() Options {
	return Options{Work: WorkNames(), Nodes: []int{1, 3}, Sync: raftnode.StateSyncInterval, Duration: FullDuration, Scale: FullScale()}
}

// Bounds of Options.
const (
	minDuration = 50 * time.Millisecond
	maxDuration = 10 * time.Minute
)

// Validate names the option that is wrong and what is allowed.
func (o Options) Validate() error {
	if len(o.Work) == 0 {
		return fmt.Errorf("work: names nothing; allowed are %s", strings.Join(WorkNames(), ", "))
	}
	for _, name := range o.Work {
		if !slices.Contains(WorkNames(), name) {
			return fmt.Errorf("work: %q is not known; allowed are %s", name, strings.Join(WorkNames(), ", "))
		}
	}
	if len(o.Nodes) == 0 {
		return fmt.Errorf("nodes: names nothing; allowed are 1 and 3")
	}
	for _, n := range o.Nodes {
		if n != 1 && n != 3 {
			return fmt.Errorf("nodes: %d is not measured; allowed are 1 and 3", n)
		}
	}
	if !slices.Contains(SyncModes(), o.Sync) {
		return fmt.Errorf("sync: %q is not known; allowed are %s", o.Sync, strings.Join(SyncModes(), ", "))
	}
	if o.Duration < minDuration || o.Duration > maxDuration {
		return fmt.Errorf("duration: %s is not between %s and %s", o.Duration, minDuration, maxDuration)
	}
	return nil
}
