package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/jepsen/checker"
	"github.com/cpnode/cpnode/jepsen/cluster"
)

func (t *tour) binaryPath() string { return filepath.Join(t.dir, checker.BinaryFile) }

// cpnode runs a verb, and returns what it printed. Its error holds what it said.
func (t *tour) cpnode(ctx context.Context, nodes []*cluster.Node, args ...string) (string, error) {
	var urls []string
	for _, n := range nodes {
		urls = append(urls, n.URL())
	}
	cmd := exec.CommandContext(ctx, t.binaryPath(), args...)
	cmd.Env = append(os.Environ(), "CPNODE_ENDPOINTS="+strings.Join(urls, ","))
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("cpnode %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(said.String()))
	}
	return out.String(), nil
}

// verb runs a verb against the members, and shows both in the timeline.
func (t *tour) verb(ctx context.Context, args ...string) error {
	t.say("   $ cpnode %s", strings.Join(args, " "))
	out, err := t.cpnode(ctx, t.cluster.Nodes, args...)
	for line := range strings.Lines(out) {
		t.say("     %s", strings.TrimRight(line, "\n"))
	}
	return err
}

// status is `cluster status` of the members: what their leader says.
func (t *tour) status(ctx context.Context) (s api.ClusterStatusResponse, err error) {
	out, err := t.cpnode(ctx, t.cluster.Nodes, "cluster", "status", "-o", "json")
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal([]byte(out), &s)
}

// ownStatus is what a node says of itself and the cluster, with or without a leader.
func ownStatus(ctx context.Context, n *cluster.Node) (s *api.ClusterStatusResponse, own api.MemberStatus, err error) {
	client, err := api.NewClient(api.DefaultClientConfig(n.URL()))
	if err != nil {
		return nil, own, err
	}
	defer client.Close()
	if s, err = client.ClusterStatus(ctx, &api.ClusterStatusRequest{}, api.Stale()); err != nil {
		return nil, own, err
	}
	for _, m := range s.Members {
		if m.NodeID == n.ID && m.Reachable {
			return s, m, nil
		}
	}
	return nil, own, fmt.Errorf("node %s does not say how it is: %+v", n.ID, s)
}

// member is the line of a node, the one added last when there are two.
func member(s api.ClusterStatusResponse, id string) (found api.MemberStatus, ok bool) {
	for _, m := range s.Members {
		if m.NodeID == id {
			found, ok = m, true
		}
	}
	return found, ok
}

// describe is a status in one line.
func describe(s api.ClusterStatusResponse) string {
	var all []string
	for _, m := range s.Members {
		word := m.NodeID
		switch {
		case m.Leader:
			word += " leads"
		case m.Role != "voter":
			word += " " + m.Role
		}
		if !m.Reachable {
			word += " (silent)"
		}
		all = append(all, word)
	}
	return fmt.Sprintf("%s; failures tolerated: %d", strings.Join(all, ", "), s.FailuresTolerated)
}
