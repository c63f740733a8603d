package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tinyOptions measure everything once, too small to mean anything.
func tinyOptions(t *testing.T) Options {
	o := DefaultOptions()
	o.Dir = t.TempDir()
	o.Duration, o.Sync = minDuration, syncBoth
	o.Scale = Scale{Name: "tiny", Batches: 4000, Drained: 2000, Clients: []int{1, 64}}
	return o
}

func TestRunMeasuresEveryWork(t *testing.T) {
	o := tinyOptions(t)
	steps := 0
	o.Progress = func(string) { steps++ }
	report, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.Positive(t, steps)
	var measured []string
	for _, s := range report.sections() {
		measured = append(measured, s.work)
	}
	require.Equal(t, WorkNames(), measured)
	require.True(t, slices.ContainsFunc(report.Lines, func(l Line) bool { return strings.HasSuffix(l.Setup, ", state.sync always") }))
	for _, l := range report.Lines {
		require.True(t, l.Rate > 0 || l.P50 > 0, "%s, %s: %+v", l.Work, l.Setup, l.Figures)
		require.LessOrEqual(t, l.P50, l.Max, "%s, %s", l.Work, l.Setup)
	}
	left, err := os.ReadDir(o.Dir)
	require.NoError(t, err)
	require.Empty(t, left, "what was made is removed")

	var table bytes.Buffer
	require.NoError(t, report.WriteTable(&table))
	t.Log("\n" + table.String())
	text, err := json.Marshal(report)
	require.NoError(t, err)
	var back Report
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, report.Lines, back.Lines)
}

func TestRunStopsWhenItIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	o := tinyOptions(t)
	o.Duration = time.Minute
	o.Progress = func(string) { cancel() }
	_, err := Run(ctx, o)
	require.ErrorIs(t, err, context.Canceled)
	left, err := os.ReadDir(o.Dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestValidateNamesTheOption(t *testing.T) {
	for want, change := range map[string]func(*Options){
		`work: "comit" is not known`: func(o *Options) { o.Work = []string{"find", "comit"} },
		"work: names nothing":        func(o *Options) { o.Work = nil },
		"nodes: 2 is not measured":   func(o *Options) { o.Nodes = []int{2} },
		`sync: "never" is not known; allowed are interval, always, both`: func(o *Options) { o.Sync = "never" },
		"nodes: names nothing":         func(o *Options) { o.Nodes = nil },
		"duration: 1ms is not between": func(o *Options) { o.Duration = time.Millisecond },
	} {
		o := DefaultOptions()
		require.NoError(t, o.Validate())
		change(&o)
		require.ErrorContains(t, o.Validate(), want)
	}
}

func TestQuantilesAreOfNearestRank(t *testing.T) {
	s := sample{took: 2 * time.Second}
	require.Zero(t, s.quantile(0.5))
	for i := range 1000 {
		s.latencies = append(s.latencies, time.Duration(i+1))
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 500, 0.99: 990, 0.999: 999, 0.9999: 1000, 1: 1000} {
		require.Equal(t, want, s.quantile(q), "%v", q)
	}
	require.InDelta(t, 500, s.rate(), 1e-9)
	both := join(s, sample{took: time.Second, latencies: []time.Duration{0}})
	require.Equal(t, time.Duration(0), both.latencies[0])
	require.InDelta(t, 1001.0/3, both.rate(), 1e-9)
}

func TestTheFirstErrorStopsAllClients(t *testing.T) {
	broken := errors.New("broken")
	_, err := measure(t.Context(), 4, time.Minute, func(_ context.Context, client int) error {
		if client == 3 {
			return broken
		}
		return nil
	})
	require.ErrorIs(t, err, broken)
}

func TestFilesDrawDistinctPartitionsThatNeverTouch(t *testing.T) {
	f := newFiles(topic{id: randomID(), partitions: 20}, 2, 20, true)
	for round := range 3 {
		r := f.next(1)
		seen := map[int32]bool{}
		for i, b := range r.Batches {
			require.False(t, seen[b.Partition], "partition %d twice", b.Partition)
			seen[b.Partition] = true
			require.EqualValues(t, round*recordsPerBatch, b.BaseSequence)
			if i > 0 {
				require.Greater(t, b.ByteOffset, r.Batches[i-1].ByteOffset+r.Batches[i-1].ByteSize)
			}
		}
	}
}

func TestReportSaysWhatWasMissed(t *testing.T) {
	r := Report{Lines: make([]Line, 0, 2)}
	r.Lines = append(r.Lines, Line{Work: "find", Setup: "10 x 10", Unit: "fetches/s", Figures: Figures{Rate: 50, P50: 900}})
	l := &r.Lines[0]
	l.against("bare", Figures{Rate: 100, P50: 300}).atMost("p50 at most 2.5x", l.Floor.P50Ratio, 2.5)
	l.atLeast("half the rate", l.Floor.RateRatio, 0.5)
	var table, page strings.Builder
	require.NoError(t, r.WriteTable(&table))
	require.NoError(t, r.WriteMarkdown(&page))
	for _, text := range []string{table.String(), page.String()} {
		require.Contains(t, text, "MISSED: p50 at most 2.5x (3)")
		require.Contains(t, text, "met: half the rate (0.5)")
		require.Contains(t, text, "1 of 2 targets met")
		require.Contains(t, text, "PostgreSQL 15")
	}
	require.Contains(t, page.String(), "| 10 x 10 | 50 fetches/s | 900us |  |  |  | 100 fetches/s | 300us |  |  | 0.50 | 3.00 |")
}
