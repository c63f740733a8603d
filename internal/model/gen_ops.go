package model

import (
	"math"
	"strconv"
)

func (g *Gen) findBatches(m *Model) any {
	return findRequest{
		Requests: some(g, func() find {
			at := g.target(m)
			return find{at, g.offset(m, at), pick[fetchSize](g, 0, 1, 100, 400, 2000, math.MaxInt32)}
		}),
		MaxBytes:   pick[fetchSize](g, 0, 1, 300, 1000, math.MaxInt32, math.MaxInt32),
		MaxBatches: g.cap(),
	}
}

func (g *Gen) listOffsets(m *Model) any {
	return listOffsetsRequest{some(g, func() listOffset {
		at := g.target(m)
		if g.one(2) {
			return listOffset{at, -g.upTo(6)}
		}
		return listOffset{at, g.timestamp(m, at)}
	})}
}

func (g *Gen) targets(m *Model) any {
	return targets{some(g, func() target { return g.target(m) })}
}

func (g *Gen) createTopics(m *Model) any {
	return createTopicsRequest{some(g, func() createTopic {
		r := createTopic{
			TopicID: g.topicID(), Name: g.topicName(),
			FirstPartition: partition(g.r.Intn(2)), NumPartitions: partition(g.r.Intn(partitions + 1)),
			Config: map[string]string{},
		}
		if t := m.topics[r.TopicID]; t != nil && !g.one(5) {
			r.Name = t.name
		}
		if g.one(3) {
			r.Config["retention.ms"] = pick(g, "1000", "2000")
		}
		if g.one(6) {
			r.Config["diskless.enable"] = pick(g, "true", "true", "false")
		}
		if g.one(6) {
			r.Config["cleanup.policy"] = pick(g, "delete", "compact", "compact,delete")
		}
		switch g.r.Intn(60) {
		case 0:
			r.TopicID = zeroTopicID
		case 1:
			r.Name = pick(g, "", ".", "..", "a b", "ü")
		case 2:
			r.NumPartitions = 10_001
		case 3:
			r.Config[pick(g, "retention.hours", "cleanup.policy", "retention.bytes", "unclean.leader.election.enable")] = pick(g, "-2", "delete,", "yes")
		}
		return r
	})}
}

func (g *Gen) deleteTopics(*Model) any {
	if id, _ := g.classicTopic(); g.one(4) {
		return deleteTopicsRequest{[]topicID{id}}
	}
	return deleteTopicsRequest{some(g, g.topicID)}
}

// listTopicsRequest is a listRequest without the state that only files have.
type listTopicsRequest struct {
	After topicID `json:"after"`
	Limit natural `json:"limit"`
}

func (g *Gen) listTopics(*Model) any {
	r := listTopicsRequest{Limit: g.cap()}
	if g.one(2) {
		r.After = g.topicID()
	}
	if g.one(20) {
		r.Limit = maxListLimit + 1
	}
	return r
}

func (g *Gen) describeTopic(*Model) any {
	switch g.r.Intn(10) {
	case 0:
		return struct{}{}
	case 1, 2, 3, 4:
		return map[string]string{"topic_name": g.topicName()}
	}
	return map[string]topicID{"topic_id": g.topicID()}
}

func (g *Gen) deleteRecords(m *Model) any {
	return deleteRecordsRequest{some(g, func() deleteRecords {
		at := g.target(m)
		return deleteRecords{at, g.offset(m, at)}
	})}
}

func (g *Gen) prune(m *Model) any {
	return pruneRequest{some(g, func() prune {
		at := g.target(m)
		return prune{at, g.offset(m, at)}
	}), g.cap()}
}

func (g *Gen) retention(m *Model) any {
	return retentionRequest{some(g, func() retention {
		r := retention{g.target(m), -1 - g.upTo(1), -1 - g.upTo(1)}
		l := m.log(r.target)
		if !g.one(3) {
			r.Bytes = g.upTo(2000)
			if l != nil && g.one(2) {
				r.Bytes = g.keptBytes(l)
			}
		}
		if !g.one(3) {
			r.Ms = max(-1, g.clockMs-g.timestamp(m, r.target))
		}
		return r
	}), g.cap()}
}

// keptBytes is the size of what follows some batch, exactly: the edge of size retention.
func (g *Gen) keptBytes(l *log) int64 {
	size := l.byteSize()
	for _, b := range l.batches[:g.r.Intn(len(l.batches)+1)] {
		size -= b.byteSize
	}
	return size
}

func (g *Gen) purge(*Model) any { return purgeRequest{g.cap()} }

func (g *Gen) filesToDelete(m *Model) any {
	before := pick(g, g.clockMs, m.lastClockMs+1, 0)
	if len(m.files) > 0 && g.one(2) {
		before = pick(g, m.files...).markedAt
	}
	return filesToDeleteRequest{before, g.cap()}
}

// deleteFiles reports a few keys, or as a cleaner does all that may go: the model would fill up without it.
func (g *Gen) deleteFiles(m *Model) any {
	if g.one(4) {
		return deleteFilesRequest{m.markedKeys()}
	}
	return deleteFilesRequest{some(g, func() string { return g.deletedKey(m) })}
}

func (g *Gen) isSafe(m *Model) any {
	return safeRequest{g.deletedKey(m), g.one(2)}
}

func (g *Gen) listFiles(m *Model) any {
	r := listRequest{State: pick(g, "", "uploaded", "deleting"), Limit: g.cap()}
	if len(m.files) > 0 && g.one(2) {
		r.After = strconv.FormatInt(pick(g, m.files...).id, 10)
	}
	return r
}

func (g *Gen) advance(m *Model) any {
	return advanceRequest{some(g, func() advance {
		at := g.target(m)
		return advance{at, natural(max(0, g.offset(m, at)))}
	})}
}

func (g *Gen) initLogs(m *Model) any {
	return initRequest{some(g, func() initLog {
		seal := pick(g, 0, g.upTo(30), g.upTo(30))
		r := initLog{
			target: target{g.topicID(), partition(g.r.Intn(partitions))}, Name: g.topicName(),
			LogStart: g.upTo(seal), DisklessStart: seal, Producers: []producerEntry{},
		}
		if t := m.topics[r.TopicID]; t != nil && !g.one(8) {
			r.Name = t.name
		}
		if g.one(15) {
			r.LogStart = seal + 1
		}
		if g.one(2) {
			r.Producers = g.producerEntries()
		}
		return r
	})}
}

// producerEntries are the histories of producers about to run out of sequence numbers.
func (g *Gen) producerEntries() []producerEntry {
	entries := []producerEntry{}
	for id := range g.upTo(producerIDs) {
		next := math.MaxInt32 - int32(g.upTo(12))
		for range 1 + g.r.Intn(7) {
			last := (next + int32(g.upTo(2))) & math.MaxInt32
			epoch := pick[int16](g, 1, 1, 1, 1, 1, 1, 1, 0, 2)
			entries = append(entries, producerEntry{id, epoch, next, last, g.upTo(10), g.clockMs - g.upTo(1000)})
			next = sequenceAfter(last)
		}
	}
	return entries
}

func (g *Gen) repair(m *Model) any {
	return repairRequest{some(g, func() repair {
		at := g.target(m)
		return repair{at, max(0, g.offset(m, at))}
	})}
}

func (g *Gen) expireProducers(*Model) any {
	return expireProducersRequest{g.clockMs - g.upTo(2_000_000), 0}
}

func (g *Gen) expire(*Model) any { return expireRequest{g.cap()} }
