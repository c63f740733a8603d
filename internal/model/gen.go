package model

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand"
	"slices"
	"strings"
)

// Gen makes random operations that suit the state of a model: few topics, partitions, producers and keys, so that all
// of them meet often, with the mistakes that clients make. It is not safe for concurrent use.
type Gen struct {
	r       *rand.Rand
	clockMs int64
	keys    int             // object keys made so far
	commits []commitRequest // the latest ones, for retries
}

// The pools that random values come from. Of topic ids there are fewer than the names times two, so both come back.
const (
	topicIDs       = 6
	topicNames     = 5
	partitions     = 3
	producerIDs    = 3
	recentCommits  = 12
	startOfClockMs = 1_700_000_000_000
)

// NewGen returns a generator whose operations depend on r and on the models passed to [Gen.Next] alone.
func NewGen(r *rand.Rand) *Gen {
	return &Gen{r: r, clockMs: startOfClockMs}
}

// generator makes requests of one operation, as often as its weight says.
type generator struct {
	weight int
	op     string
	make   func(*Gen, *Model) any
}

// logGenerators are of the operations on logs and files.
var logGenerators = []generator{
	{50, "commit-file", (*Gen).commitFile},
	{10, "find-batches", (*Gen).findBatches},
	{8, "list-offsets", (*Gen).listOffsets},
	{4, "get-log-info", (*Gen).targets},
	{4, "get-producer-state", (*Gen).targets},
	{2, "get-cross-tier-log-start", (*Gen).targets},
	{8, "create-topics", (*Gen).createTopics},
	{1, "delete-topics", (*Gen).deleteTopics},
	{2, "list-topics", (*Gen).listTopics},
	{2, "describe-topic", (*Gen).describeTopic},
	{4, "delete-records", (*Gen).deleteRecords},
	{4, "prune-diskless-logs", (*Gen).prune},
	{3, "enforce-retention", (*Gen).retention},
	{4, "purge-deleted-logs", (*Gen).purge},
	{4, "get-files-to-delete", (*Gen).filesToDelete},
	{4, "delete-files", (*Gen).deleteFiles},
	{3, "is-safe-to-delete-file", (*Gen).isSafe},
	{2, "list-files", (*Gen).listFiles},
	{3, "advance-cross-tier-log-start", (*Gen).advance},
	{6, "init-diskless-log", (*Gen).initLogs},
	{2, "repair-diskless-log", (*Gen).repair},
	{1, "expire-fences", (*Gen).expire},
	{1, "expire-replays", (*Gen).expire},
}

// plainGenerators are of those whose requests stay as they are made: on brokers and the switch, whose bounds on the wire are
// not modelled, and expire-producers, of which only the removal of all is.
var plainGenerators = []generator{
	{1, "expire-producers", (*Gen).expireProducers},
	{2, "register-broker", (*Gen).registerBroker},
	{14, "broker-heartbeat", (*Gen).heartbeat},
	{2, "fence-broker", (*Gen).fenceBroker},
	{1, "unfence-broker", (*Gen).fenceBroker},
	{10, "register-partitions", (*Gen).registerPartitions},
	{8, "alter-partition", (*Gen).alterPartition},
	{4, "elect-leader", (*Gen).electLeader},
	{6, "begin-switch", (*Gen).beginSwitch},
	{8, "commit-seal", (*Gen).commitSeal},
	{6, "commit-prefix-in-remote-storage", (*Gen).commitPrefix},
	{5, "override-switch", (*Gen).override},
	{6, "describe-partitions", (*Gen).describePartitions},
}

var generators = slices.Concat(logGenerators, plainGenerators)

// Next returns an operation, its clock and its JSON request. The clock stands still at times and goes back at times; some
// requests have a number or a list that nobody would send (see atEdge). The caller runs the operation on m (and on what it
// tests) before it asks for the next one.
func (g *Gen) Next(m *Model) (op string, nowMs int64, request []byte) {
	chosen, plain := g.generator()
	nowMs = g.now()
	request, err := json.Marshal(chosen.make(g, m))
	if err != nil {
		panic(err) // requests are plain structs
	}
	if !plain && g.one(8) {
		request = g.atEdge(request)
	}
	return chosen.op, nowMs, request
}

// generator chooses one by weight, and says whether it is of the plain ones.
func (g *Gen) generator() (chosen generator, plain bool) {
	total := 0
	for _, c := range generators {
		total += c.weight
	}
	n := g.r.Intn(total)
	i := slices.IndexFunc(generators, func(c generator) bool {
		n -= c.weight
		return n < 0
	})
	return generators[i], i >= len(logGenerators)
}

