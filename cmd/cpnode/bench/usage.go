package bench

import (
	"fmt"
	"runtime/metrics"
	"time"

	"golang.org/x/sys/unix"
)

// usage is what the whole process, clients included, has used. Unlike a rate it
// hardly depends on what else the machine does.
type usage struct {
	cpu         time.Duration
	allocations uint64 // of memory
}

const allocationsMetric = "/gc/heap/allocs:objects"

// used is what was used so far; the time is 0 where the system does not tell.
func used() usage {
	var r unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &r)
	allocations := []metrics.Sample{{Name: allocationsMetric}}
	metrics.Read(allocations)
	return usage{time.Duration(r.Utime.Nano() + r.Stime.Nano()), allocations[0].Value.Uint64()}
}

func (u usage) plus(v usage) usage { return usage{u.cpu + v.cpu, u.allocations + v.allocations} }

func (u usage) minus(v usage) usage { return usage{u.cpu - v.cpu, u.allocations - v.allocations} }

// usagePer says what one call of each used.
func usagePer(ours, floor sample) string {
	n, m := max(1, len(ours.latencies)), max(1, len(floor.latencies))
	mine, bound := ours.used.cpu/time.Duration(n), floor.used.cpu/time.Duration(m)
	return fmt.Sprintf("processor time a call %s, floor %s (%.2fx); allocations %d, floor %d", latency(microseconds(mine)), latency(microseconds(bound)),
		mine.Seconds()/max(bound.Seconds(), 1e-9), ours.used.allocations/uint64(n), floor.used.allocations/uint64(m))
}
