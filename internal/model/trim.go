package model

import (
	"cmp"
	"maps"
	"slices"
)

// cut removes the oldest n batches of a log and returns their bytes.
func (m *Model) cut(l *log, n int) (bytes int64) {
	for _, b := range l.batches[:n] {
		bytes += b.byteSize
	}
	l.batches = l.batches[n:]
	m.changed = m.changed || n > 0
	m.markFiles()
	return bytes
}

// moveStart sets the log start, forward only, and says whether it moved.
func (m *Model) moveStart(l *log, offset int64) bool {
	if offset <= l.start {
		return false
	}
	l.start = offset
	m.changed = true
	return true
}

// firstBase is the base offset of the first retained batch; the high watermark when there is none.
func (l *log) firstBase() int64 {
	if len(l.batches) == 0 {
		return l.highWatermark
	}
	return l.batches[0].baseOffset
}

type deleteRecords struct {
	target
	Offset int64 `json:"offset"`
}

type deleteRecordsRequest struct {
	Requests []deleteRecords `json:"requests"`
}

type deleteRecordsAnswer struct {
	target
	Error    string `json:"error"`
	LogStart int64  `json:"log_start_offset"`
}

func (m *Model) deleteRecords(r deleteRecordsRequest) (any, string) {
	return each(r.Requests, func(q deleteRecords) deleteRecordsAnswer {
		l := m.log(q.target)
		if l == nil {
			return deleteRecordsAnswer{q.target, unknownPartition, none}
		}
		offset := q.Offset
		if offset == -1 {
			offset = l.highWatermark
		}
		if offset < 0 || offset > l.highWatermark {
			return deleteRecordsAnswer{q.target, offsetOutOfRange, none}
		}
		m.moveStart(l, offset)
		m.cut(l, countWhile(l.batches, func(b batch) bool { return b.lastOffset < l.start }))
		return deleteRecordsAnswer{q.target, noError, l.start}
	}), ""
}

// countWhile is how many batches from the first on satisfy the condition.
func countWhile(batches []batch, condition func(batch) bool) int {
	n := slices.IndexFunc(batches, func(b batch) bool { return !condition(b) })
	if n < 0 {
		return len(batches)
	}
	return n
}

type prune struct {
	target
	HighestRemote int64 `json:"highest_remote_offset"`
}

type pruneRequest struct {
	Requests   []prune `json:"requests"`
	MaxBatches natural `json:"max_batches"`
}

type pruneAnswer struct {
	target
	Error      string `json:"error"`
	LogStart   int64  `json:"log_start_offset"`
	Batches    int    `json:"batches_deleted"`
	Bytes      int64  `json:"bytes_deleted"`
	MoreRemain bool   `json:"more_remain"`
}

func (m *Model) pruneDisklessLogs(r pruneRequest) (any, string) {
	return each(r.Requests, func(q prune) pruneAnswer {
		l := m.log(q.target)
		if l == nil {
			return pruneAnswer{q.target, unknownPartition, none, none, none, false}
		}
		found := countWhile(l.batches, func(b batch) bool { return b.lastOffset <= q.HighestRemote })
		n := withinCap(found, r.MaxBatches)
		bytes := m.cut(l, n)
		m.movePrunedStart(l, q.HighestRemote)
		return pruneAnswer{q.target, noError, l.start, n, bytes, n < found}
	}), ""
}

func withinCap(n int, limit natural) int {
	if capped(n, limit) {
		return int(limit)
	}
	return n
}

// movePrunedStart moves the log start after a prune. What EARLIEST answers stays: tiered storage still has it.
func (m *Model) movePrunedStart(l *log, highestRemote int64) {
	old := l.start
	offset := l.firstBase()
	if len(l.batches) == 0 && highestRemote < l.highWatermark {
		offset = highestRemote + 1
	}
	if m.moveStart(l, offset) && l.remoteStart == none {
		l.remoteStart = old
	}
}

type retention struct {
	target
	Bytes int64 `json:"retention_bytes"`
	Ms    int64 `json:"retention_ms"`
}

type retentionRequest struct {
	Requests   []retention `json:"requests"`
	MaxBatches natural     `json:"max_batches_per_request"`
}

