package ops

import (
	"cmp"
	"errors"
	"math"

	"github.com/cpnode/cpnode/store"
)

// PurgeDeletedLogsRequest removes what soft-deleted logs still hold, oldest
// delete first.
type PurgeDeletedLogsRequest struct {
	MaxBatches int64 `json:"max_batches" min:"0" doc:"Cap of batches, and of the soft-deleted logs looked at; 0 = all."`
}

// PurgeDeletedLogsResponse counts what went.
type PurgeDeletedLogsResponse struct {
	BatchesDeleted int64 `json:"batches_deleted"`
	LogsPurged     int64 `json:"logs_purged"`
	FilesMarked    int64 `json:"files_marked" doc:"Files that lost their last batch."`
	MoreRemain     bool  `json:"more_remain" doc:"A soft-deleted log is left."`
	CapReached     bool  `json:"cap_reached" doc:"It is left because of max_batches."`
}

// Validate has nothing to add to the tags.
func (*PurgeDeletedLogsRequest) Validate(Limits) error { return nil }

// Begin logs entries of s.PurgeRows batches, producer states and logs: first
// those that drop the logs without batches of the window, then the others.
func (r *PurgeDeletedLogsRequest) Begin(s Settings) Steps {
	return &purgeSteps{capped: r.MaxBatches > 0, command: purgeLogs{empty: true, after: beforeAllLogs, left: budget(r.MaxBatches), rows: s.PurgeRows}}
}

// purgeSteps carries the window, the budget and the position from part to part.
type purgeSteps struct {
	command purgeLogs
	begun   bool
	capped  bool
	full    bool // the last part took as many batches as it might
	answer  PurgeDeletedLogsResponse
}

func (s *purgeSteps) Next(tx *store.ReadTx, _ int64) (Command, error) {
	if !s.begun {
		if err := s.begin(tx); err != nil {
			return nil, err
		}
	}
	work, err := s.command.findWork(tx)
	if err == nil && !work && s.command.empty {
		s.command.empty, s.command.after = false, beforeAllLogs
		work, err = s.command.findWork(tx)
	}
	if err != nil {
		return nil, err
	}
	if work {
		cmd := s.command
		return &cmd, nil
	}
	s.answer.MoreRemain = tx.Meta().Totals.DeletedLogs > 0
	s.answer.CapReached = s.answer.MoreRemain && s.capped
	return nil, nil
}

// begin ends the window at the last of as many logs as batches may go.
func (s *purgeSteps) begin(tx *store.ReadTx) error {
	s.begun, s.command.end = true, beforeAllLogs
	seen := int64(0)
	return tx.DeletedLogs(nil, func(d store.DeletedLog) bool {
		s.command.end = d
		seen++
		return seen < s.command.left
	})
}

// Took is done when no soft-deleted log is left; else Next looks for more to do.
func (s *purgeSteps) Took(result any) bool {
	r := result.(purged)
	s.answer.BatchesDeleted += r.batches
	s.answer.LogsPurged += r.logs
	s.answer.FilesMarked += r.files
	s.command.left -= r.batches
	s.command.after = r.after
	s.full = r.batches == s.command.rows
	return !r.more
}

// Again goes on behind a part that was full, which left more of the same.
func (s *purgeSteps) Again() Command {
	if !s.full || s.command.left <= 0 {
		return nil
	}
	cmd := s.command
	return &cmd
}

func (s *purgeSteps) Answer() any { return &s.answer }

// purgeLogs is the logged command: one part of a purge.
type purgeLogs struct {
	empty bool             // only logs without batches go
	after store.DeletedLog // resume behind this log
	end   store.DeletedLog // last log of the window
	left  int64            // batches left of the client's cap
	rows  int64            // rows that the entry may take
}

// purged is the result of one part.
type purged struct {
	batches, logs, files int64
	after                store.DeletedLog // last log that is done with
	more                 bool             // a soft-deleted log is left
}

