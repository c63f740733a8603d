package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
)

// statusPatience is how long status waits for a leader before it asks each node for
// itself: longer than an election takes.
const statusPatience = 3 * time.Second

func clusterStatusCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the cluster's nodes and how they are",
		Long: `Asks the leader, which asks all members. When there is no leader, asks each of the
endpoints for what it knows itself, says so, and exits 1.`,
		Example: `  cpnode cluster status
  cpnode cluster status --endpoints http://10.0.0.1:7480,http://10.0.0.2:7480 -o json`,
		Args: exactly(0),
	}
	f := addClientFlags(c)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		client, err := f.connectFor(statusPatience)
		if err != nil {
			return err
		}
		defer client.Close()
		status, err := client.ClusterStatus(cmd.Context(), &api.ClusterStatusRequest{})
		switch {
		case errors.Is(err, &ops.Error{Code: ops.NoLeader}):
			return f.statusOfEach(cmd, err)
		case err != nil:
			return err
		}
		return f.print(cmd, status, func(p *printer) { printCluster(p, status) })
	}
	return c
}

func printCluster(p *printer, s *api.ClusterStatusResponse) {
	p.line(fmt.Sprintf("cluster %s, term %d, feature level %d, %s", s.ClusterID, s.Term, s.FeatureLevel, tolerates(s.FailuresTolerated)))
	var end int64
	for _, m := range s.Members {
		if m.Leader {
			end = m.LastIndex
		}
	}
	rows := make([][]string, len(s.Members))
	for i, m := range s.Members {
		rows[i] = memberRow(m, end)
	}
	p.table([]string{"NAME", "ROLE", "LEADER", "REACHABLE", "LAG", "RAFT ADDRESS", "HTTP ADDRESS", "CLOCK", "FREE DISK", "LEVEL"}, rows)
	for _, m := range s.Members {
		if m.Problem != "" {
			p.line(m.NodeID + ": " + m.Problem)
		}
	}
}

func tolerates(failures int64) string {
	switch failures {
	case 0:
		return "tolerates NO further failure"
	case 1:
		return "tolerates 1 more failure"
	}
	return fmt.Sprintf("tolerates %d more failures", failures)
}

// memberRow is a line of the table; end is the end of the leader's log.
func memberRow(m api.MemberStatus, end int64) []string {
	leads, reachable, clock := "", "yes", "-"
	if m.Leader {
		leads = "*"
	}
	if !m.Reachable {
		reachable = "NO"
		if m.LastContactMs >= 0 {
			reachable = "NO, " + (time.Duration(m.LastContactMs) * time.Millisecond).Truncate(time.Second).String() + " ago"
		}
	} else if !m.Leader {
		clock = fmt.Sprintf("%+d ms", m.ClockOffsetMs)
	}
	return []string{
		m.NodeID, orDash(m.Role), orDash(leads), reachable, known(m.LastIndex, func(at int64) string { return strconv.FormatInt(max(0, end-at), 10) }),
		orDash(m.RaftAddr), orDash(m.HTTPAddr), clock, known(m.DiskFreeBytes, size), known(m.FeatureLevel, func(l int64) string { return strconv.FormatInt(l, 10) }),
	}
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// known shows a number, - for one that is not known.
func known(n int64, show func(int64) string) string {
	if n < 0 {
		return "-"
	}
	return show(n)
}

// nodeStatus is what one endpoint said for itself.
type nodeStatus struct {
	Endpoint string                     `json:"endpoint"`
	Error    string                     `json:"error,omitempty"`
	Status   *api.ClusterStatusResponse `json:"status,omitempty"`
}

// noLeaderStatus is the output of `cpnode cluster status -o json` without a leader.
type noLeaderStatus struct {
	Complete bool         `json:"complete"` // false
	Nodes    []nodeStatus `json:"nodes"`
}

// statusOfEach shows what each endpoint knows. It fails with reason when none
// answers.
func (f *clientFlags) statusOfEach(cmd *cobra.Command, reason error) error {
	var out noLeaderStatus
	answered := false
	for _, endpoint := range f.endpoints {
		n := nodeStatus{Endpoint: endpoint}
		status, err := ownStatus(cmd.Context(), endpoint)
		if err != nil {
			n.Error = explainNoAnswer(err).Error()
		} else {
			n.Status, answered = status, true
		}
		out.Nodes = append(out.Nodes, n)
	}
	if !answered {
		return reason
	}
	if err := f.output.print(cmd.OutOrStdout(), out, out.print); err != nil {
		return err
	}
	return errReported
}

func ownStatus(ctx context.Context, endpoint string) (*api.ClusterStatusResponse, error) {
	client, err := newClient(0, endpoint)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return client.ClusterStatus(ctx, &api.ClusterStatusRequest{}, api.Stale())
}

func (s *noLeaderStatus) print(p *printer) {
	p.line("NO LEADER. What each node that answers knows of itself; the others may be down, or not among --endpoints:")
	var rows [][]string
	for _, n := range s.Nodes {
		if n.Status == nil {
			rows = append(rows, []string{n.Endpoint, "-", "-", "-", "-", n.Error})
			continue
		}
		for _, m := range n.Status.Members {
			if m.Reachable { // the node itself
				rows = append(rows, []string{n.Endpoint, m.NodeID, strconv.FormatInt(n.Status.Term, 10), strconv.FormatInt(m.LastIndex, 10), strconv.FormatInt(m.AppliedIndex, 10), orDash(m.Problem)})
			}
		}
	}
	p.table([]string{"ENDPOINT", "NODE", "TERM", "LOG END", "APPLIED", "PROBLEM"}, rows)
}
