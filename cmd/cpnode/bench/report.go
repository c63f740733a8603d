package bench

import (
	"fmt"
	"time"
)

// Report is what a run measured.
type Report struct {
	Machine  Machine   `json:"machine"`
	Scale    Scale     `json:"scale"`
	Started  time.Time `json:"started"`
	Seconds  float64   `json:"seconds"`       // that the run took
	PointSec float64   `json:"point_seconds"` // length of one measured point
	Lines    []Line    `json:"lines"`
}

// Line is one measured point.
type Line struct {
	Work  string `json:"work"`
	Setup string `json:"setup"`
	Figures
	Unit string `json:"unit"` // of Rate
	// Floor is what bounds this point, or what it is compared with, in the same run.
	Floor   *Floor   `json:"floor,omitempty"`
	Targets []Target `json:"targets,omitempty"`
	Note    string   `json:"note,omitempty"`
}

// Figures are a rate and the latencies behind it, in microseconds; those that
// were not measured are 0.
type Figures struct {
	Rate  float64 `json:"rate,omitempty"`
	Calls int     `json:"calls,omitempty"`
	P50   float64 `json:"p50_us,omitempty"`
	P99   float64 `json:"p99_us,omitempty"`
	P999  float64 `json:"p999_us,omitempty"`
	Max   float64 `json:"max_us,omitempty"`
}

// Floor is a figure to compare with.
type Floor struct {
	Name string `json:"name"`
	Figures
	// RateRatio and P50Ratio are the line's figure over the floor's.
	RateRatio float64 `json:"rate_ratio,omitempty"`
	P50Ratio  float64 `json:"p50_ratio,omitempty"`
}

// Target is one demand of the contract and whether this run met it.
type Target struct {
	Want string `json:"want"`
	Got  string `json:"got"`
	Met  bool   `json:"met"`
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

func (s sample) figures() Figures {
	return Figures{Rate: s.rate(), Calls: len(s.latencies), P50: microseconds(s.quantile(0.5)), P99: microseconds(s.quantile(0.99)),
		P999: microseconds(s.quantile(0.999)), Max: microseconds(s.max())}
}

// against sets the line's floor.
func (l *Line) against(name string, floor Figures) *Line {
	l.Floor = &Floor{Name: name, Figures: floor}
	if floor.Rate > 0 && l.Rate > 0 {
		l.Floor.RateRatio = l.Rate / floor.Rate
	}
	if floor.P50 > 0 && l.P50 > 0 {
		l.Floor.P50Ratio = l.P50 / floor.P50
	}
	return l
}

// atLeast adds a target that got must reach.
func (l *Line) atLeast(want string, got, bound float64) {
	l.target(want, fmt.Sprintf("%.3g", got), got >= bound)
}

// atMost adds a target that got must not exceed.
func (l *Line) atMost(want string, got, bound float64) {
	l.target(want, fmt.Sprintf("%.3g", got), got <= bound)
}

// within adds a target of time, in microseconds.
func (l *Line) within(want string, got, bound float64) {
	l.target(want, latency(got), got <= bound)
}

func (l *Line) target(want, got string, met bool) {
	l.Targets = append(l.Targets, Target{Want: want, Got: got, Met: met})
}

// perSecond are the figures of total things done by the calls of s.
func perSecond(s sample, total int) Figures {
	f := s.figures()
	f.Rate = float64(total) / s.took.Seconds()
	return f
}
