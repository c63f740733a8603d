package page

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cpnode/cpnode/jepsen/checker"
	"github.com/cpnode/cpnode/jepsen/history"
	"github.com/cpnode/cpnode/jepsen/nemesis"
)

// The drawing, in pixels: two panels of the same width, one above the other.
const (
	plotLeft, plotWidth = 60, 1000
	panelHeight         = 150
	rateTop             = 30
	latencyTop          = rateTop + panelHeight + 40
	plotHeight          = latencyTop + panelHeight + 40
	// slots are how many points a curve has.
	slots = 250
)

// Latencies are drawn on a logarithmic scale between these.
const leastLatency, mostLatency = 100 * time.Microsecond, 10 * time.Second

// plot draws over the time of a run.
type plot struct {
	strings.Builder
	length int64 // ns
	slot   int64 // ns
}

// draw is the plot of a run as SVG: commits acknowledged a second, and the median and
// the slowest of their latencies, with the time from each fault's begin until all nodes
// were ready shaded.
func draw(r *checker.Report) template.HTML {
	p := &plot{length: max(1, int64(r.Summary.Length))}
	p.slot = max(1, p.length/slots)
	fmt.Fprintf(p, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" role="img">`, plotLeft+plotWidth+10, plotHeight)
	p.faults(r.Faults)
	latencies := p.latencies(r.Records)
	p.rate(latencies)
	p.latency(latencies)
	p.times()
	p.WriteString("</svg>")
	return template.HTML(p.String()) //nolint:gosec // it is made here, of numbers and escaped names
}

func (p *plot) x(at int64) float64 {
	return plotLeft + plotWidth*float64(min(at, p.length))/float64(p.length)
}

// shades of faults, by the first word of their kind.
var shades = map[string]string{
	"kill": "#d9534f", "pause": "#f0ad4e", "cut": "#5b7fc7", "one": "#5b7fc7", "partial": "#5b7fc7", "all": "#5b7fc7", "slow": "#9db4e0",
	"mix": "#7b4fa6", "rolling": "#4f9a5b", "members:": "#3f9aa6", "leader": "#8a8a3a", "clock": "#b0609a", "disk": "#806040", "corrupt": "#404040",
}

func (p *plot) faults(all []nemesis.Fault) {
	for _, f := range all {
		word, _, _ := strings.Cut(f.Kind, " ")
		color, ok := shades[word]
		if !ok {
			color = "#888"
		}
		from, to := p.x(f.Begin), p.x(f.Ready)
		for _, top := range []int{rateTop, latencyTop} {
			fmt.Fprintf(p, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s" fill-opacity="0.25"><title>%s (%s), %s from %s on. %s</title></rect>`,
				from, top, max(1, to-from), panelHeight, color, html.EscapeString(f.Kind), html.EscapeString(strings.Join(f.Nodes, ", ")), ms(f.Ready-f.Begin), ms(f.Begin), html.EscapeString(f.Note))
		}
	}
}

// latencies are those of acknowledged commits, by the slot in which they were answered.
func (p *plot) latencies(records []*history.Record) [][]time.Duration {
	all := make([][]time.Duration, p.length/p.slot+1)
	for _, r := range records {
		if i := r.Return / p.slot; r.Op == "commit-file" && r.Group == "" && r.Outcome == history.OK && i < int64(len(all)) {
			all[i] = append(all[i], time.Duration(r.Return-r.Invoke))
		}
	}
	for _, l := range all {
		slices.Sort(l)
	}
	return all
}

func (p *plot) rate(latencies [][]time.Duration) {
	most := 1.0
	perSecond := func(i int) float64 { return float64(len(latencies[i])) * float64(time.Second) / float64(p.slot) }
	for i := range latencies {
		most = max(most, perSecond(i))
	}
	p.frame(rateTop, "commits acknowledged a second")
	p.label(rateTop, fmt.Sprintf("%.0f", most))
	p.label(rateTop+panelHeight, "0")
	p.curve("#1d6f42", len(latencies), func(i int) (float64, bool) {
		return rateTop + panelHeight*(1-perSecond(i)/most), true
	})
}

func (p *plot) latency(latencies [][]time.Duration) {
	p.frame(latencyTop, "latency of acknowledged commits: median (dark), slowest (light)")
	for l := leastLatency; l <= mostLatency; l *= 10 {
		p.label(int(latencyY(l)), l.String())
	}
	last := func(l []time.Duration) time.Duration { return l[len(l)-1] }
	middle := func(l []time.Duration) time.Duration { return l[len(l)/2] }
	p.latencyCurve("#e08e79", latencies, last)
	p.latencyCurve("#7a1f1f", latencies, middle)
}

func (p *plot) latencyCurve(color string, latencies [][]time.Duration, of func([]time.Duration) time.Duration) {
	p.curve(color, len(latencies), func(i int) (float64, bool) {
		if len(latencies[i]) == 0 {
			return 0, false
		}
		return latencyY(of(latencies[i])), true
	})
}

func latencyY(l time.Duration) float64 {
	l = min(max(l, leastLatency), mostLatency)
	scale := math.Log(float64(l)/float64(leastLatency)) / math.Log(float64(mostLatency)/float64(leastLatency))
	return latencyTop + panelHeight*(1-scale)
}

func (p *plot) frame(top int, title string) {
	fmt.Fprintf(p, `<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#bbb"/>`, plotLeft, top, plotWidth, panelHeight)
	fmt.Fprintf(p, `<text x="%d" y="%d">%s</text>`, plotLeft, top-8, title)
}

func (p *plot) label(y int, text string) {
	fmt.Fprintf(p, `<text x="%d" y="%d" text-anchor="end">%s</text>`, plotLeft-5, y+4, text)
}

// curve is a line through the points, with a gap where there is none.
func (p *plot) curve(color string, points int, y func(i int) (float64, bool)) {
	fmt.Fprintf(p, `<path fill="none" stroke="%s" d="`, color)
	drawn := false
	for i := range points {
		at, ok := y(i)
		if ok {
			verb := "M"
			if drawn {
				verb = "L"
			}
			fmt.Fprintf(p, "%s%.1f %.1f", verb, p.x(int64(i)*p.slot+p.slot/2), at)
		}
		drawn = ok
	}
	p.WriteString(`"/>`)
}

// times are what is written below.
func (p *plot) times() {
	const marks = 10
	for i := range marks + 1 {
		at := p.length * int64(i) / marks
		fmt.Fprintf(p, `<text x="%.0f" y="%d" text-anchor="middle">%.0f s</text>`, p.x(at), plotHeight-20, time.Duration(at).Seconds())
	}
}
