package api

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/raftnode"
)

// Option changes how one call is carried out.
type Option func(*callOptions)

type callOptions struct {
	read raftnode.ReadOptions
	info *Info
}

// Info is what is known about an answer besides its content.
type Info struct {
	// Leader is the id of the node that the answering one takes for the leader.
	Leader string
	// Index is that of a write's last log entry, 0 for a read and for a write that
	// had nothing to change. [MinIndex] makes stale reads wait for it.
	Index uint64
	// AppliedIndex is that of the state that a read saw.
	AppliedIndex uint64
	// Staleness is how old that state was at most, raftnode.Unknown when the node
	// had not heard from a leader. 0 for a linearizable read.
	Staleness time.Duration
}

// Stale answers a read from the state of the node that is asked, without asking
// the others.
func Stale() Option { return func(o *callOptions) { o.read.Level = raftnode.Stale } }

// MinIndex makes a stale read wait until the state holds the entry at that index:
// the Info.Index of a write lets a read on any node see it.
func MinIndex(index uint64) Option { return func(o *callOptions) { o.read.MinIndex = index } }

// MaxStaleness makes a stale read wait until the state is no older. Whole
// milliseconds, rounded up; 0 is no bound.
func MaxStaleness(age time.Duration) Option {
	return func(o *callOptions) { o.read.MaxStaleness = age }
}

// Observe fills in info once the call has been answered.
func Observe(info *Info) Option { return func(o *callOptions) { o.info = info } }

func optionsOf(v *verb, opts []Option) (callOptions, error) {
	var o callOptions
	for _, set := range opts {
		set(&o)
	}
	bounded := o.read.MinIndex != 0 || o.read.MaxStaleness != 0
	switch {
	case v.write && o.read != raftnode.ReadOptions{}:
		return o, ops.Errorf(ops.InvalidRequest, "%s: is a write, which takes no read options", v.name)
	case o.read.MaxStaleness < 0:
		return o, ops.Errorf(ops.InvalidRequest, "max_staleness_ms: must be >= 0")
	case bounded && o.read.Level != raftnode.Stale:
		return o, ops.Errorf(ops.InvalidRequest, "min_index, max_staleness_ms: are for stale reads")
	}
	return o, nil
}

// The query parameters of reads, and the values of the first.
const (
	paramConsistency  = "consistency"
	paramMinIndex     = "min_index"
	paramMaxStaleness = "max_staleness_ms"

	linearizable = "linearizable"
	stale        = "stale"
)

// maxStalenessMs is about a century, far from where a duration overflows.
const maxStalenessMs = 1 << 42

// parseQuery reads the options of a read from a request's query. A write has none.
func parseQuery(query string, write bool) (o raftnode.ReadOptions, err error) {
	if query == "" {
		return o, nil
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return o, ops.Errorf(ops.InvalidRequest, "query: %v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if len(values[name]) > 1 {
			return o, ops.Errorf(ops.InvalidRequest, "%s: is given twice", name)
		}
		if write {
			return o, ops.Errorf(ops.InvalidRequest, "%q: a write takes no query parameters", name)
		}
		if err := setParam(&o, name, values[name][0]); err != nil {
			return o, err
		}
	}
	return o, onlyStale(o, values)
}

func setParam(o *raftnode.ReadOptions, name, value string) error {
	switch name {
	case paramConsistency:
		switch value {
		case linearizable:
			o.Level = raftnode.Linearizable
		case stale:
			o.Level = raftnode.Stale
		default:
			return ops.Errorf(ops.InvalidRequest, "%s: must be %s or %s", name, linearizable, stale)
		}
	case paramMinIndex:
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return ops.Errorf(ops.InvalidRequest, "%s: must be an integer >= 0", name)
		}
		o.MinIndex = n
	case paramMaxStaleness:
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil || n == 0 || n > maxStalenessMs {
			return ops.Errorf(ops.InvalidRequest, "%s: must be an integer from 1 to %d", name, int64(maxStalenessMs))
		}
		o.MaxStaleness = time.Duration(n) * time.Millisecond
	default:
		return ops.Errorf(ops.InvalidRequest, "%q: unknown query parameter", name)
	}
	return nil
}

func onlyStale(o raftnode.ReadOptions, values url.Values) error {
	for _, name := range []string{paramMaxStaleness, paramMinIndex} {
		if values.Has(name) && o.Level != raftnode.Stale {
			return ops.Errorf(ops.InvalidRequest, "%s: is for %s=%s", name, paramConsistency, stale)
		}
	}
	return nil
}

// queryOf is what parseQuery reads.
func queryOf(o raftnode.ReadOptions) string {
	if o.Level != raftnode.Stale {
		return ""
	}
	q := url.Values{paramConsistency: {stale}}
	if o.MinIndex > 0 {
		q.Set(paramMinIndex, strconv.FormatUint(o.MinIndex, 10))
	}
	if o.MaxStaleness > 0 {
		q.Set(paramMaxStaleness, strconv.FormatInt(millis(o.MaxStaleness), 10))
	}
	return q.Encode()
}
