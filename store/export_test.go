package store

// Unpin releases the transaction that keeps the pages of the newest record.
func (s *Store) Unpin() { s.unpin() }
