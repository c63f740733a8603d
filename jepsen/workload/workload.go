// Package workload is clients of a cluster that write down all that they do: writers
// that commit files, idempotent and not, and delete records; readers that each ask
// one node, so that there is always a read under way at a node that is paused.
//
// At any time only few partitions are written to and read, and all clients are at
// them: that gives a checker overlapping operations, and short histories.
package workload

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/jepsen/history"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/purger/objectstore"
	"github.com/cpnode/cpnode/store"
)

// Config says what to do.
type Config struct {
	Nodes   []Endpoint // that are asked until Use says otherwise
	Readers int        // clients that read, each from one node while the nodes stay the same
	Seed    uint64
	// Operations is how many are meant to be recorded, within Duration.
	Operations int
	Duration   time.Duration
	// Objects is where clients with topics of their own keep objects, which the nodes
	// delete; nil: there are no such clients.
	Objects objectstore.Store
	// Brokers lets brokers register and switch topics over.
	Brokers bool
}

// Endpoint is a node that answers.
type Endpoint struct {
	ID, URL string
	// Call, when it is set, reaches the node in place of URL: it carries out one call,
	// or does not, and makes of its error what a client would be told.
	Call func(call func(api.ControlPlane) error) error
}

// ReadersPerNode is how many readers keep reads under way at a node all the time.
const ReadersPerNode = 3

const (
	writers = 8 // half of them idempotent
	// operationsPerLog is about how many operations concern one partition.
	operationsPerLog = 500
	// hotLogs is how many partitions are in use at a time.
	hotLogs = 4
	// writeTimeout is short, so that writers leave a paused node to others.
	writeTimeout = time.Second
	// readTimeout is longer than a node is ever paused, so that what it answers
	// when it goes on is heard.
	readTimeout = 6 * time.Second
)

var topic = store.TopicID{0x0e, 6: 0x40, 8: 0x80, 15: 1}

// Workload is the clients of one run.
type Workload struct {
	config   Config
	recorder *history.Recorder

	stop    chan struct{}
	clients sync.WaitGroup
	working sync.RWMutex // read-locked by every operation of a client
	created uint64       // index at which the topic was made

	owners   []*owner
	ensemble *ensemble // of brokers, nil without

	mu    sync.Mutex
	nodes []target   // replaced as a whole
	seen  []position // by partition
}

// target is a node, and the client that asks it once, nil when Call does.
type target struct {
	Endpoint
	client *api.Client
}

func (t target) call(fn func(api.ControlPlane) error) error {
	if t.Call != nil {
		return t.Call(fn)
	}
	return fn(t.client)
}

// position is what has been heard of a partition, to choose what to ask next.
type position struct{ start, end int64 }

// New makes the clients; Create makes what they work on, Start lets them work.
func New(config Config, recorder *history.Recorder) (*Workload, error) {
	w := &Workload{
		config: config, recorder: recorder, stop: make(chan struct{}),
		seen: make([]position, max(hotLogs, config.Operations/operationsPerLog)),
	}
	return w, w.Use(config.Nodes)
}

// Use has the clients ask these nodes from now on. It may be called while they work.
func (w *Workload) Use(nodes []Endpoint) error {
	var targets []target
	for _, n := range nodes {
		if n.Call != nil {
			targets = append(targets, target{Endpoint: n})
			continue
		}
		c := api.DefaultClientConfig(n.URL)
		c.RetryFor = 0 // each attempt is an operation of its own
		client, err := api.NewClient(c)
		if err != nil {
			return err
		}
		targets = append(targets, target{n, client})
	}
	w.mu.Lock()
	before := w.nodes
	w.nodes = targets
	w.mu.Unlock()
	closeAll(before)
	return nil
}

func (w *Workload) targets() []target {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nodes
}

// Create makes the topic, which every read is to know.
func (w *Workload) Create(ctx context.Context) error {
	var info api.Info
	err := w.targets()[0].call(func(p api.ControlPlane) error {
		_, err := p.CreateTopics(ctx, &ops.CreateTopicsRequest{
			Topics: []ops.CreateTopic{{TopicID: topic, TopicName: "history", NumPartitions: int32(len(w.seen))}},
		}, api.Observe(&info))
		return err
	})
	w.created = info.Index
	return err
}

// Start lets the clients work until Stop.
func (w *Workload) Start(ctx context.Context) {
	for i := range writers {
		c := &writer{client: w.client(i), sequences: map[int32]int32{}}
		w.clients.Go(func() { c.run(ctx) })
	}
	for i := range w.config.Readers {
		c := &reader{client: w.client(writers + i), number: i}
		w.clients.Go(func() { c.run(ctx) })
	}
	if w.config.Objects != nil {
		for i := range owners {
			o := newOwner(w, i)
			w.owners = append(w.owners, o)
			w.clients.Go(func() { o.run(ctx) })
		}
	}
	if w.config.Brokers {
		w.startBrokers(ctx)
	}
}

// Stop lets every client end what it is at, and waits for them.
func (w *Workload) Stop() {
	close(w.stop)
	w.clients.Wait()
}

// Rest lets every client end what it is at, and begin nothing while f runs.
func (w *Workload) Rest(f func() error) error {
	w.working.Lock()
	defer w.working.Unlock()
	return f()
}

// Close lets go of connections.
func (w *Workload) Close() { closeAll(w.targets()) }

func closeAll(targets []target) {
	for _, t := range targets {
		if t.client != nil {
			t.client.Close()
		}
	}
}

func (w *Workload) client(id int) client {
	return client{load: w, id: id, random: rand.New(rand.NewPCG(w.config.Seed, uint64(id)))}
}

// pause is that of a client between operations, on average: what spreads the
// operations over the duration, and much less when faults have held them up.
func (w *Workload) pause() time.Duration {
	clients := writers + w.config.Readers
	even := w.config.Duration * time.Duration(clients) / time.Duration(w.config.Operations)
	due := float64(w.config.Operations) * float64(w.recorder.Now()) / float64(w.config.Duration)
	if float64(w.recorder.Count()) < due {
		return even / 16
	}
	return even
}

// position is what has been heard of a partition.
func (w *Workload) position(p int32) position {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[p]
}

// heard takes in what an answer said, -1 for what it did not say.
func (w *Workload) heard(p int32, start, end int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &w.seen[p]
	s.start, s.end = max(s.start, start), max(s.end, end)
}

// hot is the first of the partitions in use now: the window moves on as operations
// are recorded, and begins again when more are than were meant to be.
func (w *Workload) hot() int32 {
	return int32(w.recorder.Count() / operationsPerLog % len(w.seen))
}
