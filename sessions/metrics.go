package sessions

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	memory, state, expired prometheus.Counter
}

func newMetrics(s *Sessions, r prometheus.Registerer) *metrics {
	beats := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cpnode_broker_heartbeats_total",
		Help: "Heartbeats of brokers that this node has answered as the leader, from memory or after looking at the state."}, []string{"from"})
	m := &metrics{
		memory: beats.WithLabelValues("memory"), state: beats.WithLabelValues("state"),
		expired: prometheus.NewCounter(prometheus.CounterOpts{Name: "cpnode_broker_sessions_expired_total",
			Help: "Brokers that this node has fenced because they were silent."}),
	}
	sessions := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "cpnode_broker_sessions",
		Help: "Brokers that are not fenced; 0 where this node does not lead."}, func() float64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return float64(len(s.brokers))
	})
	if r != nil {
		r.MustRegister(beats, m.expired, sessions)
	}
	return m
}
