package store_test

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

var (
	crashAll   = flag.Bool("crash.all", false, "stop at every write, not at a sample of them")
	crashKills = flag.Int("crash.kills", 8, "processes to kill")
	powerCuts  = flag.Int("power.images", 60, "images of a power cut to recover from")
	crashSeed  = flag.Uint64("crash.seed", 1, "seed of what a power cut leaves")
)

// history is a log: its entries, and the digest of the state after each, of a store
// that did nothing else.
type history struct {
	entries []ops.Entry
	digests []store.Digest // by index, from 0 on
}

func (h *history) last() uint64 { return uint64(len(h.entries)) }

// fataler is what tests and child processes have in common.
type fataler interface {
	require.TestingT
	Helper()
}

// makeHistory is a log of commits on topics that are made, cut and purged.
var makeHistory = sync.OnceValue(func() *history {
	t := panics{}
	dir, remove := tempDir(t)
	defer remove()
	s, err := store.Open(filepath.Join(dir, "state.db"), store.Options{Sync: store.SyncNever})
	require.NoError(t, err)
	defer s.Close()
	h := &history{digests: make([]store.Digest, 1)}
	h.digests[0] = headOf(t, s).Digest
	r := rand.New(rand.NewPCG(7, 7))
	const commits = 320
	for i := range commits {
		now, generation := int64(1_000_000+i*10), i/60
		if i%60 == 0 {
			h.run(t, s, now, createTopic(generation))
		}
		h.run(t, s, now, commitTo(r, i, generation))
		switch i % 20 {
		case 7:
			h.run(t, s, now, &ops.DeleteRecordsRequest{Requests: []ops.DeleteRecords{{TopicID: topicOf(generation), Partition: int32(r.IntN(4)), Offset: -1}}})
		case 13:
			h.run(t, s, now, &ops.DeleteTopicsRequest{TopicIDs: []store.TopicID{topicOf(generation - 1)}})
			h.run(t, s, now, &ops.PurgeDeletedLogsRequest{MaxBatches: 50})
		}
	}
	return h
})

func topicOf(generation int) store.TopicID { return store.TopicID{14: 1, 15: byte(generation)} }

func createTopic(generation int) ops.Write {
	return &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{{TopicID: topicOf(generation), TopicName: fmt.Sprint("t", generation), NumPartitions: 4}}}
}

func commitTo(r *rand.Rand, i, generation int) ops.Write {
	c := &ops.CommitFileRequest{ObjectKey: fmt.Sprintf("wal/%016x-%d", r.Uint64(), i), Format: 1, FileSize: 1 << 20}
	for b := range 8 {
		c.Batches = append(c.Batches, ops.CommitBatch{
			TopicID: topicOf(generation), Partition: int32(r.IntN(4)), Magic: 2, ByteOffset: int64(b * 1000), ByteSize: 900, LastOffset: 9,
			ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1,
		})
	}
	return c
}

// run carries one operation out and keeps its entries.
func (h *history) run(t fataler, s *store.Store, nowMs int64, w ops.Write) {
	settings := ops.DefaultSettings()
	settings.PurgeRows = 20
	_, err := ops.Run(w, settings, s.View, func() int64 { return nowMs }, func(cmd ops.Command) (any, error) {
		data, err := ops.Encode(cmd, nowMs)
		require.NoError(t, err)
		e, err := ops.Decode(data)
		require.NoError(t, err)
		h.entries = append(h.entries, e)
		result, err := applyEntry(s, h.last(), e)
		h.digests = append(h.digests, headOf(t, s).Digest)
		return result, err
	})
	require.NoError(t, err)
}

func applyEntry(s *store.Store, index uint64, e ops.Entry) (result any, err error) {
	err = s.Update(func(tx *store.WriteTx) error {
		if result, err = ops.Apply(tx, e); err != nil {
			return err
		}
		return tx.SetApplied(index, 1)
	})
	return result, err
}

// apply applies the entries after the state's index up to one of them.
func (h *history) apply(t fataler, s *store.Store, to uint64) {
	t.Helper()
	require.NoError(t, h.tryApply(t, s, to))
}

func (h *history) tryApply(t fataler, s *store.Store, to uint64) error {
	for i := headOf(t, s).AppliedIndex; i < to; i++ {
		if _, err := applyEntry(s, i+1, h.entries[i]); err != nil {
			return err
		}
	}
	return nil
}

func headOf(t fataler, s *store.Store) (m store.Meta) {
	t.Helper()
	require.NoError(t, s.View(func(tx *store.ReadTx) error { m = tx.Meta(); return nil }))
	return m
}

