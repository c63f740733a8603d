package purger

import (
	"sync/atomic"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cpnode/cpnode/worker"
)

const (
	// A cycle that its cap ended is followed by the next after a part of the interval.
	saturatedShare = 10
	saturatedLeast = time.Second
)

// pace is the time until the cycle after one that succeeded.
func pace(interval time.Duration, saturated bool) time.Duration {
	if saturated {
		return min(interval, max(interval/saturatedShare, saturatedLeast))
	}
	return interval
}

// backlog is what the last cycle left to do, as the metrics show it.
type backlog struct {
	saturated prometheus.Counter
	remains   prometheus.Gauge
	oldestMs  atomic.Int64 // since when the oldest of it waits, or none
}

// none says that nothing is known to wait.
const none = -1

func newBacklog(m worker.Metrics, clock clockwork.Clock) *backlog {
	b := &backlog{
		saturated: m.Counter("saturated_cycles_total", "Cycles that their cap ended, with more to do."),
		remains:   m.Gauge("work_remains", "1 while the last cycle left work for the next one, else 0."),
	}
	m.GaugeFunc("oldest_waiting_age_seconds", "How long the oldest work that the last cycle left has waited since it was marked; 0: none.",
		func() float64 { return b.age(clock.Now()) })
	b.forget()
	return b
}

// left says whether a cycle left work, and since when the oldest of it waits (none: not
// known).
func (b *backlog) left(work bool, sinceMs int64) {
	value := 0.0
	if work {
		value = 1
	}
	b.remains.Set(value)
	b.oldestMs.Store(sinceMs)
}

// forget is for the end of leadership: from then on it is for another node to say.
func (b *backlog) forget() { b.left(false, none) }

// age is in seconds.
func (b *backlog) age(now time.Time) float64 {
	since := b.oldestMs.Load()
	if since == none {
		return 0
	}
	return max(0, float64(now.UnixMilli()-since)/1000)
}
