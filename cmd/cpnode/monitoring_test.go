package main

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	switchover "github.com/cpnode/cpnode/switch"
)

const (
	rulesFile      = "../../deploy/prometheus/rules.yml"
	scrapeFile     = "../../deploy/prometheus/prometheus.yml"
	dashboardFile  = "../../deploy/grafana/cpnode.json"
	monitorTimeout = time.Minute // for anything that a slow machine has to get done
)

// What is written about metrics, asked of them and drawn from them is held against
// three processes: the pages, the alert rules and the dashboard.
func TestMonitoring(t *testing.T) {
	c := monitoredCluster(t)
	exported := awaitMetrics(t, c)
	t.Run("reference", func(t *testing.T) { testReference(t, exported) })
	t.Run("names", func(t *testing.T) { testNames(t, exported) })
	t.Run("prometheus", func(t *testing.T) { testPrometheus(t, c) })
}

// monitoredCluster is the demo's, with every worker at work.
func monitoredCluster(t *testing.T) *cluster {
	c, err := newCluster(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(c.kill)
	self, err := os.Executable()
	require.NoError(t, err)
	objects := t.TempDir()
	for _, n := range c.nodes {
		require.NoError(t, n.startBinary(self, "--object.store.type=directory", "--object.store.directory="+objects))
	}
	for _, n := range c.nodes {
		require.NoError(t, n.awaitReady(t.Context()))
	}
	return c
}

// families are metrics by name.
type families map[string]*dto.MetricFamily

// lateMetrics have no series before members have talked to each other.
var lateMetrics = []string{
	"cpnode_peer_log_margin_entries", "cpnode_hashicorp_raft_net_duration_seconds",
	"cpnode_hashicorp_raft_replication_duration_seconds", "cpnode_hashicorp_raft_replication_entries_total",
}

// awaitMetrics is what the nodes export together, and what a program exports that
// embeds what serve does not run.
func awaitMetrics(t *testing.T, c *cluster) (all families) {
	require.Eventually(t, func() bool {
		all = families{}
		for _, n := range c.nodes {
			found, err := scrape(n.url)
			if err != nil {
				return false
			}
			for name, f := range found {
				if all[name] != nil {
					f.Metric = append(f.Metric, all[name].GetMetric()...)
				}
				all[name] = f
			}
		}
		return !slices.ContainsFunc(lateMetrics, func(name string) bool { return all[name] == nil })
	}, monitorTimeout, 50*time.Millisecond, "all of %v to be exported", lateMetrics)
	maps.DeleteFunc(all, func(name string, _ *dto.MetricFamily) bool { return !strings.HasPrefix(name, "cpnode_") })
	embedded := prometheus.NewRegistry()
	switchover.New(switchover.DefaultConfig(1), switchover.Deps{Registerer: embedded}).Close()
	found, err := embedded.Gather()
	require.NoError(t, err)
	for _, f := range found {
		all[f.GetName()] = f
	}
	return all
}

func scrape(url string) (families, error) {
	r, err := http.Get(url + "/metrics")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return parser.TextToMetricFamilies(r.Body)
}

var (
	metricName = regexp.MustCompile(`\bcpnode_[a-z0-9_]+`)
	pageTitle  = regexp.MustCompile(`"([^"]+)"\s+in\s+docs/operating\.md`)
)

// testNames looks for every metric that the rules, the dashboard and the pages name.
func testNames(t *testing.T, exported families) {
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	for _, path := range append(pages, rulesFile, dashboardFile) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, name := range metricName.FindAllString(string(text), -1) {
			require.True(t, exported.has(name), "%s: no node exports %s", path, name)
		}
	}
	rules, err := os.ReadFile(rulesFile)
	require.NoError(t, err)
	operating, err := os.ReadFile("../../docs/operating.md")
	require.NoError(t, err)
	for _, m := range pageTitle.FindAllStringSubmatch(string(rules), -1) {
		require.Contains(t, string(operating), "\n## "+m[1]+"\n", "the rules send the operator there")
	}
}

// has says whether name is a metric's, or one of a histogram's three.
func (f families) has(name string) bool {
	if f[name] != nil {
		return true
	}
	for _, part := range []string{"_bucket", "_sum", "_count"} {
		if base, cut := strings.CutSuffix(name, part); cut && f[base].GetType() == dto.MetricType_HISTOGRAM {
			return true
		}
	}
	return false
}

// dashboardQueries are the queries of all panels, for the cluster of the given job.
func dashboardQueries(t *testing.T, job string) (all []string) {
	var dashboard struct {
		Panels []struct {
			Type    string
			Title   string
			Targets []struct{ Expr string }
		}
	}
	data, err := os.ReadFile(dashboardFile)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &dashboard))
	for _, p := range dashboard.Panels {
		require.True(t, p.Type == "row" || len(p.Targets) > 0, "panel %q asks nothing", p.Title)
		for _, target := range p.Targets {
			all = append(all, strings.NewReplacer("$job", job, "$__rate_interval", "1m").Replace(target.Expr))
		}
	}
	require.NotEmpty(t, all)
	return all
}
