package sim

import (
	cryptorand "crypto/rand"
	"encoding/binary"
	mathrand "math/rand"
	"math/rand/v2"
	"sync"
)

// seedGlobals makes the process draw its random numbers from a seed, as far as that can
// be had, until the result is called.
func seedGlobals(seed uint64) (restore func()) {
	var key [32]byte
	binary.BigEndian.PutUint64(key[:], seed)
	real := cryptorand.Reader
	cryptorand.Reader = &lockedReader{random: rand.NewChaCha8(key)} // ids of data directories
	mathrand.Seed(int64(seed))                                      //nolint:staticcheck // raft's timers; see GODEBUG=randseednop
	return func() { cryptorand.Reader = real }
}

// lockedReader reads random bytes for any goroutine.
type lockedReader struct {
	mu     sync.Mutex
	random *rand.ChaCha8
}

// Read implements io.Reader.
func (r *lockedReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.random.Read(p)
}
