package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
)

// A node joins, leads and leaves; a cluster without a leader still says what is
// left of it.
func TestClusterVerbs(t *testing.T) {
	c := testCluster(t)
	endpoints := "--endpoints=" + c.nodes[0].url + "," + c.nodes[1].url + "," + c.nodes[2].url
	var out string
	require.NoError(t, eventually(t.Context(), "all to be heard", func() (bool, error) {
		out = mustRun(t, "cluster", "status", endpoints)
		return strings.Contains(out, "tolerates 1 more"), nil
	}))
	require.Regexp(t, fmt.Sprintf(`^cluster [0-9a-f]{32}, term \d+, feature level %d, tolerates 1 more failure\nNAME +ROLE +LEADER`, ops.FeatureLevel), out)
	require.Len(t, grep(strings.Split(out, "\n"), " voter "), 3)
	require.Len(t, grep(strings.Split(out, "\n"), " * "), 1)

	leader, err := c.leader(t.Context())
	require.NoError(t, err)
	other := c.nodes[0]
	if other == leader {
		other = c.nodes[1]
	}
	require.Contains(t, mustRun(t, "cluster", "transfer", other.id, endpoints), "leadership was handed over to")
	require.NoError(t, eventually(t.Context(), "it to lead", func() (bool, error) { return leads(t, endpoints) == other.id, nil }))

	fourth, err := newChild("d", t.TempDir())
	require.NoError(t, err)
	t.Cleanup(fourth.kill)
	fourth.peers = c.nodes[0].peers + ",d=" + fourth.raftAddr
	require.NoError(t, fourth.start())
	require.NoError(t, eventually(t.Context(), "the node to join", func() (bool, error) {
		return cpnode(t, "cluster", "join", "d="+fourth.raftAddr, endpoints).code == exitOK, nil
	}))
	require.NoError(t, eventually(t.Context(), "four voters", func() (bool, error) {
		return strings.Count(mustRun(t, "cluster", "status", endpoints), " voter ") == 4, nil
	}))
	require.NoError(t, fourth.awaitReady(t.Context()))

	r := cpnode(t, "cluster", "remove", "d", endpoints) // the answer is empty
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "Remove d from the cluster? Its directory cannot come back. [y/N]")
	require.Contains(t, mustRun(t, "cluster", "remove", "d", "--yes", endpoints), "d is removed")
	require.Equal(t, 3, strings.Count(mustRun(t, "cluster", "status", endpoints), " voter "))
	require.NoError(t, eventually(t.Context(), "the node to say that it was removed", func() (bool, error) {
		said := cpnode(t, "cluster", "status", "--endpoints="+fourth.url)
		return said.code == exitFailed && strings.Contains(said.stdout, "this node was removed from the cluster"), nil
	}))
	r = cpnode(t, "cluster", "remove", "d", "--yes", endpoints)
	require.Contains(t, r.stderr, `node_id: "d" is not a member`)

	c.nodes[0].kill()
	c.nodes[1].kill()
	var status noLeaderStatus
	require.NoError(t, eventually(t.Context(), "the leader to be missed", func() (bool, error) {
		r = cpnode(t, "cluster", "status", "-o=json", endpoints)
		return r.code == exitFailed && json.Unmarshal([]byte(r.stdout), &status) == nil, nil
	}))
	require.Len(t, status.Nodes, 3)
	require.Contains(t, status.Nodes[0].Error, "nothing listens at")
	require.Equal(t, "c", own(status.Nodes[2].Status).NodeID)
	r = cpnode(t, "cluster", "status", endpoints)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stdout, "NO LEADER.")
}

// leads is who leads, by cluster status.
func leads(t *testing.T, endpoints string) string {
	var s api.ClusterStatusResponse
	require.NoError(t, json.Unmarshal([]byte(mustRun(t, "cluster", "status", "-o=json", endpoints)), &s))
	return s.LeaderID
}

// own is the part of a node's own status about itself.
func own(s *api.ClusterStatusResponse) api.MemberStatus {
	for _, m := range s.Members {
		if m.Reachable {
			return m
		}
	}
	return api.MemberStatus{}
}
