package pruner

import "github.com/prometheus/client_golang/prometheus"

// cycleSeconds run from a cycle that finds nothing to one that lasts its interval.
var cycleSeconds = prometheus.ExponentialBuckets(0.001, 3, 11)

// cycleMetrics are those that every worker has.
type cycleMetrics struct {
	cycles, errors, unavailable prometheus.Counter
	duration                    prometheus.Histogram
	backoff, lastSuccess        prometheus.Gauge
}

// family makes the metrics of one worker. DESIGN.md has the table of what they are
// called in Inkless.
type family struct {
	prefix     string
	labels     prometheus.Labels
	registerer prometheus.Registerer
}

func (f family) cycles() *cycleMetrics {
	return &cycleMetrics{
		cycles:      f.counter("cycles_total", "Cycles begun."),
		errors:      f.counter("errors_total", "Cycles that failed; not those that found the control plane unavailable."),
		unavailable: f.counter("unavailable_total", "Cycles that found the control plane unavailable."),
		backoff:     f.gauge("backoff_seconds", "Wait after the last cycle because it failed; 0 when it did not."),
		lastSuccess: f.gauge("last_success_timestamp_seconds", "When the last cycle ended that succeeded; 0 when none did."),
		duration: register(f, prometheus.NewHistogram(prometheus.HistogramOpts{Name: f.name("cycle_duration_seconds"),
			Help: "Time of a cycle that succeeded.", Buckets: cycleSeconds, ConstLabels: f.labels})),
	}
}

func (f family) name(suffix string) string { return "cpnode_" + f.prefix + "_" + suffix }

func (f family) counter(name, help string) prometheus.Counter {
	return register(f, prometheus.NewCounter(prometheus.CounterOpts{Name: f.name(name), Help: help, ConstLabels: f.labels}))
}

func (f family) gauge(name, help string) prometheus.Gauge {
	return register(f, prometheus.NewGauge(prometheus.GaugeOpts{Name: f.name(name), Help: help, ConstLabels: f.labels}))
}

func (f family) gaugeFunc(name, help string, read func() float64) {
	register(f, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: f.name(name), Help: help, ConstLabels: f.labels}, read))
}

func register[C prometheus.Collector](f family, c C) C {
	if f.registerer != nil {
		f.registerer.MustRegister(c)
	}
	return c
}
