package switchover

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cpnode/cpnode/ops"
)

// RegisterMetrics registers the metrics of a gate that was made without.
func (g *Gate) RegisterMetrics(r prometheus.Registerer) { g.register(r) }

// BeforeRead sets what runs in a read, under the lock of the log.
func (g *Gate) BeforeRead(fn func()) { g.hooks.reading = fn }

// WhenParked sets what runs when a read begins to wait, without any lock.
func (g *Gate) WhenParked(fn func()) { g.hooks.parked = fn }

// WhenWoken sets what runs when a parked read goes on, without any lock.
func (g *Gate) WhenWoken(fn func()) { g.hooks.woken = fn }

// BeforeDeletion sets what runs in a deletion, before it takes a lock.
func (g *Gate) BeforeDeletion(fn func()) { g.hooks.deleting = fn }

// BeforePromotion sets what runs in a step of a move, before it takes a lock.
func (g *Gate) BeforePromotion(fn func()) { g.hooks.promoting = fn }

// DeletePass is one turn of the goroutine that deletes; retry says whether the interval is over.
func (g *Gate) DeletePass(retry bool) {
	if retry {
		g.deletions.wake()
	}
	g.deletePass()
}

// RevisitPass is one turn of the goroutine that takes roles anew.
func (g *Gate) RevisitPass() { g.revisitPass() }

// CommitPass is one turn of the goroutine that commits.
func (g *Gate) CommitPass() { g.commitPass() }

// Locked says whether somebody holds the log of a partition alone, or waits to.
func (g *Gate) Locked(ref ops.LogRef) bool {
	p, err := g.find(ref)
	if err != nil || !p.mu.TryRLock() {
		return err == nil
	}
	p.mu.RUnlock()
	return false
}
