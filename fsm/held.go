package fsm

import (
	"github.com/hashicorp/raft"

	"github.com/cpnode/cpnode/store"
)

// held is what was applied and answered and is not committed to the state yet. A
// transaction costs by the pages it changes, and commits change the same pages
// again and again: one transaction for many batches of entries writes them once.
// The log has the entries, so nothing is lost with a transaction.
type held struct {
	tx          *store.WriteTx // nil: to be begun with all of entries
	entries     []*raft.Log
	done        int // of entries, how many are in tx
	bytes       int
	checkpoints []checkpoint
}

// checkpoint is a digest to report once the state that it is of is committed.
type checkpoint struct {
	index  uint64
	digest store.Digest
}

// A transaction is full with any of these: they bound its memory, and how long its
// commit keeps the entries behind it waiting.
const (
	maxHeldEntries = 256
	maxHeldBytes   = 4 << 20
	maxHeldChanges = 4096 // rows
)

func (h *held) add(entries []*raft.Log) {
	h.entries = append(h.entries, entries...)
	for _, entry := range entries {
		h.bytes += len(entry.Data)
	}
}

func (h *held) full() bool {
	return len(h.entries) >= maxHeldEntries || h.bytes >= maxHeldBytes || h.tx.Changes() >= maxHeldChanges
}

// rollback undoes the open transaction and keeps the entries.
func (h *held) rollback() {
	if h.tx != nil {
		h.tx.Rollback()
		h.tx = nil
	}
}

// forget lets go of entries that are committed.
func (h *held) forget() {
	clear(h.entries)
	h.entries, h.done, h.bytes = h.entries[:0], 0, 0
}
