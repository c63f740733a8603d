package api

import (
	"context"
	"iter"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/store"
)

// watchName names the watch among the operations, in metrics and in its path.
const watchName = "watch"

// Watch follows the topics, brokers and partition registrations as this node's state has
// them: every change with an index above from, once and in the order of the log. Where
// those are not kept any more it begins with a reset and the present rows; it may do so
// again later, when the state jumps. The sequence ends with an error: ctx's,
// or an *ops.Error of a node that stops. Between two events nothing is kept but a
// position, so a consumer may take its time; one that falls behind the history sees a
// reset.
func (e *Embedded) Watch(ctx context.Context, from uint64) iter.Seq2[ops.WatchEvent, error] {
	return func(yield func(ops.WatchEvent, error) bool) {
		w := e.newWatcher(from)
		defer w.close()
		for {
			events, err := w.next(ctx)
			for _, event := range events {
				if !yield(event, nil) {
					return
				}
			}
			if err == nil {
				err = w.wait(ctx)
			}
			if err != nil {
				yield(ops.WatchEvent{}, err)
				return
			}
		}
	}
}

// watcher is one subscriber. Each read of the state is short and bounded, and over
// before anything is done with what it has read.
type watcher struct {
	embedded *Embedded
	cursor   *ops.WatchCursor
	more     bool   // the state that was read last has more
	behind   uint64 // events that came since the first read and are still to be read
}

func (e *Embedded) newWatcher(from uint64) *watcher {
	e.watches.subscribers.Inc()
	return &watcher{embedded: e, cursor: ops.WatchFrom(from), more: true}
}

func (w *watcher) close() { w.embedded.watches.subscribers.Dec() }

// next reads what is next in the present state, if anything.
func (w *watcher) next(ctx context.Context) (events []ops.WatchEvent, err error) {
	_, err = w.embedded.node.View(ctx, raftnode.ReadOptions{Level: raftnode.Stale}, func(tx *store.ReadTx) error {
		w.behind = w.cursor.Behind(tx)
		events, w.more, err = w.cursor.Read(tx)
		return err
	})
	w.embedded.watches.count(events)
	return events, err
}

// wait returns when next may have something.
func (w *watcher) wait(ctx context.Context) error {
	if w.more {
		return ctx.Err()
	}
	return w.embedded.node.AwaitEvents(ctx, w.cursor.Seq())
}

// watchMetrics count the watches of this node.
type watchMetrics struct {
	subscribers prometheus.Gauge
	events      *prometheus.CounterVec
	closed      prometheus.Counter
	requests    requestMetrics
}

func newWatchMetrics(m *metrics, r prometheus.Registerer) *watchMetrics {
	w := &watchMetrics{
		subscribers: prometheus.NewGauge(prometheus.GaugeOpts{Name: "cpnode_watch_subscribers",
			Help: "Watches that this node serves, over HTTP and in process."}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cpnode_watch_events_total",
			Help: "Events read for watches, by kind: change, reset, rows or reset-end."}, []string{"kind"}),
		closed: prometheus.NewCounter(prometheus.CounterOpts{Name: "cpnode_watch_closed_behind_total",
			Help: "Watches that were closed because their client was too far behind."}),
		requests: m.of(watchName),
	}
	for _, kind := range []string{ops.WatchChange, ops.WatchReset, ops.WatchRows, ops.WatchResetEnd} {
		w.events.WithLabelValues(kind)
	}
	if r != nil {
		r.MustRegister(w.subscribers, w.events, w.closed)
	}
	return w
}

func (m *watchMetrics) count(events []ops.WatchEvent) {
	for i := range events {
		m.events.WithLabelValues(events[i].Kind).Inc()
	}
}
