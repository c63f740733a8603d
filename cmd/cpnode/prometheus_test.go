package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/internal/loopback"
)

// testPrometheus has a Prometheus scrape the cluster with the shipped configuration:
// each query of the dashboard returns data while nothing happens, and under load also
// without what it falls back to then. Each rule can be evaluated.
func testPrometheus(t *testing.T, c *cluster) {
	p := startPrometheus(t, c)
	queries := dashboardQueries(t, "cpnode")
	p.requireData(t, queries)
	l, err := startLoad(t.Context(), c, 2, demoOrders)
	require.NoError(t, err)
	p.requireData(t, withoutFallback(queries))
	require.NoError(t, l.finish())

	text, err := os.ReadFile(rulesFile)
	require.NoError(t, err)
	want := strings.Count(string(text), "- alert: ")
	require.Eventually(t, func() bool { return p.healthyRules(t.Context()) == want }, monitorTimeout, 100*time.Millisecond, "all %d rules to be evaluated", want)
}

// fallback is what a query returns when there was nothing to measure.
var fallback = regexp.MustCompile(` or (vector\(0\)|sum by \(instance\) \(0 \* .*)$`)

// withoutFallback leaves out what looks for alerts: there are none.
func withoutFallback(queries []string) (bare []string) {
	for _, q := range queries {
		if b := fallback.ReplaceAllString(q, ""); b != q && !strings.Contains(q, "ALERTS") {
			bare = append(bare, b)
		}
	}
	return bare
}

// prometheusServer is a Prometheus at a URL.
type prometheusServer string

// startPrometheus starts one that ends with the test.
func startPrometheus(t *testing.T, c *cluster) prometheusServer {
	binary := requirePrometheus(t)
	dir := t.TempDir()
	rules, err := os.ReadFile(rulesFile)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rules.yml"), rules, 0o600))
	config := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(config, scrapeConfig(t, c), 0o600))
	addr, err := loopback.FreeAddr()
	require.NoError(t, err)

	cmd := exec.Command(binary, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr, "--log.level=warn")
	var log bytes.Buffer // of one goroutine, which Wait waits for
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = &log, &log, childAttributes()
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("prometheus: %s", log.String())
		}
	})
	return prometheusServer("http://" + addr)
}

// requirePrometheus is the program, without which the test skips, or fails where it must not.
func requirePrometheus(t *testing.T) string {
	binary, err := exec.LookPath("prometheus")
	if err != nil && os.Getenv("REQUIRE_PROMETHEUS") != "" {
		t.Fatal("there is no prometheus: apt-get install prometheus")
	}
	if err != nil {
		t.Skip("there is no prometheus to evaluate the dashboard and rules: apt-get install prometheus")
	}
	return binary
}

var (
	scrapeTargets = regexp.MustCompile(`targets: \[.*\]`)
	intervals     = regexp.MustCompile(`_interval: 15s`)
)

// scrapeConfig is the shipped one for this cluster and for a test's patience. The interval
// also bounds a scrape: a busy machine needs its time.
func scrapeConfig(t *testing.T, c *cluster) []byte {
	config, err := os.ReadFile(scrapeFile)
	require.NoError(t, err)
	require.Regexp(t, scrapeTargets, string(config))
	require.Len(t, intervals.FindAll(config, -1), 2)
	var addrs []string
	for _, n := range c.nodes {
		addrs = append(addrs, n.httpAddr)
	}
	config = scrapeTargets.ReplaceAll(config, fmt.Appendf(nil, "targets: [%q, %q, %q]", addrs[0], addrs[1], addrs[2]))
	return intervals.ReplaceAll(config, []byte("_interval: 2s"))
}

// ask decodes the data of an answer of the HTTP API.
func (p prometheusServer) ask(ctx context.Context, path string, data any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, string(p)+path, nil)
	if err != nil {
		return err
	}
	r, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", path, answer.Error)
	}
	return nil
}

// hasData says whether a query returns a number.
func (p prometheusServer) hasData(ctx context.Context, query string) bool {
	var data struct {
		Result []struct{ Value [2]any } // time and number, which is a string
	}
	if p.ask(ctx, "/api/v1/query?query="+url.QueryEscape(query), &data) != nil {
		return false
	}
	for _, series := range data.Result {
		if series.Value[1] != "NaN" {
			return true
		}
	}
	return false
}

// requireData waits until each query has returned a number.
func (p prometheusServer) requireData(t *testing.T, queries []string) {
	t.Helper()
	require.NotEmpty(t, queries)
	pending := slices.Clone(queries)
	require.Eventually(t, func() bool {
		pending = slices.DeleteFunc(pending, func(query string) bool { return p.hasData(t.Context(), query) })
		return len(pending) == 0
	}, monitorTimeout, 100*time.Millisecond, "these return nothing: %v", &pending)
}

// healthyRules is how many rules were evaluated without an error.
func (p prometheusServer) healthyRules(ctx context.Context) (count int) {
	var data struct {
		Groups []struct {
			Rules []struct{ Health string }
		}
	}
	if p.ask(ctx, "/api/v1/rules", &data) != nil {
		return 0
	}
	for _, group := range data.Groups {
		for _, rule := range group.Rules {
			if rule.Health == "ok" {
				count++
			}
		}
	}
	return count
}
