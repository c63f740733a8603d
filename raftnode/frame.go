package raftnode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// writeFrame writes a length of four bytes and the payload.
func writeFrame(w io.Writer, payload []byte) error {
	frame := net.Buffers{binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload}
	_, err := frame.WriteTo(w)
	return err
}

// readFrame reads what writeFrame writes, at most limit bytes. Memory grows as
// they arrive: the length alone buys nothing.
func readFrame(r io.Reader, limit int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(head[:]))
	if n > limit {
		return nil, fmt.Errorf("frame of %d bytes, at most %d are taken", n, limit)
	}
	payload := bytes.NewBuffer(make([]byte, 0, min(n, 64<<10)))
	if _, err := io.CopyN(payload, r, int64(n)); err != nil {
		return nil, fmt.Errorf("frame cut short: %w", err)
	}
	return payload.Bytes(), nil
}

// quieter lets each line through once in a while, however often it comes.
type quieter struct {
	mu   sync.Mutex
	last map[string]time.Time
}

const (
	quietFor   = 5 * time.Second
	quietLines = 1000 // different ones remembered, so that strangers cannot fill memory
)

func (q *quieter) say(line string, log func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	if now.Sub(q.last[line]) < quietFor {
		return
	}
	if q.last == nil || len(q.last) >= quietLines {
		q.last = map[string]time.Time{}
	}
	q.last[line] = now
	log()
}
