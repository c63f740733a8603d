package ops

import "github.com/cpnode/cpnode/store"

// ExpireFencesRequest removes the rows of fences that no longer hold. Whether a
// key is fenced goes by the clock alone.
type ExpireFencesRequest struct {
	MaxRows int64 `json:"max_rows" min:"0" doc:"Cap of rows removed; 0 = all."`
}

// ExpireFencesResponse counts the fences removed. Next is always empty: the
// oldest go first.
type ExpireFencesResponse struct {
	Removed int64  `json:"removed"`
	Next    string `json:"next"`
}

// Validate has nothing to add to the tags.
func (*ExpireFencesRequest) Validate(Limits) error { return nil }

// Begin logs entries of s.ExpireRows fences.
func (r *ExpireFencesRequest) Begin(s Settings) Steps {
	return &expireSteps{
		began: &cutOff{}, left: budget(r.MaxRows), rows: s.ExpireRows,
		command: func(asOfMs, rows int64) expiring { return &dropFences{asOfMs: asOfMs, rows: rows} },
		respond: func(removed int64) any { return &ExpireFencesResponse{Removed: removed} },
	}
}

// dropFences is the logged command.
type dropFences struct {
	asOfMs int64
	rows   int64
}

func (*dropFences) Op() string { return "expire-fences" }

func (c *dropFences) fields(f *codec) {
	f.object(2, func(f *codec) {
		f.int64(&c.asOfMs)
		f.int64(&c.rows)
	})
}

// Apply removes at most rows fences, the first to end first.
func (c *dropFences) Apply(tx *store.WriteTx, nowMs int64) (any, error) {
	keys, more, err := c.ended(&tx.ReadTx, nowMs)
	for _, key := range keys {
		if err == nil {
			err = tx.DropFence(key)
		}
	}
	return expired{int64(len(keys)), more}, err
}

// ended is at most rows keys whose fence no longer holds, and whether more follow.
func (c *dropFences) ended(tx *store.ReadTx, nowMs int64) (keys []string, more bool, err error) {
	asOf := min(c.asOfMs, nowMs)
	err = tx.Fences(func(key string, untilMs int64) bool {
		if untilMs > asOf {
			return false
		}
		if more = int64(len(keys)) >= c.rows; more {
			return false
		}
		keys = append(keys, key)
		return true
	})
	return keys, more, err
}

func (c *dropFences) finds(tx *store.ReadTx, nowMs int64) (bool, error) {
	first := dropFences{asOfMs: c.asOfMs, rows: 1}
	keys, _, err := first.ended(tx, nowMs)
	return len(keys) > 0, err
}
