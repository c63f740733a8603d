package raftnode

import (
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

// gaps is the set of the log's entries that the state machine never sees: raft's
// no-ops and barriers, one or two a term. With it, the index that the state must
// reach to hold everything up to a commit index is known without reading the log.
type gaps struct {
	mu      sync.RWMutex
	indexes []uint64 // ascending
}

// add notes an entry as it is appended, in place of any it overwrites.
func (g *gaps) add(entry *raft.Log) {
	hidden := entry.Type != raft.LogCommand && entry.Type != raft.LogConfiguration
	g.mu.RLock()
	n := len(g.indexes)
	after := n == 0 || g.indexes[n-1] < entry.Index
	g.mu.RUnlock()
	if after && !hidden {
		return
	}
	g.dropFrom(entry.Index)
	if hidden {
		g.mu.Lock()
		g.indexes = append(g.indexes, entry.Index)
		g.mu.Unlock()
	}
}

// dropTo forgets entries up to index.
func (g *gaps) dropTo(index uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, found := slices.BinarySearch(g.indexes, index)
	if found {
		n++
	}
	g.indexes = slices.Delete(g.indexes, 0, n)
}

// dropFrom forgets entries from index on.
func (g *gaps) dropFrom(index uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, _ := slices.BinarySearch(g.indexes, index)
	g.indexes = g.indexes[:n]
}

// lastSeen is the last entry at or below index that the state machine sees.
func (g *gaps) lastSeen(index uint64) uint64 {
	g.mu.RLock()
	defer g.mu.RUnlock()
	n, hidden := slices.BinarySearch(g.indexes, index)
	for ; hidden && n >= 0 && g.indexes[n] == index; n-- {
		index--
	}
	return index
}
