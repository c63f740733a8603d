package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/jepsen/cluster"
)

const (
	pollInterval   = 5 * time.Millisecond
	attemptTimeout = time.Second
	patience       = 2 * time.Minute
)

// await asks again and again until ok.
func await(ctx context.Context, what string, ok func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("waited %s for %s", patience, what))
	defer cancel()
	for !ok() {
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// probe asks one node how it is. While it does not answer, nothing is true.
type probe struct {
	client *api.Client
	url    string
}

func newProbe(n *cluster.Node) *probe {
	config := api.DefaultClientConfig(n.URL())
	config.AttemptTimeout, config.RetryFor = attemptTimeout, 0
	client, err := api.NewClient(config)
	if err != nil {
		panic(err) // the URL is one that cluster made
	}
	return &probe{client, n.URL()}
}

func (p *probe) close() { p.client.Close() }

// leader is whom the node takes for the leader, empty when it knows none.
func (p *probe) leader(ctx context.Context) string {
	s, err := p.client.ClusterStatus(ctx, &api.ClusterStatusRequest{}, api.Stale())
	if err != nil {
		return ""
	}
	return s.LeaderID
}

// instance is the directory of a member.
func (p *probe) instance(ctx context.Context, id string) (string, error) {
	s, err := p.client.ClusterStatus(ctx, &api.ClusterStatusRequest{})
	if err != nil {
		return "", err
	}
	for _, m := range s.Members {
		if m.NodeID == id {
			return m.Instance, nil
		}
	}
	return "", fmt.Errorf("node %s is not a member", id)
}

// votes says whether a directory of that name votes that is not the lost one.
func (p *probe) votes(ctx context.Context, id, lost string) bool {
	s, err := p.client.ClusterStatus(ctx, &api.ClusterStatusRequest{})
	return err == nil && slices.ContainsFunc(s.Members, func(m api.MemberStatus) bool {
		return m.NodeID == id && m.Instance != lost && m.Role == "voter"
	})
}

func (p *probe) ready(ctx context.Context) bool {
	r, err := get(ctx, p.url+"/readyz")
	return err == nil && r.Body.Close() == nil && r.StatusCode == http.StatusOK
}

func get(ctx context.Context, url string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(r)
}

const snapshotMetric = "cpnode_snapshot_duration_seconds_count "

// snapshotsTaken is how many snapshots the nodes have taken since they were started.
func snapshotsTaken(ctx context.Context, nodes []*cluster.Node) (count int, err error) {
	for _, n := range nodes {
		r, err := get(ctx, n.URL()+"/metrics")
		if err != nil {
			return 0, err
		}
		for lines := bufio.NewScanner(r.Body); lines.Scan(); {
			if value, ok := strings.CutPrefix(lines.Text(), snapshotMetric); ok {
				var taken int
				if _, err := fmt.Sscan(value, &taken); err != nil {
					return 0, err
				}
				count += taken
			}
		}
		if err := r.Body.Close(); err != nil {
			return 0, err
		}
	}
	return count, nil
}
