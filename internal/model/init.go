package model

import "slices"

type advance struct {
	target
	RemoteStart natural `json:"remote_log_start_offset"`
}

type advanceRequest struct {
	Requests []advance `json:"requests"`
}

func (m *Model) advanceCrossTierLogStart(r advanceRequest) (any, string) {
	return each(r.Requests, func(q advance) crossTierAnswer {
		l := m.log(q.target)
		if l == nil {
			return crossTierAnswer{q.target, unknownPartition, none}
		}
		if int64(q.RemoteStart) > l.remoteStart { // also when absent, which is -1
			l.remoteStart = int64(q.RemoteStart)
			m.changed = true
		}
		return crossTierAnswer{q.target, noError, l.remoteStart}
	}), ""
}

type initLog struct {
	target
	Name          string          `json:"topic_name"`
	LogStart      int64           `json:"log_start_offset"`
	DisklessStart int64           `json:"diskless_start_offset"`
	Producers     []producerEntry `json:"producer_states"`
}

type initRequest struct {
	Requests []initLog `json:"requests"`
}

type itemAnswer struct {
	target
	Error string `json:"error"`
}

func (m *Model) initDisklessLog(r initRequest) (any, string) {
	for _, q := range r.Requests {
		if slices.ContainsFunc(q.Producers, func(p producerEntry) bool { return p.ProducerID < 0 || p.Epoch < 0 }) {
			return nil, invalidRequest
		}
	}
	return each(r.Requests, func(q initLog) itemAnswer {
		err := m.checkInit(q)
		if err == noError {
			m.initLog(q)
		}
		return itemAnswer{q.target, err}
	}), ""
}

func (m *Model) checkInit(q initLog) string {
	if q.LogStart < 0 || q.DisklessStart < q.LogStart || int(q.Partition) >= m.cfg.MaxPartitionsPerTopic {
		return invalidRequest
	}
	t := m.topics[q.TopicID]
	if t == nil {
		return m.checkName(q.TopicID, q.Name)
	}
	if t.deletedAt != live {
		return unknownPartition
	}
	if t.name != q.Name || t.origin == classic || t.parts[q.Partition] != nil {
		return invalidRequest
	}
	l := t.logs[q.Partition]
	if l == nil || l.placeholder() && q.DisklessStart > 0 {
		return noError
	}
	return alreadyInitialized
}

// placeholder says that a log was created but never used.
func (l *log) placeholder() bool {
	return l.highWatermark == 0 && l.disklessStart == 0 && len(l.batches) == 0
}

func (m *Model) initLog(q initLog) {
	t := m.topics[q.TopicID]
	if t == nil {
		t = m.addTopic(q.TopicID, q.Name)
	}
	l := t.logs[q.Partition]
	if l == nil {
		l = &log{remoteStart: none}
		t.logs[q.Partition] = l
	}
	l.start, l.disklessStart, l.highWatermark = q.LogStart, q.DisklessStart, q.DisklessStart
	l.producers = map[int64]*producer{}
	for _, p := range q.Producers {
		l.addSequence(p.ProducerID, p.Epoch, sequence{p.BaseSequence, p.LastSequence, p.Assigned, p.MaxTime}, m.now)
	}
	m.changed = true
}

type repair struct {
	target
	DisklessStart int64 `json:"diskless_start_offset"`
}

type repairRequest struct {
	Requests []repair `json:"requests"`
}

func (m *Model) repairDisklessLog(r repairRequest) (any, string) {
	return each(r.Requests, func(q repair) itemAnswer {
		if t := m.topics[q.TopicID]; t != nil && t.parts[q.Partition] != nil {
			return itemAnswer{q.target, invalidRequest}
		}
		l := m.log(q.target)
		if l == nil {
			return itemAnswer{q.target, unknownPartition}
		}
		if q.DisklessStart < 0 {
			return itemAnswer{q.target, invalidRequest}
		}
		m.changed = m.changed || l.disklessStart != q.DisklessStart
		l.disklessStart = q.DisklessStart
		return itemAnswer{q.target, noError}
	}), ""
}
