package sim

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/internal/crashdisk"
	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/store"
)

// process is one run of a node, from its start to its end. When it crashes, its disk
// and its connections end at that moment; what the code does afterwards, until it has
// come to an end, reaches nobody.
type process struct {
	disk   *disk
	host   *host
	node   *raftnode.Node
	plane  *api.Embedded
	random *rand.Rand // of what a power cut leaves

	ended atomic.Bool
	over  chan struct{} // closed with it

	mu     sync.Mutex
	trips  []trip
	counts [writeKinds]int
	power  bool // it ended by a power cut, which left:
	left   map[string][]byte
	err    error
}

// writeKind is what a trip counts.
type writeKind int

const (
	logWrites    writeKind = iota // writes to the log and the promises
	stateChanges                  // changes to the files of the state
	writeKinds
)

// when is the place of an end by a write.
type when int

const (
	goesOn    when = iota
	endBefore      // the write is not made, or half of it where there is a half
	endAfter       // it is made, and nobody hears of it
)

// trip ends a process at a write.
type trip struct {
	kind  writeKind
	left  int // writes until then
	when  when
	power bool
}

func newProcess(d *disk, h *host, random *rand.Rand) *process {
	return &process{disk: d, host: h, random: random, over: make(chan struct{})}
}

func (p *process) dead() bool { return p.ended.Load() }

// endAt makes the process end at a write to come.
func (p *process) endAt(t trip) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trips = append(p.trips, t)
}

// count counts a write that is about to be made, and says whether the process ends by it.
func (p *process) count(kind writeKind) when {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[kind]++
	for i := range p.trips {
		t := &p.trips[i]
		if t.kind != kind {
			continue
		}
		if t.left--; t.left == 0 {
			p.power = t.power
			return t.when
		}
	}
	return goesOn
}

// tripped ends the process by the trip that count has just found.
func (p *process) tripped() {
	p.mu.Lock()
	power := p.power
	p.mu.Unlock()
	p.crash(power)
}

// saw is raftnode.Surroundings.State.
func (p *process) saw(c store.Change) error {
	if p.dead() {
		return errCrashed
	}
	if c.Op != store.OpOpenDB && p.count(stateChanges) != goesOn {
		p.tripped()
		return errCrashed
	}
	return p.disk.saw(c)
}

// write carries out a write to the state file.
func (p *process) write(fn func()) error {
	p.disk.io.Lock()
	defer p.disk.io.Unlock()
	if p.dead() {
		return errCrashed
	}
	fn()
	return nil
}

// crash ends the process as kill -9 does, or with the power of its machine.
func (p *process) crash(power bool) {
	p.disk.io.Lock()
	if p.ended.Swap(true) {
		p.disk.io.Unlock()
		return
	}
	left, err := p.remains(power)
	p.disk.io.Unlock()
	p.mu.Lock()
	p.power, p.left, p.err = power, left, err
	p.mu.Unlock()
	p.host.network.stop(p.host, power)
	close(p.over)
}

// remains is what the end leaves, as far as it is not in place already.
func (p *process) remains(power bool) (map[string][]byte, error) {
	if power {
		return p.disk.cut(p.random)
	}
	data, err := os.ReadFile(filepath.Join(p.disk.dir, identityFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return map[string][]byte{identityFile: data}, err
}

// identityFile is the one file of a data directory that a node writes by itself: what
// a process did to it after its end is undone.
const identityFile = "node.json"

// bury waits until the code of a process that has crashed has come to an end, and puts
// its disk in the state that it was left in.
func (p *process) bury() error {
	if p.node != nil {
		_ = p.node.Close() // it has lost its disk
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.err != nil:
		return p.err
	case p.power:
		return p.disk.restore(p.left)
	}
	for name, data := range p.left {
		if err := os.WriteFile(filepath.Join(p.disk.dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// watch sees the changes to the state, those within transactions included.
func (p *process) watch() func(store.Change) error { return crashdisk.Watch(p.saw, p.write) }

// forget gives up the ends to come.
func (p *process) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trips = nil
}
