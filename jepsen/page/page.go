// Package page writes the verdict of a run for people and for programs: as text, as
// JSON, and as one HTML page with a plot of availability and latency over time, the
// faults shaded.
package page

import (
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cpnode/cpnode/jepsen/checker"
	"github.com/cpnode/cpnode/jepsen/history"
	"github.com/cpnode/cpnode/jepsen/nemesis"
)

// Files of a verdict, in the run's directory.
const (
	TextFile = "verdict.txt"
	JSONFile = "verdict.json"
	PageFile = "verdict.html"
)

// Write writes all three, over those of an earlier verdict, and returns the page's path.
func Write(dir string, seed uint64, r *checker.Report) (path string, err error) {
	d := newDocument(seed, r)
	var text, html strings.Builder
	fmt.Fprintf(&text, "seed %d\n", seed)
	if err := r.Print(&text); err != nil {
		return "", err
	}
	asJSON, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return "", err
	}
	if err := layout.Execute(&html, view{d, r, draw(r)}); err != nil {
		return "", err
	}
	path = filepath.Join(dir, PageFile)
	return path, errors.Join(
		os.WriteFile(filepath.Join(dir, TextFile), []byte(text.String()), 0o600),
		os.WriteFile(filepath.Join(dir, JSONFile), append(asJSON, '\n'), 0o600),
		os.WriteFile(path, []byte(html.String()), 0o600),
	)
}

// document is the verdict as JSON. Times are in milliseconds.
type document struct {
	OK              bool                    `json:"ok"`
	Verdict         string                  `json:"verdict"`
	Seed            uint64                  `json:"seed"`
	Length          int64                   `json:"length_ms"`
	Partitions      int                     `json:"partitions"`
	Total           int                     `json:"operations_total"`
	Operations      map[string]outcomes     `json:"operations"`
	FaultsTotal     int                     `json:"faults_total"`
	Faults          map[string]faultFigures `json:"faults"`
	WriteGap        int64                   `json:"longest_write_gap_ms"`
	GapAt           int64                   `json:"longest_write_gap_at_ms"`
	Available       float64                 `json:"available"`
	Recovery        int64                   `json:"recovery_median_ms"`
	LongestRecovery int64                   `json:"recovery_longest_ms"`
	Violations      []violation             `json:"violations"`
	Unknown         []string                `json:"unknown"`
}

type outcomes struct {
	OK      int `json:"ok"`
	Refused int `json:"refused"`
	Unknown int `json:"unknown"`
}

type faultFigures struct {
	Times    int   `json:"times"`
	WriteGap int64 `json:"longest_write_gap_ms"`
}

type violation struct {
	Check string `json:"check"`
	Text  string `json:"text"`
	Lines []int  `json:"lines"`
}

func newDocument(seed uint64, r *checker.Report) *document {
	s := &r.Summary
	d := &document{
		OK: r.OK(), Verdict: r.Word(), Seed: seed, Length: s.Length.Milliseconds(), Partitions: s.Partitions, Total: len(r.Records),
		Operations: map[string]outcomes{}, FaultsTotal: len(r.Faults), Faults: map[string]faultFigures{}, WriteGap: s.WriteGap.Milliseconds(), GapAt: s.GapAt.Milliseconds(),
		Available: s.Available, Recovery: s.Recovery.Milliseconds(), LongestRecovery: s.LongestRecovery.Milliseconds(),
		Violations: []violation{}, Unknown: append([]string{}, r.Unknown...),
	}
	for name, o := range s.Operations {
		d.Operations[name] = outcomes{o[history.OK], o[history.Refused], o[history.Unknown]}
	}
	for kind, f := range s.Faults {
		d.Faults[kind] = faultFigures{f.Times, f.WriteGap.Milliseconds()}
	}
	for _, v := range r.Violations {
		d.Violations = append(d.Violations, violation(v))
	}
	return d
}

// view is what the page shows.
type view struct {
	Document *document
	Report   *checker.Report
	Plot     template.HTML
}

// ms is a time on the history's clock.
func ms(ns int64) string { return time.Duration(ns).Round(time.Millisecond).String() }

var layout = template.Must(template.New("page").Funcs(template.FuncMap{
	"ms": ms, "gap": func(m int64) string { return ms(m * int64(time.Millisecond)) }, "join": strings.Join,
	"percent": func(f float64) string { return fmt.Sprintf("%.1f %%", 100*f) },
	"took":    func(f nemesis.Fault) string { return ms(f.Ready - f.Begin) },
}).Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>jepsen: {{.Document.Verdict}}</title>
<style>
body { font: 14px/1.4 sans-serif; max-width: 1100px; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0 } td, th { padding: 2px 12px 2px 0; text-align: left; vertical-align: top }
td.n, th.n { text-align: right } tr:nth-child(even) td { background: #f5f5f5 }
.verdict { padding: .5em 1em; color: #fff; background: {{if .Document.OK}}#27733b{{else}}#a62a1e{{end}} }
svg text { font: 11px sans-serif; fill: #444 }
</style></head><body>
<h1 class="verdict">{{.Document.Verdict}}</h1>
<p>Seed {{.Document.Seed}}. {{.Document.Total}} operations on {{.Document.Partitions}} partitions and {{.Document.FaultsTotal}} faults in {{gap .Document.Length}}.
Longest time without an acknowledged commit: {{gap .Document.WriteGap}}, from {{gap .Document.GapAt}} on.
Commits acknowledged in {{percent .Document.Available}} of the 100 ms intervals in which one was under way.
All nodes ready after a fault: {{gap .Document.Recovery}} in the middle, {{gap .Document.LongestRecovery}} at the longest.</p>
{{if .Document.Violations}}<h2>Violations</h2><table><tr><th>Check</th><th>What</th><th>Lines of the history</th></tr>
{{range .Document.Violations}}<tr><td>{{.Check}}</td><td>{{.Text}}</td><td>{{.Lines}}</td></tr>{{end}}</table>{{end}}
{{if .Document.Unknown}}<h2>Not decided</h2><ul>{{range .Document.Unknown}}<li>{{.}}</li>{{end}}</ul>{{end}}
{{.Plot}}
<h2>Faults by kind</h2><table><tr><th>Kind</th><th class="n">Times</th><th class="n">Longest write gap</th></tr>
{{range $kind, $f := .Document.Faults}}<tr><td>{{$kind}}</td><td class="n">{{$f.Times}}</td><td class="n">{{gap $f.WriteGap}}</td></tr>{{end}}</table>
<h2>Operations</h2><table><tr><th>Operation</th><th class="n">ok</th><th class="n">refused</th><th class="n">unknown</th></tr>
{{range $op, $o := .Document.Operations}}<tr><td>{{$op}}</td><td class="n">{{$o.OK}}</td><td class="n">{{$o.Refused}}</td><td class="n">{{$o.Unknown}}</td></tr>{{end}}</table>
<h2>Faults</h2><table><tr><th class="n">From</th><th class="n">Until ready</th><th>Kind</th><th>Nodes</th><th>Note</th></tr>
{{range .Report.Faults}}<tr><td class="n">{{ms .Begin}}</td><td class="n">{{took .}}</td><td>{{.Kind}}</td><td>{{join .Nodes ", "}}</td><td>{{.Note}}</td></tr>{{end}}</table>
</body></html>
`))
