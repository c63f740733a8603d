package ops

import (
	"slices"

	"github.com/cpnode/cpnode/store"
)

// ElectLeaderRequest asks for another leader of a partition.
type ElectLeaderRequest struct {
	TopicID   store.TopicID `json:"topic_id"`
	Partition int32         `json:"partition" min:"0"`
	Election  string        `json:"election" oneof:"preferred,unclean" doc:"preferred: the first replica. unclean: a live replica that may lack records, where nothing else is left."`
}

// ElectLeaderResponse says whether the partition has another leader now.
type ElectLeaderResponse struct {
	Error Code `json:"error"`
}

// The values of ElectLeaderRequest.Election.
const (
	ElectionPreferred = "preferred"
	ElectionUnclean   = "unclean"
)

// Validate has nothing to check beyond the fields' bounds.
func (*ElectLeaderRequest) Validate(Limits) error { return nil }

// Begin logs one entry.
func (r *ElectLeaderRequest) Begin(Settings) Steps {
	return &once[*ElectLeaderResponse]{command: &electLeader{*r}}
}

// electLeader is the logged command.
type electLeader struct{ request ElectLeaderRequest }

func (*electLeader) Op() string { return "elect-leader" }

func (c *electLeader) fields(f *codec) {
	f.object(3, func(f *codec) {
		f.topicID(&c.request.TopicID)
		f.int32(&c.request.Partition)
		f.string(&c.request.Election)
	})
}

// Apply writes one registration.
func (c *electLeader) Apply(tx *store.WriteTx, nowMs int64) (any, error) {
	return applyDecided(c, tx, nowMs)
}

func (c *electLeader) decide(tx *store.ReadTx, _ int64) (change[*ElectLeaderResponse], error) {
	p, err := findPartition(tx, LogRef{c.request.TopicID, c.request.Partition})
	if err != nil {
		return change[*ElectLeaderResponse]{}, err
	}
	r, code := p.reg, p.problem
	switch {
	case code != None:
	case c.request.Election == ElectionUnclean:
		code, err = p.electUnclean(tx, &r)
	default:
		code, err = p.electPreferred(tx, &r)
	}
	answer := &ElectLeaderResponse{Error: code}
	if err != nil || code != None {
		return change[*ElectLeaderResponse]{answer: answer}, err
	}
	return change[*ElectLeaderResponse]{answer, func(tx *store.WriteTx) error { return p.put(tx, r, false) }}, nil
}

// electPreferred makes the first replica the leader.
func (p *partition) electPreferred(tx *store.ReadTx, r *store.Registration) (Code, error) {
	preferred := r.Replicas[0]
	if r.Leader == preferred {
		return ElectionNotNeeded, nil
	}
	live, err := liveOf(tx, r.ISR)
	if err != nil || !slices.Contains(live, preferred) {
		return PreferredLeaderNotAvailable, err
	}
	r.Leader = preferred
	return None, nil
}

// electUnclean makes the first live replica the leader, and the ISR of a partition
// that it may lack records of, where no member of the ISR lives. While nothing but local
// disks holds the prefix it never does, and of a classic partition only where the topic
// allows it.
func (p *partition) electUnclean(tx *store.ReadTx, r *store.Registration) (Code, error) {
	if r.Leader != store.NoLeader {
		return ElectionNotNeeded, nil
	}
	live, err := liveOf(tx, r.Replicas)
	if err != nil || len(live) == 0 || !p.mayElectUnclean() {
		return EligibleLeadersNotAvailable, err
	}
	if p.state().Diskless() {
		r.ISR, r.Leader = live, live[0]
		return None, nil
	}
	// Of the ISR, one may live that the walk of its broker has not come by yet.
	if err := elect(tx, r); err != nil || r.Leader != store.NoLeader {
		return None, err
	}
	r.ISR, r.Leader = live[:1], live[0]
	return None, nil
}

func (p *partition) mayElectUnclean() bool {
	if p.state().ClassicPrefixOnlyOnLocalDisks() {
		return false
	}
	return p.state().Diskless() || p.topic.Config[keyUncleanElection] == "true"
}
