package ops

import (
	"fmt"

	"github.com/cpnode/cpnode/store"
)

// OverrideSwitchRequest is an operator's change of where a partition stands in its
// switch, without asking its leader.
type OverrideSwitchRequest struct {
	TopicID             store.TopicID `json:"topic_id"`
	Partition           int32         `json:"partition" min:"0"`
	SealOffset          int64         `json:"seal_offset" doc:">= 0 seals there, -1 aborts the switch, -2 arms it (again)."`
	LogStartOffset      int64         `json:"log_start_offset" doc:"Of the leader's classic log; a seal lies between the two."`
	LogEndOffset        int64         `json:"log_end_offset" doc:"Of the leader's classic log."`
	ClearProducerStates bool          `json:"clear_producer_states" default:"false" doc:"Forget the producers that an earlier seal came with."`
	DryRun              bool          `json:"dry_run" default:"false" doc:"Only say what would happen."`
}

// OverrideSwitchResponse says what was done, or would be.
type OverrideSwitchResponse struct {
	Error      Code          `json:"error"`
	Message    string        `json:"message,omitzero" doc:"Why not, for people."`
	Unreadable []OffsetRange `json:"unreadable,omitzero" doc:"Of a dry run: the classic records that nobody could read any more."`
}

// OffsetRange is the offsets [From, To).
type OffsetRange struct {
	From int64 `json:"from_offset"`
	To   int64 `json:"to_offset"`
}

// WithoutMessage is the answer as a trace has it.
func (r *OverrideSwitchResponse) WithoutMessage() any {
	return &OverrideSwitchResponse{Error: r.Error, Unreadable: r.Unreadable}
}

// Validate has nothing to check beyond the fields' bounds.
func (*OverrideSwitchRequest) Validate(Limits) error { return nil }

// Begin logs one entry, or none for a dry run.
func (r *OverrideSwitchRequest) Begin(Settings) Steps {
	return &once[*OverrideSwitchResponse]{command: &overrideSwitch{*r}}
}

// overrideSwitch is the logged command.
type overrideSwitch struct{ request OverrideSwitchRequest }

func (*overrideSwitch) Op() string { return "override-switch" }

func (c *overrideSwitch) fields(f *codec) {
	f.object(7, func(f *codec) {
		f.topicID(&c.request.TopicID)
		f.int32(&c.request.Partition)
		f.int64(&c.request.SealOffset)
		f.int64(&c.request.LogStartOffset)
		f.int64(&c.request.LogEndOffset)
		f.bool(&c.request.ClearProducerStates)
		f.bool(&c.request.DryRun)
	})
}

// Apply writes a registration, its log's row, and what the seal brought of producers.
func (c *overrideSwitch) Apply(tx *store.WriteTx, nowMs int64) (any, error) {
	return applyDecided(c, tx, nowMs)
}

func (c *overrideSwitch) decide(tx *store.ReadTx, _ int64) (change[*OverrideSwitchResponse], error) {
	p, err := findPartition(tx, LogRef{c.request.TopicID, c.request.Partition})
	if err != nil {
		return change[*OverrideSwitchResponse]{}, err
	}
	answer := c.check(&p)
	if answer.Error != None || c.request.DryRun {
		return change[*OverrideSwitchResponse]{answer: answer}, nil
	}
	producers, err := tx.SealProducers(p.key)
	if err != nil {
		return change[*OverrideSwitchResponse]{}, err
	}
	if !c.request.ClearProducerStates {
		producers = nil
	}
	r, changes := c.altered(p.reg)
	if !changes && len(producers) == 0 {
		return change[*OverrideSwitchResponse]{answer: answer}, nil
	}
	return change[*OverrideSwitchResponse]{answer, func(tx *store.WriteTx) error { return c.write(tx, &p, r, producers) }}, nil
}