// stream is the state at an index, as another node would send it.
func (h *history) stream(t fataler, index uint64) []byte {
	dir, remove := tempDir(t)
	defer remove()
	s, err := store.Open(filepath.Join(dir, "state.db"), store.Options{Sync: store.SyncNever})
	require.NoError(t, err)
	defer s.Close()
	h.apply(t, s, index)
	snapshot, err := s.Snapshot()
	require.NoError(t, err)
	defer snapshot.Release()
	stream, err := io.ReadAll(snapshot)
	require.NoError(t, err)
	return stream
}

// life is what a node does to its state: it applies the history, takes sync points,
// is closed and opened again, and once is behind and gets the state of another node.
type life struct {
	t       fataler
	h       *history
	options store.Options
	path    string
	store   *store.Store

	// pinned is false in the life that shows what the pinned transaction is for.
	pinned bool

	applied uint64 // as far as Update has returned
	durable uint64 // as far as a sync point has returned
}

// How the life goes, in entries.
const (
	pointEach   = 9
	reopenEach  = 70
	installAt   = 200 // and again at twice that
	installJump = 40
)

func (l *life) open() {
	s, err := store.Open(l.path, l.options)
	require.NoError(l.t, err)
	l.store = s
	l.durable = headOf(l.t, s).AppliedIndex
	l.unpin()
}

func (l *life) unpin() {
	if !l.pinned {
		l.store.Unpin()
	}
}

func (l *life) run() {
	l.open()
	for l.applied < l.h.last() {
		if next := l.applied + 1; next%installAt == 0 {
			l.install(min(next+installJump, l.h.last()))
		} else {
			l.h.apply(l.t, l.store, next)
			l.applied = next
		}
		switch {
		case l.applied%reopenEach == 0:
			require.NoError(l.t, l.store.Close())
			l.open()
		case l.applied%pointEach == 0:
			l.point()
		}
	}
}

func (l *life) point() {
	p, err := l.store.Point(nil)
	require.NoError(l.t, err)
	require.NoError(l.t, p.Commit(func([]byte) ([]byte, error) { return partAt(l.applied), nil }))
	l.durable = l.applied
	l.unpin()
}

func partAt(index uint64) []byte { return fmt.Append(nil, "at ", index) }

func (l *life) install(index uint64) {
	r, err := l.store.Receive()
	require.NoError(l.t, err)
	_, err = io.CopyBuffer(struct{ io.Writer }{r}, struct{ io.Reader }{bytes.NewReader(l.h.stream(l.t, index))}, make([]byte, 7001))
	require.NoError(l.t, err)
	_, err = r.Finish()
	require.NoError(l.t, err)
	require.NoError(l.t, l.store.Install(r, partAt(index)))
	l.applied, l.durable = index, index
	l.unpin()
}

// next is the furthest that a crash may leave the state at.
func (l *life) next() uint64 { return min(l.applied+1+installJump, l.h.last()) }

// judge opens the state that a crash has left and holds it against the history: it
// has all that it must have, is what the log says, and goes on. All the rest of the
// history is applied when toTheEnd, else the next few entries.
func (h *history) judge(t fataler, path string, options store.Options, least, most uint64, toTheEnd bool) error {
	s, err := store.Open(path, options)
	if err != nil {
		return err
	}
	defer s.Close()
	head := headOf(t, s)
	at := head.AppliedIndex
	if at < least || at > most || head.Digest != h.digests[at] {
		return fmt.Errorf("the state is of index %d (between %d and %d), its digest is %s instead of %s", at, least, most, head.Digest, h.digests[at])
	}
	if err := judgePart(s.Record(), at); err != nil {
		return err
	}
	end := min(at+3, h.last())
	if toTheEnd {
		end = h.last()
	}
	if err := h.tryApply(t, s, end); err != nil {
		return err
	}
	if digest := headOf(t, s).Digest; digest != h.digests[end] {
		return fmt.Errorf("after index %d the digest is %s instead of %s", end, digest, h.digests[end])
	}
	if err := s.Close(); err != nil || !toTheEnd {
		return err
	}
	report, err := store.Check(path)
	if err == nil {
		err = report.Err()
	}
	return err
}

// judgePart holds the owner's part of the record against the state that it must
// belong to: not one that was replaced, or never came to be in place.
func judgePart(r store.Record, at uint64) error {
	if len(r.Part) == 0 {
		return nil // no point was taken yet
	}
	var part uint64
	if _, err := fmt.Sscanf(string(r.Part), "at %d", &part); err != nil {
		return err
	}
	if installed := uint64(installAt + installJump); part > at || at >= installed && part < installed {
		return fmt.Errorf("the state of index %d goes with the record %q", at, r.Part)
	}
	return nil
}

func TestHistoryHasAllKindsOfEntries(t *testing.T) {
	h := makeHistory()
	count := map[string]int{}
	for _, e := range h.entries {
		count[e.Command.Op()]++
	}
	t.Log(len(h.entries), "entries:", count)
	require.GreaterOrEqual(t, count["commit-file"], 300)
	require.Greater(t, count["purge-deleted-logs"], 10)
}
