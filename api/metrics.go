package api

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cpnode/cpnode/ops"
)

// durationBuckets run from a stale read in memory (100 us) over a commit (one to
// tens of ms) to the longest wait for an outcome (10 s), in steps of about 2.2.
var durationBuckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

const (
	outcomeOK = "OK"
	// unknownName stands for operations that do not exist, whatever was asked for.
	unknownName = "unknown"
)

// metrics count calls where they come in: over HTTP or in process. What a node
// answers for another is counted by the other one.
type metrics struct {
	requests     *prometheus.CounterVec
	durations    *prometheus.HistogramVec
	successes    *prometheus.GaugeVec
	inFlight     prometheus.Gauge
	sent, served prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cpnode_requests_total",
			Help: "Requests by operation and outcome: OK, or the code of the error object."}, []string{"operation", "outcome"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "cpnode_request_duration_seconds",
			Help: "Time from a request to its answer, by operation.", Buckets: durationBuckets}, []string{"operation"}),
		successes: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "cpnode_request_last_success_timestamp_seconds",
			Help: "When a request was last answered with OK by this node, by operation, in Unix time; 0: never."}, []string{"operation"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "cpnode_requests_in_flight",
			Help: "Requests that are being answered."}),
		sent: prometheus.NewCounter(prometheus.CounterOpts{Name: "cpnode_requests_forwarded_total",
			Help: "Requests that this node handed on to the leader."}),
		served: prometheus.NewCounter(prometheus.CounterOpts{Name: "cpnode_requests_forwarded_served_total",
			Help: "Requests that other nodes handed on to this one."}),
	}
	if r != nil {
		r.MustRegister(m.requests, m.durations, m.successes, m.inFlight, m.sent, m.served)
	}
	return m
}

// requestMetrics are those of one operation, found once.
type requestMetrics struct {
	ok       prometheus.Counter
	refused  *prometheus.CounterVec // by outcome
	duration prometheus.Observer
	success  prometheus.Gauge // when the last one was
}

func (m *metrics) of(operation string) requestMetrics {
	refused := m.requests.MustCurryWith(prometheus.Labels{"operation": operation})
	return requestMetrics{
		ok: refused.WithLabelValues(outcomeOK), refused: refused,
		duration: m.durations.WithLabelValues(operation), success: m.successes.WithLabelValues(operation),
	}
}

// done counts one request; code is empty when it was carried out. A leader of a
// later release may have codes that are not known here.
func (m *requestMetrics) done(started time.Time, code ops.Code) {
	now := time.Now()
	m.duration.Observe(now.Sub(started).Seconds())
	if code == "" {
		m.ok.Inc()
		m.success.Set(float64(now.UnixMilli()) / 1000)
		return
	}
	if _, known := errorTable[code]; !known {
		code = unknownName
	}
	m.refused.WithLabelValues(string(code)).Inc()
}

// codeOf is the code of an error, empty for none.
func codeOf(err error) ops.Code {
	if err == nil {
		return ""
	}
	var e *ops.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ops.ShuttingDown // a context that ended before anything was done
}