func (c *overrideSwitch) check(p *partition) *OverrideSwitchResponse {
	refused := func(code Code, format string, args ...any) *OverrideSwitchResponse {
		return &OverrideSwitchResponse{Error: code, Message: fmt.Sprintf(format, args...)}
	}
	r, old := &c.request, p.reg.ClassicToDisklessStartOffset
	switch {
	case p.problem != None:
		return refused(p.problem, "there is no such partition")
	case p.topic.Origin != store.OriginClassic:
		return refused(InvalidRequest, "the topic was born diskless")
	case p.topic.Config[keyDisklessEnable] != "true":
		return refused(InvalidRequest, "the topic is not in a switch: diskless.enable is not true")
	case p.topic.Config[keyUncleanElection] == "true" && r.SealOffset != store.NoSwitch: // an abort endangers nothing
		return refused(InvalidRequest, "the topic allows unclean election, which could lose the prefix")
	case r.SealOffset < store.SwitchPending:
		return refused(InvalidRequest, "seal_offset: must be an offset, -1 or -2")
	case r.SealOffset < 0 && old >= 0:
		return refused(InvalidRequest, "the partition is sealed at %d; a seal can only be moved down", old)
	case r.SealOffset < 0:
		return &OverrideSwitchResponse{Error: None}
	case p.reg.ClassicPrefixInRemoteStorage:
		return refused(InvalidRequest, "the prefix below %d is in remote storage, where it stays", old)
	case r.LogStartOffset < 0 || r.SealOffset < r.LogStartOffset || r.SealOffset > r.LogEndOffset:
		return refused(InvalidRequest, "seal_offset: must be between log_start_offset and log_end_offset")
	case old >= 0 && r.SealOffset > old:
		return refused(InvalidRequest, "the partition is sealed at %d; a seal can only be moved down", old)
	}
	answer := &OverrideSwitchResponse{Error: None}
	if r.DryRun {
		answer.Unreadable = c.loses(old)
	}
	return answer
}

// loses says which classic records a seal makes unreadable: those from it on, up to
// where they end or the seal before.
func (c *overrideSwitch) loses(old int64) []OffsetRange {
	end := c.request.LogEndOffset
	if old >= 0 {
		end = min(end, old)
	}
	if c.request.SealOffset >= end {
		return nil
	}
	return []OffsetRange{{c.request.SealOffset, end}}
}

// altered is a registration as asked for, and whether that changes anything. Arming
// again does: its new leader epoch has brokers begin again.
func (c *overrideSwitch) altered(r store.Registration) (store.Registration, bool) {
	asked, old := c.request.SealOffset, r.ClassicToDisklessStartOffset
	if asked == old {
		return r, asked == store.SwitchPending
	}
	if asked >= 0 && old < 0 {
		r.DisklessLeaderEpoch = r.LeaderEpoch
	}
	r.ClassicToDisklessStartOffset = asked
	r.SealedBy = noBroker // a retry of the leader's own seal is not this one
	return r, true
}

// write puts what the registration has become, forgets the producers that an earlier
// seal came with, and has the log or the topic follow.
func (c *overrideSwitch) write(tx *store.WriteTx, p *partition, r store.Registration, forget []store.SealProducer) error {
	sealed := r.ClassicToDisklessStartOffset >= 0
	if err := p.put(tx, r, !sealed); err != nil {
		return err
	}
	if !sealed {
		return leaveSwitch(tx, c.request.TopicID)
	}
	if err := forgetSealProducers(tx, p.key, forget); err != nil {
		return err
	}
	return c.writeLog(tx, p.key)
}

// writeLog has the diskless log begin at the seal: where one is, only that changes.
func (c *overrideSwitch) writeLog(tx *store.WriteTx, key store.LogKey) error {
	l, exists, err := tx.Log(key)
	if err != nil {
		return err
	}
	if !exists {
		return tx.CreateLog(key, store.NewLog(c.request.LogStartOffset, c.request.SealOffset))
	}
	l.DisklessStartOffset = c.request.SealOffset
	return tx.PutLog(key, l)
}

// forgetSealProducers removes the producers that a seal came with, from the log too.
func forgetSealProducers(tx *store.WriteTx, key store.LogKey, producers []store.SealProducer) error {
	if len(producers) == 0 {
		return nil
	}
	l, _, err := tx.Log(key)
	if err != nil {
		return err
	}
	for _, p := range producers {
		if err := tx.DropProducer(l.ID, p.ProducerID); err != nil {
			return err
		}
	}
	return tx.PutSealProducers(key, nil)
}

// leaveSwitch makes a topic without partitions in the switch a classic one again.
func leaveSwitch(tx *store.WriteTx, id store.TopicID) error {
	switched := false
	err := eachPartition(&tx.ReadTx, id, func(p *partition) bool {
		switched = p.state() != StateClassic
		return !switched
	})
	if err != nil || switched {
		return err
	}
	return setConfig(tx, id, keyDisklessEnable, "false")
}
