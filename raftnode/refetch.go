package raftnode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/cpnode/cpnode/fsm"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// A state that is damaged, or not what the others have, is replaced alone: raft's
// log and votes stay. raft runs meanwhile, and the state machine waits.

// replacement is in node.json from before the damaged file is put aside until there
// is another one.
type replacement struct {
	// Position is where in the log the newest record of the damaged file stood, as
	// the record holds it: what raft takes for its snapshot.
	Position []byte `json:"position"`
}

// damagedSuffix is added to the name of the last damaged state file.
const damagedSuffix = ".damaged"

// openState opens the state, or an empty one in place of one that must not be used.
func (n *Node) openState(dir string) (err error) {
	id := *n.identity.Load()
	path := filepath.Join(dir, stateFile)
	if id.Corrupt == "" {
		if n.store, err = store.Open(path, n.config.stateOptions()); !errors.Is(err, store.ErrCorrupt) {
			return err
		}
		id.Corrupt = err.Error()
	}
	n.logger.Error("the state is replaced", "because", id.Corrupt)
	n.metrics.replacedAt.Set(unixSeconds(time.Now()))
	if err := n.putAside(dir, &id); err != nil {
		return fmt.Errorf("replace the state: %w", err)
	}
	at, err := fsm.DecodePosition(id.Replacing.Position)
	if err != nil {
		return err
	}
	n.missing.Store(&missingState{position: at, there: make(chan struct{})})
	n.store, err = store.Open(path, n.config.stateOptions())
	return err
}

