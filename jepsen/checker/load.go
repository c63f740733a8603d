package checker

import (
	"fmt"
	"slices"

	"github.com/cpnode/cpnode/jepsen/history"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// parsed is a history by partition.
type parsed struct {
	records []*history.Record
	logs    map[string]*log
	names   []string // of logs, in order
	nodes   []string // that were read at the end, in order
	files   [][]*commit
	fenced  []fenced
	excused []ops.Code // see Config
}

// log is what concerns one partition, in the order of lines.
type log struct {
	name    string
	commits []*commit
	byID    map[string]*commit
	byKey   map[string]*commit
	deletes []*deletion
	reads   []*read

	evidence []evidence          // in the order of time
	fillings map[*commit]filling // of commits that nobody was told of
}

// commit is one batch that a client wants in a log once, in all the attempts to get
// it there. A file holds at most one batch of a log.
type commit struct {
	id            string
	keys          []string // of the objects that it was sent in
	records, size int64
	attempts      []attempt
	sightings     []sighting
}

// attempt is a record that holds the batch, with its answer when that was ok.
type attempt struct {
	line     int
	record   *history.Record
	key      string
	answer   *ops.CommittedBatch
	replayed bool
}

// sighting is a read that found the batch.
type sighting struct {
	line   int
	record *history.Record
	batch  ops.FoundBatch
}

// deletion is a delete-records of one partition; answer is nil unless ok.
type deletion struct {
	line   int
	record *history.Record
	offset int64
	answer *ops.DeletedRecords
}

// read is an ok read of one partition; -1 is what its answer does not say.
type read struct {
	line       int
	record     *history.Record
	err        ops.Code
	start, end int64 // log start and high watermark
	bytes      int64 // size of the log
	find       *found
}

// found is what a find-batches asked and got.
type found struct {
	from, limit int64 // limit 0 is none
	batches     []ops.FoundBatch
}

// parse sorts a history by partition. Its error is a history that cannot be read;
// answers that must not be are violations.
func parse(records []*history.Record, excused []ops.Code, v *Verdict) (*parsed, error) {
	p := &parsed{records: records, excused: excused, logs: map[string]*log{}}
	for i, r := range records {
		if err := p.add(i+1, r, v); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	for name, l := range p.logs {
		p.names = append(p.names, name)
		l.link(v)
		l.evidence = l.collectEvidence()
		l.fillings = l.fill()
	}
	slices.Sort(p.names)
	slices.Sort(p.nodes)
	p.nodes = slices.Compact(p.nodes)
	return p, nil
}

func (p *parsed) add(line int, r *history.Record, v *Verdict) error {
	if r.Group != "" {
		return nil // see checkGroups
	}
	late := r.Op == "commit-file" && r.Error == ops.ObjectKeyFenced // see checkFenced
	if r.Outcome != history.OK && unexpected[r.Error] && !late && !slices.Contains(p.excused, r.Error) {
		v.fail(CheckAnswers, []int{line}, "%s answered %s: %s", r.Op, r.Error, r.Message)
	}
	if r.Final && r.Outcome == history.OK {
		p.nodes = append(p.nodes, r.Node)
	}
	switch r.Op {
	case "commit-file":
		return p.addCommit(line, r, v)
	case "delete-records":
		return p.addDeletion(line, r, v)
	case "find-batches":
		return p.addFind(line, r, v)
	case "get-log-info":
		return p.addInfo(line, r, v)
	case "list-offsets":
		return p.addOffsets(line, r, v)
	}
	return fmt.Errorf("operation %q is not known to the checker", r.Op)
}

// unexpected are errors of whole requests that no fault excuses.
var unexpected = map[ops.Code]bool{
	"": true, ops.Internal: true, ops.InvalidRequest: true, ops.NodeCorrupt: true, ops.StorageFull: true, ops.UnknownOperation: true,
	ops.ObjectKeyConflict: true, ops.ObjectKeyFenced: true, ops.UnsupportedFeatureLevel: true, ops.RequestTooLarge: true,
}

func (p *parsed) log(topic store.TopicID, partition int32) *log {
	name := history.Log(topic, partition)
	l := p.logs[name]
	if l == nil {
		l = &log{name: name, byID: map[string]*commit{}, byKey: map[string]*commit{}}
		p.logs[name] = l
	}
	return l
}

func (p *parsed) addCommit(line int, r *history.Record, v *Verdict) error {
	var request ops.CommitFileRequest
	var answer ops.CommitFileResponse
	if err := r.Decode(&request, &answer); err != nil {
		return err
	}
	var file []*commit
	for i := range request.Batches {
		b := &request.Batches[i]
		c := p.log(b.TopicID, b.Partition).commit(request.ObjectKey, b)
		a := attempt{line: line, record: r, key: request.ObjectKey, replayed: answer.Replayed}
		if r.Outcome == history.OK {
			if a.answer = &answer.Batches[i]; a.answer.Error != ops.None {
				v.fail(CheckAnswers, []int{line}, "the batch of %s in %s: %s", request.ObjectKey, history.Log(b.TopicID, b.Partition), a.answer.Error)
				a.answer = nil // nothing is known of where it is
			}
		}
		c.attempts = append(c.attempts, a)
		file = append(file, c)
	}
	p.files = append(p.files, file)
	if r.Error == ops.ObjectKeyFenced {
		p.fenced = append(p.fenced, fenced{line, r, request.ObjectKey, file})
	}
	return nil
}

// commit finds the commit that a batch is an attempt of: for an idempotent producer
// the same sequence, for others the same object.
func (l *log) commit(key string, b *ops.CommitBatch) *commit {
	id := key
	if b.ProducerID >= 0 {
		id = fmt.Sprintf("producer %d, epoch %d, sequence %d", b.ProducerID, b.ProducerEpoch, b.BaseSequence)
	}
	c := l.byID[id]
	if c == nil {
		c = &commit{id: id, records: b.LastOffset - b.BaseOffset + 1, size: b.ByteSize}
		l.byID[id], l.commits = c, append(l.commits, c)
	}
	if !slices.Contains(c.keys, key) {
		c.keys = append(c.keys, key)
	}
	l.byKey[key] = c
	return c
}

func (p *parsed) addDeletion(line int, r *history.Record, v *Verdict) error {
	var request ops.DeleteRecordsRequest
	var answer ops.DeleteRecordsResponse
	if err := r.Decode(&request, &answer); err != nil {
		return err
	}
	for i, q := range request.Requests {
		d := &deletion{line: line, record: r, offset: q.Offset}
		if r.Outcome == history.OK {
			d.answer = &answer.Responses[i]
			v.checkItem(line, r, d.answer.Error)
		}
		l := p.log(q.TopicID, q.Partition)
		l.deletes = append(l.deletes, d)
	}
	return nil
}

// checkItem refuses errors of items but that an offset is out of range.
func (v *Verdict) checkItem(line int, r *history.Record, code ops.Code) {
	if code != ops.None && code != ops.OffsetOutOfRange {
		v.fail(CheckAnswers, []int{line}, "%s of %v: %s", r.Op, r.Logs, code)
	}
}
