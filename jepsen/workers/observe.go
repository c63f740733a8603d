package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/jepsen/cluster"
	"github.com/cpnode/cpnode/ops"
)

// metrics are those of one node that have no labels, by name.
type metrics map[string]float64

// scrape is nil while the node does not answer.
func scrape(ctx context.Context, n *cluster.Node) metrics {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, n.URL()+"/metrics", nil)
	if err != nil {
		return nil
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	m := metrics{}
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		name, text, _ := strings.Cut(lines.Text(), " ")
		var value float64
		if _, err := fmt.Sscan(text, &value); err == nil {
			m[name] = value
		}
	}
	return m
}

// sample is what was seen at one time: metrics of the leader, and what is there.
type sample struct {
	at              time.Duration
	leader          string
	metrics         metrics
	marked, objects int
	stateBytes      int64
}

// observer watches a run from beside it.
type observer struct {
	h      *harness
	client *api.Client // for stale reads, which do not wait for a leader
	began  time.Time
	stop   context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	samples  []sample
	marks    map[string]int64 // when files were marked, Unix ms
	before   map[string]bool  // objects of the listing before
	judged   int              // objects whose deletion was seen, and their mark before
	tooEarly []string
	failed   error
}

// observeEvery is the pause between two looks, which costs the nodes little.
const observeEvery = 100 * time.Millisecond

func (h *harness) observe(ctx context.Context) (*observer, error) {
	config := api.DefaultClientConfig(h.endpoints()...)
	config.AttemptTimeout, config.RetryFor = time.Second, time.Second // the first node that is asked may be down
	client, err := api.NewClient(config)
	if err != nil {
		return nil, err
	}
	o := &observer{h: h, client: client, began: time.Now(), done: make(chan struct{}), marks: map[string]int64{}}
	ctx, o.stop = context.WithCancel(ctx)
	go func() {
		defer close(o.done)
		for ctx.Err() == nil {
			o.look(ctx)
			select {
			case <-time.After(observeEvery):
			case <-ctx.Done():
			}
		}
	}()
	return o, nil
}

// close ends it after the look under way.
func (o *observer) close() {
	o.stop()
	<-o.done
	o.client.Close()
}

// look takes one sample. The store is listed before the marks are read: an object that
// is not listed went before, so its mark must be older than the grace by then.
func (o *observer) look(ctx context.Context) {
	there, err := o.h.load.objects.keys(ctx)
	listedAt := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil {
			o.failed = err
		}
		return
	}
	o.judge(there, listedAt)
	marked := o.readMarks(ctx)
	s := sample{at: listedAt.Sub(o.began), objects: len(there), marked: marked}
	for _, n := range o.h.cluster.Nodes {
		s.stateBytes = max(s.stateBytes, stateBytes(n))
		if m := scrape(ctx, n); m["cpnode_raft_leader"] == 1 {
			s.leader, s.metrics = n.ID, m
		}
	}
	o.samples = append(o.samples, s)
}

func (o *observer) judge(there map[string]bool, listedAt time.Time) {
	for key := range o.before {
		mark, known := o.marks[key]
		if there[key] || !known {
			continue
		}
		o.judged++
		if listedAt.UnixMilli()-mark < o.h.grace.Milliseconds() {
			o.tooEarly = append(o.tooEarly, key)
		}
	}
	o.before = there
}

// readMarks is how many files wait to be cleaned, as some node has it; 0 when none
// answers.
func (o *observer) readMarks(ctx context.Context) (marked int) {
	for after := ""; ; {
		page, err := o.client.ListFiles(ctx, &ops.ListFilesRequest{After: after, Limit: 10_000, State: "deleting"}, api.Stale())
		if err != nil {
			return marked // it is asked again
		}
		for _, f := range page.Files {
			o.marks[f.ObjectKey] = f.MarkedForDeletionAt
		}
		marked += len(page.Files)
		if after = page.Next; after == "" {
			return marked
		}
	}
}

// goneIsListed says whether a log is left of the deleted topic, as a node has it that is
// up: at once, also while nobody leads.
func (o *observer) goneIsListed(ctx context.Context) (listed bool, err error) {
	return listed, o.h.await(ctx, "a node that answers", func(ctx context.Context) (bool, error) {
		listed, err = goneIsListed(ctx, o.client, api.Stale())
		return err == nil, nil //nolint:nilerr // it is asked again
	})
}

// largest is the largest state file that was seen.
func (o *observer) largest() (bytes int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.samples {
		bytes = max(bytes, s.stateBytes)
	}
	return bytes
}

func stateBytes(n *cluster.Node) int64 {
	info, err := os.Stat(filepath.Join(n.Dir, "state.db"))
	if err != nil {
		return 0
	}
	return info.Size()
}
