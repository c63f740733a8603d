package ops

import "github.com/cpnode/cpnode/store"

// ExpireReplaysRequest removes the answers kept for retried commits that would no
// longer be given. Whether a retry is answered goes by the clock alone.
type ExpireReplaysRequest struct {
	MaxRows int64 `json:"max_rows" min:"0" doc:"Cap of rows removed; 0 = all."`
}

// ExpireReplaysResponse counts the replays removed. Next is always empty: the
// oldest go first.
type ExpireReplaysResponse struct {
	Removed int64  `json:"removed"`
	Next    string `json:"next"`
}

// Validate has nothing to add to the tags.
func (*ExpireReplaysRequest) Validate(Limits) error { return nil }

// Begin logs entries of s.ExpireRows replays.
func (r *ExpireReplaysRequest) Begin(s Settings) Steps {
	return &expireSteps{
		began: &cutOff{}, left: budget(r.MaxRows), rows: s.ExpireRows,
		command: func(asOfMs, rows int64) expiring {
			return &dropReplays{asOfMs: asOfMs, retentionMs: s.ReplayRetentionMs, rows: rows}
		},
		respond: func(removed int64) any { return &ExpireReplaysResponse{Removed: removed} },
	}
}

// expiring is a command that removes the oldest rows of a kind.
type expiring interface {
	Command
	// finds says whether there is one to remove.
	finds(tx *store.ReadTx, nowMs int64) (bool, error)
}

// expired is the result of such a command.
type expired struct {
	removed int64
	more    bool
}

// expireSteps goes on while there are rows to remove and the client's cap allows.
type expireSteps struct {
	began   *cutOff
	left    int64 // of the client's cap
	rows    int64
	command func(asOfMs, rows int64) expiring
	respond func(removed int64) any
	removed int64
}

func (s *expireSteps) Next(tx *store.ReadTx, nowMs int64) (Command, error) {
	cmd := s.command(s.began.asOf(nowMs), min(s.rows, s.left))
	found, err := cmd.finds(tx, nowMs)
	if err != nil || !found {
		return nil, err
	}
	return cmd, nil
}

func (s *expireSteps) Took(result any) bool {
	r := result.(expired)
	s.removed += r.removed
	s.left -= r.removed
	return !r.more || s.left <= 0
}

func (s *expireSteps) Answer() any { return s.respond(s.removed) }

// dropReplays is the logged command.
type dropReplays struct {
	asOfMs      int64
	retentionMs int64
	rows        int64
}

func (*dropReplays) Op() string { return "expire-replays" }

func (c *dropReplays) fields(f *codec) {
	f.object(3, func(f *codec) {
		f.int64(&c.asOfMs)
		f.int64(&c.retentionMs)
		f.int64(&c.rows)
	})
}

// Apply removes at most rows replays. File ids grow with the clock, so the
// oldest stand first.
func (c *dropReplays) Apply(tx *store.WriteTx, nowMs int64) (any, error) {
	ids, more, err := c.past(&tx.ReadTx, nowMs)
	for _, id := range ids {
		if err == nil {
			err = tx.DropReplay(id)
		}
	}
	return expired{int64(len(ids)), more}, err
}

// past is at most rows files whose commit is no longer replayed, and whether
// more follow.
func (c *dropReplays) past(tx *store.ReadTx, nowMs int64) (ids []uint64, more bool, err error) {
	asOf := min(c.asOfMs, nowMs)
	err = tx.Replays(func(fileID uint64, clockMs int64) bool {
		if asOf-clockMs <= c.retentionMs {
			return false
		}
		if more = int64(len(ids)) >= c.rows; more {
			return false
		}
		ids = append(ids, fileID)
		return true
	})
	return ids, more, err
}

func (c *dropReplays) finds(tx *store.ReadTx, nowMs int64) (bool, error) {
	first := dropReplays{asOfMs: c.asOfMs, retentionMs: c.retentionMs, rows: 1}
	ids, _, err := first.past(tx, nowMs)
	return len(ids) > 0, err
}
