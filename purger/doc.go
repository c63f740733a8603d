// Package purger holds what takes away the remains of deleted data, and runs on the
// leader: the [TopicPurger] removes what soft-deleted logs hold, the [FileCleaner]
// deletes the objects of files that no batch refers to any more. [FindOrphans] compares
// the object store with the control plane, on request.
//
// Every step is an idempotent entry or a deletion that may be repeated, so two nodes
// that both take themselves for the leader do no harm. A worker keeps nothing from one
// cycle to the next but when to begin it.
package purger

import (
	"log/slog"
	"math/rand/v2"

	"github.com/jonboulle/clockwork"
	"github.com/prometheus/client_golang/prometheus"
)

// Deps are what surrounds a worker. The zero value will do.
type Deps struct {
	// Clock is what a worker reads and waits by; nil is the real one.
	Clock clockwork.Clock
	// Rand is the source of jitter, in [0, 1); nil is a random one.
	Rand func() float64
	// Logger takes a line for each cycle that did something, and for each change
	// between working and failing; nil drops them.
	Logger *slog.Logger
	// Registerer takes the metrics; nil keeps none.
	Registerer prometheus.Registerer
}

func (d Deps) withDefaults() Deps {
	if d.Clock == nil {
		d.Clock = clockwork.NewRealClock()
	}
	if d.Rand == nil {
		d.Rand = rand.Float64
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Registerer == nil {
		d.Registerer = prometheus.NewRegistry()
	}
	return d
}
