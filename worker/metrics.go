package worker

import "github.com/prometheus/client_golang/prometheus"

// Metrics makes and registers the metrics of one worker, named cpnode_<prefix>_<name>.
type Metrics struct {
	Prefix string
	// Labels tell workers apart that share a prefix.
	Labels prometheus.Labels
	// Registerer takes what is made; nil: nothing does.
	Registerer prometheus.Registerer
}

// Counter makes a counter.
func (m Metrics) Counter(name, help string) prometheus.Counter {
	return register(m, prometheus.NewCounter(prometheus.CounterOpts{Name: m.name(name), Help: help, ConstLabels: m.Labels}))
}

// Gauge makes a gauge.
func (m Metrics) Gauge(name, help string) prometheus.Gauge {
	return register(m, prometheus.NewGauge(prometheus.GaugeOpts{Name: m.name(name), Help: help, ConstLabels: m.Labels}))
}

// GaugeFunc makes a gauge that is read when it is collected.
func (m Metrics) GaugeFunc(name, help string, read func() float64) {
	register(m, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: m.name(name), Help: help, ConstLabels: m.Labels}, read))
}

func (m Metrics) histogram(name, help string, buckets []float64) prometheus.Histogram {
	return register(m, prometheus.NewHistogram(prometheus.HistogramOpts{Name: m.name(name), Help: help, Buckets: buckets, ConstLabels: m.Labels}))
}

func (m Metrics) name(suffix string) string { return "cpnode_" + m.Prefix + "_" + suffix }

func register[C prometheus.Collector](m Metrics, c C) C {
	if m.Registerer != nil {
		m.Registerer.MustRegister(c)
	}
	return c
}

// cycleSeconds run from a cycle that finds nothing (a read) to one that lasts its
// interval.
var cycleSeconds = prometheus.ExponentialBuckets(0.001, 3, 11)

// cycleMetrics are those that every worker has.
type cycleMetrics struct {
	cycles, errors, unavailable prometheus.Counter
	duration                    prometheus.Histogram
	backoff, lastSuccess        prometheus.Gauge
}

func newCycleMetrics(m Metrics) *cycleMetrics {
	return &cycleMetrics{
		cycles:      m.Counter("cycles_total", "Cycles begun."),
		errors:      m.Counter("errors_total", "Cycles that failed; not those that found the control plane unavailable."),
		unavailable: m.Counter("unavailable_total", "Cycles that found the control plane unavailable."),
		duration:    m.histogram("cycle_duration_seconds", "Time of a cycle that succeeded.", cycleSeconds),
		backoff:     m.Gauge("backoff_seconds", "Pause before the next cycle because the last one failed; 0 while cycles succeed."),
		lastSuccess: m.Gauge("last_success_timestamp_seconds", "When the last cycle succeeded on this node, in Unix time; 0: never."),
	}
}
