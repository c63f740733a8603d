package fsm

import (
	"encoding/binary"
	"errors"

	"github.com/hashicorp/raft"

	"github.com/cpnode/cpnode/store"
)

// Position is a place in raft's log and who is a member there: all that raft wants
// to know of a snapshot. It is the owner's part of the store's records.
type Position struct {
	Index              uint64
	Term               uint64 // of the entry at Index
	Configuration      raft.Configuration
	ConfigurationIndex uint64
	// Received is the index of the state when it came from another node and was
	// newer than Index: the log of this node need not reach so far yet.
	Received uint64
}

// A position is written as
//
//	version 1 | index 8 | term 8 | configuration's index 8 | received 8 | configuration, as raft encodes it |
const (
	positionVersion = 1
	positionFixed   = 1 + 4*8
)

func (p *Position) encode() []byte {
	b := append(make([]byte, 0, 256), positionVersion)
	for _, n := range []uint64{p.Index, p.Term, p.ConfigurationIndex, p.Received} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return append(b, raft.EncodeConfiguration(p.Configuration)...)
}

// DecodePosition reads the part of a record; an empty one is the beginning of the
// log. The record's checksum vouches for it.
func DecodePosition(b []byte) (p Position, err error) {
	if len(b) == 0 {
		return p, nil
	}
	if len(b) < positionFixed || b[0] != positionVersion {
		return p, errors.New("position in the log has a format that this release does not know")
	}
	for i, n := range []*uint64{&p.Index, &p.Term, &p.ConfigurationIndex, &p.Received} {
		*n = binary.BigEndian.Uint64(b[1+8*i:])
	}
	defer func() {
		if recover() != nil { // raft has no other way to say so
			err = errors.New("position in the log does not decode")
		}
	}()
	p.Configuration = raft.DecodeConfiguration(b[positionFixed:])
	return p, nil
}

// RecordedPosition is the position of the newest record on disk: raft's snapshot.
func RecordedPosition(s *store.Store) (Position, error) { return DecodePosition(s.Record().Part) }

// pass notes entries that were answered, applied or skipped. The index gate
// does not hide them from here: after a restart, raft's configuration is known at
// the state's index only once the log was read again up to there.
func (f *FSM) pass(entries []*raft.Log) {
	f.passing.Lock()
	defer f.passing.Unlock()
	for _, entry := range entries {
		if entry.Type == raft.LogConfiguration {
			f.passed.Configuration, f.passed.ConfigurationIndex = raft.DecodeConfiguration(entry.Data), entry.Index
		}
		f.passed.Index, f.passed.Term = entry.Index, entry.Term
	}
}

// Members is the last configuration of raft's that the state has passed, which is
// committed, and its index; 0 while none is known.
func (f *FSM) Members() (raft.Configuration, uint64) {
	f.passing.Lock()
	defer f.passing.Unlock()
	return f.passed.Configuration, f.passed.ConfigurationIndex
}

// positionAt is the position of a state, or the zero one while it is not known.
func (f *FSM) positionAt(m store.Meta) Position {
	f.passing.Lock()
	defer f.passing.Unlock()
	if f.passed.Index != m.AppliedIndex || f.passed.ConfigurationIndex == 0 {
		return Position{}
	}
	p := f.passed
	p.Received = 0
	return p
}

// further is the part of a new record: at, unless the last record is further on. It
// is while this log is read again, and when raft's index counted entries that the
// state never sees.
func further(at Position, last []byte) ([]byte, error) {
	before, err := DecodePosition(last)
	if err != nil || at.Index <= before.Index {
		return last, err
	}
	if before.Received > at.Index {
		at.Received = before.Received
	}
	return at.encode(), nil
}