// putAside takes the state file and its records away, after node.json says so. What
// is there when node.json says so already is an earlier attempt.
func (n *Node) putAside(dir string, id *identity) error {
	path := filepath.Join(dir, stateFile)
	away := func() error { return os.Remove(path) }
	if id.Replacing == nil {
		rec, _, err := store.NewestRecord(path, math.MaxUint64)
		if err != nil {
			return err
		}
		id.Replacing = &replacement{rec.Part}
		if err := id.save(dir); err != nil {
			return err
		}
		away = func() error { return os.Rename(path, path+damagedSuffix) }
	}
	n.identity.Store(id)
	for _, err := range []error{away(), os.Remove(filepath.Join(dir, recordsFile))} {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return syncDir(dir)
}

// missingState is a state that is not there yet.
type missingState struct {
	position fsm.Position  // raft's snapshot until there is a state
	there    chan struct{} // closed when there is one
	why      atomic.Pointer[string]
}

// reason says what the node waits for.
func (m *missingState) reason() string {
	if why := m.why.Load(); why != nil {
		return "this node's state was damaged and is fetched from another node: " + *why
	}
	return "this node's state was damaged and is fetched from another node"
}

// stateHere is an error while there is no state to read.
func (n *Node) stateHere() error {
	if m := n.missing.Load(); m != nil {
		return ops.Errorf(ops.NotCaughtUp, "%s", m.reason())
	}
	return nil
}

// instead is the position of the missing state, nil when there is one.
func (n *Node) instead() *fsm.Position {
	if m := n.missing.Load(); m != nil {
		return &m.position
	}
	return nil
}

func (n *Node) stateUnfit() *unfit {
	if m := n.missing.Load(); m != nil {
		return &unfit{unfitState, m.reason(), false}
	}
	return nil
}

// awaitState waits for the state, or until the node stops.
func (n *Node) awaitState() error {
	m := n.missing.Load()
	if m == nil {
		return nil
	}
	select {
	case <-m.there:
		return nil
	case <-n.ctx.Done():
		return errShuttingDown
	}
}

// stateArrived lets entries be applied, once node.json says that the state is good.
func (n *Node) stateArrived() error {
	m := n.missing.Load()
	if m == nil {
		return nil
	}
	if err := n.note(func(id *identity) { id.Corrupt, id.Replacing = "", nil }); err != nil {
		return err
	}
	if n.missing.CompareAndSwap(m, nil) {
		n.logger.Info("the state is whole again", "index", n.fsm.Applied())
		close(m.there)
	}
	return nil
}

const refetchRetry = time.Second

// refetch gets the state from another member, if it is missing. A node without other
// members rebuilds it from its log, if that is whole.
func (n *Node) refetch() {
	for m := n.missing.Load(); m != nil; m = n.missing.Load() {
		var problems []string
		others := 0
		for _, s := range n.servers() {
			if s.ID == n.id() {
				continue
			}
			others++
			err := n.fetchState(s.ID, m)
			if err == nil || n.missing.Load() == nil {
				return
			}
			problems = append(problems, fmt.Sprintf("%s: %v", nameOf(s.ID), err))
		}
		if others == 0 {
			n.rebuild(m)
			return
		}
		why := strings.Join(problems, "; ")
		m.why.Store(&why)
		n.quiet.say(why, func() { n.logger.Warn("cannot fetch the state yet", "why", why) })
		if wait(n.ctx, refetchRetry) != nil {
			return
		}
	}
}

// rebuild applies the whole log to an empty state.
func (n *Node) rebuild(m *missingState) {
	if m.position.Index > 0 {
		n.fail(fmt.Errorf("%w: the log begins after entry 1, and there is no other node to fetch the state from: restore a backup with cpnode restore into an empty directory", store.ErrCorrupt))
		return
	}
	n.logger.Warn("rebuilding the state from the log")
	if err := n.stateArrived(); err != nil {
		n.fail(err)
	}
}

// A connection of kindState carries one request and one answer, each a frame of
// JSON, and after an answer without an error the state as a stream of its size.
type stateRequest struct {
	Index uint64 `json:"index"` // the state must have this entry
}

type stateAnswer struct {
	Error string `json:"error,omitempty"`
	Index uint64 `json:"index"`
	Size  int64  `json:"size"`
}

const stateFrameLimit = 64 << 10

// serveState sends the state of this node once.
func (n *Node) serveState(raw net.Conn, from party) {
	conn := patientConn{raw}
	frame, err := readFrame(conn, stateFrameLimit)
	if err != nil {
		return
	}
	var request stateRequest
	if err := json.Unmarshal(frame, &request); err != nil {
		return
	}
	// raft's index also counts entries that no state ever sees.
	whole := n.caughtUp(request.Index)
	state, err := n.Backup()
	said := stateAnswer{}
	switch {
	case n.missing.Load() != nil: // why not may quote what the asking node says of itself
		said.Error = "its own state is missing"
	case err != nil:
		said.Error = err.Error()
	case state.Index() < request.Index && !whole:
		said.Error = fmt.Sprintf("its state is at entry %d, %d is needed", state.Index(), request.Index)
	default:
		said.Index, said.Size = max(state.Index(), request.Index), state.Size()
	}
	if state != nil {
		defer state.Release()
	}
	data, err := json.Marshal(said)
	if err != nil || writeFrame(conn, data) != nil || said.Error != "" {
		return
	}
	n.logger.Info("sending the state", "to", from.NodeID, "index", said.Index, "bytes", said.Size)
	if _, err := state.WriteTo(conn); err != nil {
		n.logger.Warn("the state was not sent", "to", from.NodeID, "error", err)
	}
}

// patientConn waits for the other side as long as bytes move.
type patientConn struct{ net.Conn }

// Read reads within a timeout of its own.
func (c patientConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(transportTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// patientChunk is how many bytes must move within one timeout.
const patientChunk = 64 << 10

// Write writes each part within a timeout of its own.
func (c patientConn) Write(p []byte) (written int, err error) {
	for {
		if err := c.SetWriteDeadline(time.Now().Add(transportTimeout)); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(p[written:min(len(p), written+patientChunk)])
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// fetchState fetches the state from one member and puts it in place. Its position
// is the one that raft began with, so raft's log goes on from there; what the state
// has beyond is skipped.
func (n *Node) fetchState(id raft.ServerID, m *missingState) error {
	ctx, cancel := context.WithTimeout(n.ctx, transportTimeout)
	defer cancel()
	dialed, err := n.dialMember(ctx, id, kindState)
	if err != nil {
		return err
	}
	defer dialed.Close()
	defer context.AfterFunc(n.ctx, func() { dialed.Close() })()
	conn := patientConn{dialed.Conn}
	said, err := askState(conn, m.position.Index)
	if err != nil {
		return err
	}
	n.logger.Info("fetching the state", "from", nameOf(id), "index", said.Index, "bytes", said.Size)
	received, err := n.receiveState(&progressLog{n: n, from: conn, size: said.Size}, said.Size)
	if err != nil {
		return err
	}
	defer received.Abort()
	n.restoring.Lock()
	defer n.restoring.Unlock()
	if n.missing.Load() != m { // raft has installed one, and stands elsewhere in its log
		return nil
	}
	if err := n.fsm.Restore(&fsm.Received{Receiver: received, At: m.position}); err != nil {
		return err
	}
	return n.stateArrived()
}

func askState(conn net.Conn, index uint64) (said stateAnswer, err error) {
	data, err := json.Marshal(stateRequest{index})
	if err != nil {
		return said, err
	}
	if err := writeFrame(conn, data); err != nil {
		return said, err
	}
	frame, err := readFrame(conn, stateFrameLimit)
	if err != nil {
		return said, err
	}
	if err := json.Unmarshal(frame, &said); err != nil {
		return said, err
	}
	switch {
	case said.Error != "":
		return said, errors.New(said.Error)
	case said.Index < index:
		return said, fmt.Errorf("it sends the state of entry %d, %d is needed", said.Index, index)
	}
	return said, nil
}

// receiveState writes a stream to disk and checks it.
func (n *Node) receiveState(from io.Reader, size int64) (*store.Receiver, error) {
	to, err := n.snapshots.receive()
	if err != nil {
		return nil, err
	}
	if _, err := io.CopyN(to, from, size); err != nil {
		to.Abort()
		return nil, err
	}
	_, err = to.Finish()
	return to, err
}

// progressLog says now and then how far a stream is.
type progressLog struct {
	n          *Node
	from       io.Reader
	size, done int64
}

// Read implements io.Reader.
func (p *progressLog) Read(b []byte) (int, error) {
	n, err := p.from.Read(b)
	p.done += int64(n)
	p.n.quiet.say("fetching the state", func() { p.n.logger.Info("fetching the state", "bytes", p.done, "of", p.size) })
	return n, err
}
