package purger

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// cycleBuckets run from a cycle that finds nothing (a read, 1 ms) to one that a slow
// object store draws out to minutes, in steps of about 3.
var cycleBuckets = []float64{.001, .003, .01, .03, .1, .3, 1, 3, 10, 30, 100, 300}

// workerMetrics are those that both workers have, under names of their own.
type workerMetrics struct {
	cycles, errors, saturated prometheus.Counter
	durations                 prometheus.Histogram
	workRemains               prometheus.Gauge
	lastSuccess               prometheus.Gauge
	backoff                   prometheus.Gauge
	oldest                    oldest
}

// oldest is since when the oldest piece of known work has waited.
type oldest struct{ ms atomic.Int64 }

// none says that nothing is known to wait.
const none = -1

func newWorkerMetrics(prefix string, deps Deps) *workerMetrics {
	m := &workerMetrics{
		cycles:    counter(deps, prefix+"cycles_total", "Cycles that came to their end, failed ones too."),
		errors:    counter(deps, prefix+"errors_total", "Cycles that failed; the next one goes on where they ended."),
		saturated: counter(deps, prefix+"saturated_cycles_total", "Cycles that their cap ended, with more to do."),
		durations: prometheus.NewHistogram(prometheus.HistogramOpts{Name: prefix + "cycle_duration_seconds",
			Help: "Time that a cycle took.", Buckets: cycleBuckets}),
		workRemains: gauge(deps, prefix+"work_remains", "1 while the last cycle left work for the next one, else 0."),
		lastSuccess: gauge(deps, prefix+"last_success_timestamp_seconds", "When the last cycle succeeded on this node, in Unix time; 0: never."),
		backoff:     gauge(deps, prefix+"backoff_seconds", "Pause before the next cycle after a failed one; 0 while cycles succeed."),
	}
	m.oldest.ms.Store(none)
	deps.Registerer.MustRegister(m.durations, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: prefix + "oldest_waiting_age_seconds",
		Help: "How long the oldest work that the last cycle left has waited since it was marked; 0: none."},
		func() float64 { return m.oldest.age(deps.Clock.Now().UnixMilli()) }))
	return m
}

// reset forgets what is only true on the leader.
func (m *workerMetrics) reset() {
	m.workRemains.Set(0)
	m.backoff.Set(0)
	m.oldest.ms.Store(none)
}

// left says whether a cycle left work, and since when the oldest of it waits (none: not
// known).
func (m *workerMetrics) left(work bool, sinceMs int64) {
	value := 0.0
	if work {
		value = 1
	}
	m.workRemains.Set(value)
	m.oldest.ms.Store(sinceMs)
}

func (o *oldest) age(nowMs int64) float64 {
	since := o.ms.Load()
	if since == none {
		return 0
	}
	return max(0, seconds(nowMs-since))
}

func seconds(ms int64) float64 { return float64(ms) / 1000 }

func counter(deps Deps, name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	deps.Registerer.MustRegister(c)
	return c
}

func gauge(deps Deps, name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	deps.Registerer.MustRegister(g)
	return g
}

// purgeMetrics are the TopicPurger's own.
type purgeMetrics struct{ batches, logs, files prometheus.Counter }

func newPurgeMetrics(deps Deps) purgeMetrics {
	return purgeMetrics{
		batches: counter(deps, "cpnode_topic_purger_batches_total", "Batches deleted."),
		logs:    counter(deps, "cpnode_topic_purger_logs_total", "Soft-deleted logs dropped."),
		files:   counter(deps, "cpnode_topic_purger_files_marked_total", "Files that lost their last batch, to be deleted by the file cleaner."),
	}
}

// cleanMetrics are the FileCleaner's own.
type cleanMetrics struct{ objects, bytes, files, failed prometheus.Counter }

func newCleanMetrics(deps Deps) cleanMetrics {
	return cleanMetrics{
		objects: counter(deps, "cpnode_file_cleaner_objects_deleted_total", "Objects whose deletion the object store confirmed."),
		bytes:   counter(deps, "cpnode_file_cleaner_deleted_bytes_total", "Size of those objects."),
		files:   counter(deps, "cpnode_file_cleaner_files_total", "Files forgotten after their object was gone."),
		failed:  counter(deps, "cpnode_file_cleaner_objects_failed_total", "Objects whose deletion the object store did not confirm; they are tried again."),
	}
}
