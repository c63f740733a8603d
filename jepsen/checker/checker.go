package checker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cpnode/cpnode/jepsen/history"
	"github.com/cpnode/cpnode/jepsen/nemesis"
	"github.com/cpnode/cpnode/ops"
)

// Files of a run's directory. Beside them are a directory and a log for each node.
const (
	HistoryFile = "history.jsonl" // see package history
	FaultsFile  = "faults.jsonl"  // one nemesis.Fault a line
	BinaryFile  = "cpnode"        // the binary that ran
)

// Config bounds the search.
type Config struct {
	// Budget is how long the search may take for one partition.
	Budget time.Duration
	// Parallel is how many partitions are searched at a time.
	Parallel int
	// Excused are errors of whole requests that the faults of the run explain.
	Excused []ops.Code
	// Doctor is one of Doctors: the history is made wrong in that way before it is
	// judged, to see that this is noticed. The file stays as it is. Empty: it is not.
	Doctor string
}

// DefaultConfig is enough for a few hundred operations a partition.
func DefaultConfig() Config { return Config{Budget: time.Minute, Parallel: 2} }

// Report is a verdict with what it is about.
type Report struct {
	Verdict
	Summary Summary
	Records []*history.Record // line n is at n-1
	Faults  []nemesis.Fault
	// Doctored is what Config.Doctor changed in the records; empty: nothing.
	Doctored string
}

// explained are the errors of whole requests that only these faults explain.
func explained(faults []nemesis.Fault) (codes []ops.Code) {
	for _, f := range faults {
		if strings.HasPrefix(f.Kind, nemesis.FullDisk) {
			return []ops.Code{ops.StorageFull}
		}
	}
	return nil
}

// Check judges the run in dir, whose nodes have stopped. Its error is a directory
// that cannot be judged.
func Check(ctx context.Context, dir string, config Config) (*Report, error) {
	records, err := history.Read(filepath.Join(dir, HistoryFile))
	if err != nil {
		return nil, err
	}
	faults, err := nemesis.Read(filepath.Join(dir, FaultsFile))
	if err != nil {
		return nil, err
	}
	r := &Report{Records: records, Faults: faults}
	if config.Doctor != "" {
		if r.Doctored, err = doctor(records, config.Doctor); err != nil {
			return nil, err
		}
	}
	config.Excused = append(config.Excused, explained(faults)...)
	p, err := r.checkHistory(records, config, dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, HistoryFile), err)
	}
	r.Summary = summarize(records, faults, len(p.names))
	if len(p.nodes) > 0 {
		return r, r.checkFiles(ctx, dir, p.nodes)
	}
	return r, nil
}

// CheckSoFar judges a history that goes on, read at a moment when no operation was
// under way. What was read last is where acknowledged commits must be found.
func CheckSoFar(records []*history.Record, config Config) (*Verdict, error) {
	v := &Verdict{}
	p, err := v.checkAnswers(records, config.Excused)
	if err != nil {
		return nil, err
	}
	return v, p.checkLinearizable(v, config, "")
}

// CheckHistory judges a history that ends with reads of all that every node holds.
func CheckHistory(records []*history.Record, config Config) (*Verdict, error) {
	v := &Verdict{}
	_, err := v.checkHistory(records, config, "")
	return v, err
}

// checkHistory does all checks of a history; drawings are written to dir unless it
// is empty.
func (v *Verdict) checkHistory(records []*history.Record, config Config, dir string) (*parsed, error) {
	p, err := v.checkAnswers(records, config.Excused)
	if err != nil {
		return nil, err
	}
	p.checkHeld(v)
	if err := v.checkGroups(records, dir); err != nil {
		return nil, err
	}
	return p, p.checkLinearizable(v, config, dir)
}

// checkGroups does the checks of operations that have a group.
func (v *Verdict) checkGroups(records []*history.Record, dir string) error {
	o, err := checkOwned(v, records)
	if err != nil {
		return err
	}
	if dir != "" {
		err = o.checkStore(dir)
	}
	return errors.Join(err, checkSwitched(v, records))
}

// checkAnswers holds the answers against each other.
func (v *Verdict) checkAnswers(records []*history.Record, excused []ops.Code) (*parsed, error) {
	p, err := parse(records, excused, v)
	if err != nil {
		return nil, err
	}
	for _, name := range p.names {
		l := p.logs[name]
		for _, check := range []func(*Verdict){l.checkCommits, l.checkOffsets, l.checkFresh, l.checkMinIndex, l.checkIndex} {
			check(v)
		}
	}
	p.checkWhole(v)
	p.checkFenced(v)
	return p, nil
}

// checkLinearizable searches partition by partition.
func (p *parsed) checkLinearizable(v *Verdict, config Config, dir string) error {
	var mu sync.Mutex
	var searches errgroup.Group
	searches.SetLimit(config.Parallel)
	for i, name := range p.names {
		searches.Go(func() error {
			path := ""
			if dir != "" {
				path = filepath.Join(dir, fmt.Sprintf("partition-%d.html", i))
			}
			var found Verdict
			p.logs[name].checkLinearizable(&found, config.Budget, path)
			mu.Lock()
			defer mu.Unlock()
			v.Violations, v.Unknown = append(v.Violations, found.Violations...), append(v.Unknown, found.Unknown...)
			return nil
		})
	}
	return searches.Wait()
}