// beforeAllLogs is a position before all soft-deleted logs.
var beforeAllLogs = store.DeletedLog{DeletedAt: math.MinInt64}

func (*purgeLogs) Op() string { return "purge-deleted-logs" }

func (c *purgeLogs) fields(f *codec) {
	f.object(9, func(f *codec) {
		f.bool(&c.empty)
		f.int64(&c.after.DeletedAt)
		f.log(&c.after.Key)
		f.int64(&c.end.DeletedAt)
		f.log(&c.end.Key)
		f.int64(&c.left)
		f.int64(&c.rows)
	})
}

// findWork moves the position up to a log that the command would change.
func (c *purgeLogs) findWork(tx *store.ReadTx) (found bool, err error) {
	var logErr error
	err = tx.DeletedLogs(&c.after, func(d store.DeletedLog) bool {
		var l store.Log
		if l, _, logErr = tx.Log(d.Key); logErr != nil || !c.inWindow(d) {
			return false
		}
		found = l.Batches() == 0 || !c.empty && c.left > 0
		if found || !c.empty {
			return false
		}
		c.after = d
		return true
	})
	return found, errors.Join(err, logErr)
}

func (c *purgeLogs) inWindow(d store.DeletedLog) bool {
	order := cmp.Compare(d.DeletedAt, c.end.DeletedAt)
	if order == 0 {
		order = d.Key.Topic.Compare(c.end.Key.Topic)
	}
	return order < 0 || order == 0 && d.Key.Partition <= c.end.Key.Partition
}

// Apply visits at most rows logs and takes at most rows rows from them.
func (c *purgeLogs) Apply(tx *store.WriteTx, nowMs int64) (any, error) {
	result := purged{after: c.after}
	var logs []store.DeletedLog
	err := tx.DeletedLogs(&c.after, func(d store.DeletedLog) bool {
		if int64(len(logs)) >= c.rows || !c.inWindow(d) {
			return false
		}
		logs = append(logs, d)
		return true
	})
	if err != nil {
		return nil, err
	}
	p := purge{tx: tx, cmd: c, nowMs: nowMs, rows: c.rows, result: &result}
	for _, d := range logs {
		done, err := p.log(d)
		if err != nil {
			return nil, err
		}
		if !done {
			break
		}
		result.after = d
	}
	result.more = tx.Meta().Totals.DeletedLogs > 0
	return result, nil
}

// purge is one part under way.
type purge struct {
	tx     *store.WriteTx
	cmd    *purgeLogs
	nowMs  int64
	rows   int64 // left of the entry
	result *purged
}

// log purges one log as far as rows and the cap allow, and says whether it is
// done with: dropped, or not for this phase.
func (p *purge) log(d store.DeletedLog) (done bool, err error) {
	l, _, err := p.tx.Log(d.Key)
	if err != nil || p.rows <= 0 {
		return false, err
	}
	if p.cmd.empty && l.Batches() > 0 {
		p.rows--
		return true, nil
	}
	if err := p.trim(d.Key, &l); err != nil || l.Batches() > 0 {
		return false, err
	}
	dropped, err := dropProducers(p.tx, l.ID, p.rows)
	p.rows -= dropped
	if err != nil || p.rows <= 0 {
		return false, err
	}
	p.rows--
	p.result.logs++
	return true, p.tx.DropLog(d.Key)
}

// trim takes the oldest batches of the log.
func (p *purge) trim(key store.LogKey, l *store.Log) error {
	limit := min(p.rows, p.cmd.left-p.result.batches)
	t, err := p.tx.TrimBatches(l, p.nowMs, limit, func(*store.Batch) bool { return true })
	if err != nil || t.Batches == 0 {
		return err
	}
	p.rows -= t.Batches
	p.result.batches += t.Batches
	p.result.files += t.FilesMarked
	return p.tx.PutLog(key, *l)
}