type retentionAnswer struct {
	target
	Error    string `json:"error"`
	Batches  int    `json:"batches_deleted"`
	Bytes    int64  `json:"bytes_deleted"`
	LogStart int64  `json:"log_start_offset"`
}

func (m *Model) enforceRetention(r retentionRequest) (any, string) {
	return each(r.Requests, func(q retention) retentionAnswer {
		l := m.log(q.target)
		if l == nil {
			return retentionAnswer{q.target, unknownPartition, none, none, none}
		}
		n := withinCap(m.expired(l, q), r.MaxBatches)
		bytes := m.cut(l, n)
		if n > 0 {
			m.moveStart(l, l.firstBase())
		}
		return retentionAnswer{q.target, noError, n, bytes, l.start}
	}), ""
}

// expired counts the batches before the first that both policies keep.
func (m *Model) expired(l *log, q retention) int {
	retained := l.byteSize()
	return countWhile(l.batches, func(b batch) bool {
		tooLarge := q.Bytes >= 0 && retained > q.Bytes
		tooOld := q.Ms >= 0 && b.timestamp() < m.now-q.Ms
		retained -= b.byteSize
		return tooLarge || tooOld
	})
}

type purgeRequest struct {
	MaxBatches natural `json:"max_batches"`
}

type purgeAnswer struct {
	Batches    int   `json:"batches_deleted"`
	Logs       int   `json:"logs_purged"`
	Files      int64 `json:"files_marked"`
	MoreRemain bool  `json:"more_remain"`
	CapReached bool  `json:"cap_reached"`
}

func (m *Model) purgeDeletedLogs(r purgeRequest) (any, string) {
	var answer purgeAnswer
	window := m.deletedLogs()
	window = window[:withinCap(len(window), r.MaxBatches)]
	m.changed = len(window) > 0
	before := len(window)
	window = slices.DeleteFunc(window, m.dropIfEmpty)
	answer.Logs = before - len(window)
	for _, at := range window {
		l := m.topics[at.id].logs[at.partition]
		n := len(l.batches)
		if r.MaxBatches > 0 {
			n = min(n, int(r.MaxBatches)-answer.Batches)
		}
		l.batches = l.batches[n:]
		answer.Batches += n
		if m.dropIfEmpty(at) {
			answer.Logs++
		}
	}
	answer.Files = m.markFiles()
	answer.MoreRemain = len(m.deletedLogs()) > 0
	answer.CapReached = answer.MoreRemain && r.MaxBatches > 0
	return answer, ""
}

// deletedLogs returns the soft-deleted logs, the one deleted first first.
func (m *Model) deletedLogs() []logKey {
	var found []logKey
	for id, t := range m.topics {
		if t.deletedAt != live {
			for p := range t.logs {
				found = append(found, logKey{id, p})
			}
		}
	}
	slices.SortFunc(found, func(a, b logKey) int {
		return cmp.Or(
			cmp.Compare(m.topics[a.id].deletedAt, m.topics[b.id].deletedAt),
			cmp.Compare(a.id, b.id),
			cmp.Compare(a.partition, b.partition))
	})
	return found
}

// dropIfEmpty removes a soft-deleted log without batches, and its topic with the last log.
func (m *Model) dropIfEmpty(at logKey) bool {
	t := m.topics[at.id]
	if len(t.logs[at.partition].batches) > 0 {
		return false
	}
	delete(t.logs, at.partition)
	if len(t.logs) == 0 {
		delete(m.topics, at.id)
	}
	return true
}

type expireProducersRequest struct {
	IdleBefore int64   `json:"idle_before"`
	MaxRows    natural `json:"max_rows"`
}

type expireAnswer struct {
	Removed int    `json:"removed"`
	Next    string `json:"next"`
}

// expireProducers removes all idle ones: which of them a bounded call takes first is the order of the real keys, and
// its cursor is opaque.
func (m *Model) expireProducers(r expireProducersRequest) (any, string) {
	var answer expireAnswer
	for _, t := range m.topics {
		for _, l := range t.logs {
			before := len(l.producers)
			maps.DeleteFunc(l.producers, func(_ int64, p *producer) bool { return p.updatedAt < r.IdleBefore })
			answer.Removed += before - len(l.producers)
		}
	}
	m.changed = answer.Removed > 0
	return answer, ""
}
