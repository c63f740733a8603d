package store

import "math"

// boltAllocStep is by how much bbolt lets its files grow, at least.
const boltAllocStep = 16 << 20

// Room is how many bytes the state may still take before the file reaches
// Options.MaxBytes: what is free within it, and what it may grow by. It can be
// negative, and is near the largest number when there is no bound or no file.
func (s *Store) Room() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.db == nil || s.options.MaxBytes == 0 {
		return math.MaxInt64 / 2
	}
	tx, err := s.db.Begin(false)
	if err != nil {
		return math.MaxInt64 / 2
	}
	used := tx.Size()
	_ = tx.Rollback() // fails only when it is closed
	b := s.db.Stats()
	free := int64(b.FreePageN+b.PendingPageN) * int64(s.db.Info().PageSize)
	return int64(s.options.MaxBytes) - boltAllocStep - used + free
}
