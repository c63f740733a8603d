package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cpnode/cpnode/raftnode"
)

// Scenario is all that a seed decides: the cluster and what happens to it. What its
// clients do follows from the seed and from what they are answered.
type Scenario struct {
	Seed  uint64
	Nodes int
	// Faults are in the order of their times.
	Faults []Fault

	// TrailingLogs, SnapshotThreshold and PartRows are small, so that states are sent and
	// operations split.
	TrailingLogs, SnapshotThreshold uint64
	PartRows                        int64 // that one log entry may remove
}

// Kind is a kind of fault.
type Kind string

// The kinds of faults.
const (
	Kill          Kind = "kill"             // kill -9
	KillAtLog     Kind = "kill at log"      // at a write to the log or the promises
	KillAtState   Kind = "kill at state"    // at a change to the files of the state
	Power         Kind = "power"            // the machine goes off
	PowerAtLog    Kind = "power at log"     //
	PowerAtState  Kind = "power at state"   //
	Blackout      Kind = "blackout"         // all machines go off
	Stop          Kind = "stop"             // a proper stop, as of an upgrade
	Isolate       Kind = "isolate"          // nothing comes or goes
	Deaf          Kind = "deaf"             // nothing comes
	Dumb          Kind = "dumb"             // nothing goes
	Cut           Kind = "cut"              // between two nodes
	OneWay        Kind = "one way"          // from one node to another
	SlowNet       Kind = "slow network"     //
	BadNet        Kind = "bad network"      // connections break again and again
	Clock         Kind = "clock"            // set to another time, and back
	SlowLog       Kind = "slow log"         //
	FullLog       Kind = "full log"         //
	FullState     Kind = "full state"       //
	Low           Kind = "low space"        //
	BadLogSync    Kind = "log sync fails"   //
	BadStateSync  Kind = "state sync fails" //
	BadRead       Kind = "log read fails"   //
	LyingSync     Kind = "lying sync"       // of the state, until the power fails
	Transfer      Kind = "transfer"         // of leadership
	Wipe          Kind = "wipe"             // a new disk
	RemoveAndJoin Kind = "remove and join"  // out of the cluster, and in again
)

// Leader stands for the node that leads when the fault comes.
const Leader = -1

// Fault is one thing that happens.
type Fault struct {
	Kind Kind
	At   time.Duration // since the cluster was whole
	For  time.Duration // how long it lasts, or the node is down
	Node int           // or Leader
	To   int           // the other node, where there are two
	Arg  int64         // which write, or by how many milliseconds
}

func (f Fault) String() string {
	node := "the leader"
	if f.Node != Leader {
		node = string(rune('a' + f.Node))
	}
	text := fmt.Sprintf("%8.3fs  %-16s %-10s for %6.3fs", f.At.Seconds(), f.Kind, node, f.For.Seconds())
	switch f.Kind {
	case Cut, OneWay:
		text += fmt.Sprintf(", to %c", 'a'+f.To)
	case KillAtLog, KillAtState, PowerAtLog, PowerAtState:
		text += fmt.Sprintf(", at write %d", f.Arg)
	case SlowNet, SlowLog, Clock:
		text += fmt.Sprintf(", by %d ms", f.Arg)
	}
	return text
}

// weights say how often each kind comes.
var weights = []struct {
	kind   Kind
	weight int
}{
	{Kill, 8}, {KillAtLog, 8}, {KillAtState, 6}, {Power, 6}, {PowerAtLog, 6}, {PowerAtState, 8}, {Blackout, 2}, {Stop, 4},
	{Isolate, 6}, {Deaf, 4}, {Dumb, 4}, {Cut, 5}, {OneWay, 5}, {SlowNet, 4}, {BadNet, 4}, {Clock, 5},
	{SlowLog, 4}, {FullLog, 3}, {FullState, 3}, {Low, 3}, {BadLogSync, 3}, {BadStateSync, 3}, {BadRead, 2}, {LyingSync, 3},
	{Transfer, 6}, {Wipe, 4}, {RemoveAndJoin, 3},
}

// Length is how long faults come, in simulated time.
const Length = time.Minute

// maxFaults is how many come at most.
const maxFaults = 24

// Generate is the scenario of a seed.
func Generate(seed uint64) *Scenario {
	r := rand.New(rand.NewPCG(seed, 1))
	s := &Scenario{
		Seed: seed, Nodes: 3, TrailingLogs: 16 << r.IntN(6), SnapshotThreshold: 32 << r.IntN(5), PartRows: 1 << r.IntN(6),
	}
	if r.IntN(3) == 0 {
		s.Nodes = 5
	}
	for range 4 + r.IntN(maxFaults-3) {
		s.Faults = append(s.Faults, s.fault(r))
	}
	slices.SortStableFunc(s.Faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return s
}

func (s *Scenario) fault(r *rand.Rand) Fault {
	f := Fault{Kind: pick(r), At: ms(r.Int64N(Length.Milliseconds())), For: ms(200 + r.Int64N(800)<<r.IntN(4)), Node: r.IntN(s.Nodes)}
	if r.IntN(2) == 0 {
		f.Node = Leader
	}
	f.To = (max(f.Node, 0) + 1 + r.IntN(s.Nodes-1)) % s.Nodes
	switch f.Kind {
	case KillAtLog, PowerAtLog:
		f.Arg = 1 + r.Int64N(80)
	case KillAtState, PowerAtState:
		f.Arg = 1 + r.Int64N(400)
	case SlowNet:
		f.Arg = 20 << r.IntN(6)
	case SlowLog:
		f.Arg = 50 << r.IntN(8)
	case Clock:
		if f.Arg = r.Int64N(12_000) - 6_000; r.IntN(2) == 0 {
			f.Arg *= 600
		}
	}
	return f
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func pick(r *rand.Rand) Kind {
	sum := 0
	for _, w := range weights {
		sum += w.weight
	}
	at := r.IntN(sum)
	for _, w := range weights {
		if at -= w.weight; at < 0 {
			return w.kind
		}
	}
	panic("the weights do not add up")
}

// Only is the scenario with these of its faults, by their place.
func (s *Scenario) Only(keep []int) *Scenario {
	fewer := *s
	fewer.Faults = nil
	for _, i := range keep {
		fewer.Faults = append(fewer.Faults, s.Faults[i])
	}
	return &fewer
}

// apply sets what the scenario says of a node.
func (s *Scenario) apply(c *raftnode.Config) {
	c.TrailingLogs, c.SnapshotThreshold, c.SnapshotInterval = s.TrailingLogs, s.SnapshotThreshold, 2*time.Second
	t := &c.Settings
	// A delete of records that is split is not one effect, as the checker takes it for.
	t.DeleteRecordsRows = 100_000
	for _, rows := range []*int64{&t.PurgeRows, &t.PruneRows, &t.RetentionRows, &t.ExpireRows, &t.ItemRows} {
		*rows = s.PartRows
	}
}
