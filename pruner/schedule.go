package pruner

import (
	"container/heap"
	"context"
	"time"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// schedule is which partitions retention is enforced on, and when. It follows the
// topics by listing them; the partitions of one are read only when their number
// changed.
type schedule struct {
	plane      RetentionControlPlane
	pageTopics int64 // in one answer
	interval   time.Duration
	random     func() float64

	topics     map[store.TopicID]*topic
	due        turns
	generation uint64 // of refresh
}

// topic is one that has a policy.
type topic struct {
	id         store.TopicID
	policy     policy
	partitions int64 // as listed when they were last read; -1 to read them again
	known      map[int32]bool
	generation uint64
	gone       bool // no longer enforced; its turns are dropped when they come
}

// turn is when a partition's turn is.
type turn struct {
	at        time.Time
	topic     *topic
	partition int32
}

// turns is a heap, the earliest first.
type turns []turn

func (t turns) Len() int           { return len(t) }
func (t turns) Less(i, j int) bool { return t[i].at.Before(t[j].at) }
func (t turns) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *turns) Push(x any)        { *t = append(*t, x.(turn)) }
func (t *turns) Pop() any {
	last := len(*t) - 1
	x := (*t)[last]
	(*t)[last] = turn{}
	*t = (*t)[:last]
	return x
}

func newSchedule(plane RetentionControlPlane, pageTopics int, interval time.Duration, random func() float64) *schedule {
	return &schedule{plane: plane, pageTopics: int64(pageTopics), interval: interval, random: random, topics: map[store.TopicID]*topic{}}
}

// refresh takes up new topics and partitions and changed policies, and lets go of
// what is deleted or has no policy any more.
func (s *schedule) refresh(ctx context.Context, now time.Time) error {
	s.generation++
	request := ops.ListTopicsRequest{Limit: s.pageTopics}
	for {
		page, err := s.plane.ListTopics(ctx, &request)
		if err != nil {
			return err
		}
		for i := range page.Topics {
			if err := s.follow(ctx, &page.Topics[i], now); err != nil {
				return err
			}
		}
		if request.After = page.Next; page.Next == "" {
			break
		}
	}
	for id, t := range s.topics {
		if t.generation != s.generation {
			t.gone = true
			delete(s.topics, id)
		}
	}
	return nil
}

func (s *schedule) follow(ctx context.Context, info *ops.TopicInfo, now time.Time) error {
	p := policyOf(info.Config)
	if p.off() || info.DeletedAt >= 0 {
		return nil
	}
	t := s.topics[info.TopicID]
	if t == nil {
		t = &topic{id: info.TopicID, partitions: -1, known: map[int32]bool{}}
		s.topics[info.TopicID] = t
	}
	t.policy, t.generation = p, s.generation
	if t.partitions == info.Partitions {
		return nil
	}
	return s.readPartitions(ctx, t, now)
}

func (s *schedule) readPartitions(ctx context.Context, t *topic, now time.Time) error {
	answer, err := s.plane.DescribeTopic(ctx, &ops.DescribeTopicRequest{TopicID: t.id})
	if err != nil {
		return err
	}
	for _, l := range answer.Logs {
		if l.Error == ops.None && !t.known[l.Partition] {
			t.known[l.Partition] = true
			s.put(turn{now.Add(s.draw()), t, l.Partition})
		}
	}
	t.partitions = answer.Partitions
	return nil
}

// draw is a wait that is the interval on average.
func (s *schedule) draw() time.Duration {
	return time.Duration(s.random() * 2 * float64(s.interval))
}

func (s *schedule) put(t turn) { heap.Push(&s.due, t) }

// take is the turns that have come, the earliest first.
func (s *schedule) take(now time.Time) (taken []turn) {
	for len(s.due) > 0 && !s.due[0].at.After(now) {
		if t := heap.Pop(&s.due).(turn); !t.topic.gone {
			taken = append(taken, t)
		}
	}
	return taken
}

// forget drops a partition that the control plane does not know. If its topic lives
// its partitions are read again.
func (s *schedule) forget(t turn) {
	delete(t.topic.known, t.partition)
	t.topic.partitions = -1
}

// first is the earliest turn, the zero time without one.
func (s *schedule) first() time.Time {
	if len(s.due) == 0 {
		return time.Time{}
	}
	return s.due[0].at
}
