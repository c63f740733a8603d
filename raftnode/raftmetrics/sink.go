package raftmetrics

import (
	"strings"
	"sync"
	"time"

	metrics "github.com/hashicorp/go-metrics/compat"
	"github.com/prometheus/client_golang/prometheus"
)

// process is the sink of this process, once Register was called.
var process = sync.OnceValues(func() (*sink, error) {
	s := newSink()
	config := &metrics.Config{TimerGranularity: time.Millisecond, FilterDefault: true} // and no host, service or type in names
	_, err := metrics.NewGlobal(config, s)
	return s, err
})

// Register adds raft's metrics to r, from now on. The first call makes this package
// the go-metrics sink of the process; further ones show the same numbers in another
// registry. The error is the registry's: the metrics are there already.
func Register(r prometheus.Registerer) error {
	s, err := process()
	if err != nil {
		return err
	}
	return r.Register(s)
}

// sink is a go-metrics sink and a collector. Its maps do not change: it may be used
// from any goroutine.
type sink struct {
	vectors []prometheus.Collector
	targets map[string]*target // by raft's key
	unknown prometheus.Counter
}

var (
	_ metrics.MetricSink   = (*sink)(nil)
	_ prometheus.Collector = (*sink)(nil)
)

// target takes the measurements of one line. One of its three is set.
type target struct {
	line
	counter   *prometheus.CounterVec
	gauge     *prometheus.GaugeVec
	histogram prometheus.ObserverVec
}

func newSink() *sink {
	s := &sink{targets: map[string]*target{}, unknown: prometheus.NewCounter(prometheus.CounterOpts{
		Name: prefix + "unknown_total", Help: "Measurements that are not in this release's table, and not shown."})}
	s.vectors = append(s.vectors, s.unknown)
	byName := map[string]*target{}
	for _, l := range table {
		t := &target{line: l}
		if first := byName[l.name]; first != nil {
			t.counter, t.gauge, t.histogram = first.counter, first.gauge, first.histogram
		} else {
			s.vectors = append(s.vectors, t.open())
			byName[l.name] = t
		}
		s.targets[l.key] = t
		t.begin()
	}
	return s
}

// open makes the metric of the line.
func (t *target) open() prometheus.Collector {
	name, labels := prefix+t.name, t.labels()
	switch t.kind {
	case counter:
		t.counter = prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: t.help}, labels)
		return t.counter
	case gauge, gaugeMs:
		t.gauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: t.help}, labels)
		return t.gauge
	default:
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: t.help, Buckets: t.buckets()}, labels)
		t.histogram = h
		return h
	}
}

// begin shows the series at 0 where its labels are known.
func (t *target) begin() {
	values := t.values(nil)
	switch {
	case t.more != "":
	case t.counter != nil:
		t.counter.WithLabelValues(values...)
	case t.gauge != nil:
		t.gauge.WithLabelValues(values...)
	default:
		t.histogram.WithLabelValues(values...)
	}
}

// values are those of the line's labels. A server id is name/instance.
func (t *target) values(given []metrics.Label) (values []string) {
	if t.label != "" {
		values = append(values, t.value)
	}
	if t.more == "" {
		return values
	}
	value := "unknown"
	for _, l := range given {
		if l.Name == t.from {
			value, _, _ = strings.Cut(l.Value, "/")
		}
	}
	return append(values, value)
}

// take notes one measurement.
func (s *sink) take(key []string, v float32, labels []metrics.Label) {
	var room [64]byte
	name := room[:0]
	for i, part := range key {
		if i > 0 {
			name = append(name, '.')
		}
		name = append(name, part...)
	}
	t := s.targets[string(name)]
	if t == nil {
		s.unknown.Inc()
		return
	}
	value := float64(v)
	if t.kind == timer || t.kind == gaugeMs {
		value /= 1000
	}
	values := t.values(labels)
	switch {
	case t.counter != nil:
		t.counter.WithLabelValues(values...).Add(value)
	case t.gauge != nil:
		t.gauge.WithLabelValues(values...).Set(value)
	default:
		t.histogram.WithLabelValues(values...).Observe(value)
	}
}

// Describe implements prometheus.Collector.
func (s *sink) Describe(to chan<- *prometheus.Desc) {
	for _, v := range s.vectors {
		v.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (s *sink) Collect(to chan<- prometheus.Metric) {
	for _, v := range s.vectors {
		v.Collect(to)
	}
}

// SetGauge implements metrics.MetricSink, as do those that follow.
func (s *sink) SetGauge(key []string, v float32) { s.take(key, v, nil) }

// SetGaugeWithLabels is SetGauge with labels.
func (s *sink) SetGaugeWithLabels(key []string, v float32, labels []metrics.Label) {
	s.take(key, v, labels)
}

// EmitKey is for what raft never sends.
func (s *sink) EmitKey([]string, float32) { s.unknown.Inc() }

// IncrCounter adds to a counter.
func (s *sink) IncrCounter(key []string, v float32) { s.take(key, v, nil) }

// IncrCounterWithLabels is IncrCounter with labels.
func (s *sink) IncrCounterWithLabels(key []string, v float32, labels []metrics.Label) {
	s.take(key, v, labels)
}

// AddSample takes a sample of a distribution.
func (s *sink) AddSample(key []string, v float32) { s.take(key, v, nil) }

// AddSampleWithLabels is AddSample with labels.
func (s *sink) AddSampleWithLabels(key []string, v float32, labels []metrics.Label) {
	s.take(key, v, labels)
}