func (g *Gen) now() int64 {
	switch {
	case g.one(5):
	case g.one(20):
		return g.clockMs - g.upTo(5000)
	case g.one(150):
		g.clockMs += g.upTo(10 * 86_400_000)
	case g.one(10):
		g.clockMs += g.upTo(900_000)
	default:
		g.clockMs += g.upTo(1000)
	}
	return g.clockMs
}

// one is true once in n times.
func (g *Gen) one(n int) bool { return g.r.Intn(n) == 0 }

// upTo returns a number in [0, n].
func (g *Gen) upTo(n int64) int64 {
	if n == math.MaxInt64 {
		return g.r.Int63()
	}
	return g.r.Int63n(n + 1)
}

func pick[T any](g *Gen, from ...T) T { return from[g.r.Intn(len(from))] }

// some makes one to three items.
func some[T any](g *Gen, item func() T) []T {
	items := make([]T, 0, 3)
	for range 1 + g.r.Intn(3) {
		items = append(items, item())
	}
	return items
}

func (g *Gen) topicID() topicID {
	return topicID(fmt.Sprintf("00000000-0000-4000-8000-%012x", 1+g.r.Intn(topicIDs)))
}

func (g *Gen) topicName() string { return fmt.Sprintf("t-%d", g.r.Intn(topicNames)) }

// target names mostly a log that is there, in any order of the maps but always the same for the same seed.
func (g *Gen) target(m *Model) target {
	var known []target
	for _, id := range slices.Sorted(maps.Keys(m.topics)) {
		for _, p := range slices.Sorted(maps.Keys(m.topics[id].logs)) {
			known = append(known, target{id, p})
		}
	}
	if len(known) == 0 || g.one(20) {
		return target{g.topicID(), partition(g.r.Intn(partitions + 1))}
	}
	return pick(g, known...)
}

// offset is one around the edges and the batches of a log.
func (g *Gen) offset(m *Model, at target) int64 {
	l := m.log(at)
	if l == nil {
		return g.upTo(10)
	}
	edges := []int64{-1, 0, l.start - 1, l.start, l.disklessStart, l.highWatermark, l.highWatermark + 1}
	for range 4 {
		edges = append(edges, g.upTo(l.highWatermark))
	}
	if len(l.batches) > 0 {
		b := pick(g, l.batches...)
		edges = append(edges, b.baseOffset, b.lastOffset, b.baseOffset, b.lastOffset)
	}
	return max(-2, pick(g, edges...))
}

// timestamp is one around the clock and the batches of a log.
func (g *Gen) timestamp(m *Model, at target) int64 {
	if l := m.log(at); l != nil && len(l.batches) > 0 && !g.one(4) {
		return pick(g, l.batches...).timestamp() + g.upTo(2) - 1
	}
	return pick(g, 0, g.clockMs, g.clockMs+1_000_000)
}

// cap is small, or none, and not allowed at times.
func (g *Gen) cap() natural {
	if g.one(60) {
		return -1
	}
	return pick[natural](g, 0, 1, 1, 2, 3, 5, 20)
}

// key is a new object key, or an old one: of a file, of a fence, or of a commit not long ago.
func (g *Gen) key(m *Model) string {
	switch {
	case g.one(12) && len(m.files) > 0:
		return pick(g, m.files...).key
	case g.one(12) && len(m.fences) > 0:
		return pick(g, slices.Sorted(maps.Keys(m.fences))...)
	case g.one(30):
		return fmt.Sprintf("wal/%06d", max(0, g.keys-g.r.Intn(20)))
	}
	g.keys++
	return fmt.Sprintf("wal/%06d", g.keys)
}

// knownKey is mostly the key of a file, often of one that may go.
func (g *Gen) knownKey(m *Model) string {
	if marked := m.markedKeys(); len(marked) > 0 && g.one(2) {
		return pick(g, marked...)
	}
	if len(m.files) > 0 && g.one(2) {
		return pick(g, m.files...).key
	}
	return g.key(m)
}

// deletedKey is a known key, and not a legal one at times.
func (g *Gen) deletedKey(m *Model) string {
	if g.one(40) {
		return pick(g, "", strings.Repeat("k", 1025))
	}
	return g.knownKey(m)
}

func (m *Model) markedKeys() []string {
	keys := []string{}
	for _, f := range m.files {
		if f.markedAt != live {
			keys = append(keys, f.key)
		}
	}
	return keys
}
