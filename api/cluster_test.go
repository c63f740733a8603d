package api

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/api/wire"
	"github.com/cpnode/cpnode/ops"
)

func TestContractOfTheCluster(t *testing.T) {
	contracts(t, func(t *testing.T, cp ControlPlane, _ *clock) {
		ctx, admin := t.Context(), cp.(Admin)
		var status *ClusterStatusResponse
		eventually(t, "all members are reachable", func() bool {
			var err error
			status, err = admin.ClusterStatus(ctx, &ClusterStatusRequest{})
			require.NoError(t, err)
			reachable := 0
			for _, m := range status.Members {
				if m.Reachable && m.FeatureLevel > 0 {
					reachable++
				}
			}
			return reachable == 3
		})
		require.True(t, status.Complete)
		require.Len(t, status.ClusterID, 32)
		require.EqualValues(t, 1, status.FailuresTolerated)
		leaders := 0
		for _, m := range status.Members {
			require.Equal(t, "voter", m.Role)
			require.EqualValues(t, ops.FeatureLevel, m.FeatureLevel)
			require.Positive(t, m.DiskFreeBytes)
			require.Len(t, m.Instance, 32)
			if m.Leader {
				leaders++
				require.Equal(t, status.LeaderID, m.NodeID)
			}
		}
		require.Equal(t, 1, leaders)

		raised, err := admin.ClusterUpgrade(ctx, &ClusterUpgradeRequest{})
		require.NoError(t, err)
		require.Equal(t, &ClusterUpgradeResponse{ops.FeatureLevel, ops.FeatureLevel}, raised)
		_, err = admin.ClusterUpgrade(ctx, &ClusterUpgradeRequest{Level: ops.FeatureLevel + 1})
		requireCode(t, err, ops.UnsupportedFeatureLevel)
		for _, name := range []string{"n1", "n2", "n3"} {
			require.ErrorContains(t, err, name)
		}
	})
}

func TestClusterRefusals(t *testing.T) {
	contracts(t, func(t *testing.T, cp ControlPlane, _ *clock) {
		ctx, admin := t.Context(), cp.(Admin)
		_, err := admin.ClusterJoin(ctx, &ClusterJoinRequest{RaftAddr: "127.0.0.1:1"})
		requireCode(t, err, ops.InvalidRequest)
		require.ErrorContains(t, err, "node_id: must be given")
		_, err = admin.ClusterJoin(ctx, &ClusterJoinRequest{NodeID: "n4"})
		require.ErrorContains(t, err, "raft_addr: must be given")
		_, err = admin.ClusterJoin(ctx, &ClusterJoinRequest{NodeID: "n4", RaftAddr: "0.0.0.0:1"})
		requireCode(t, err, ops.InvalidRequest)
		require.ErrorContains(t, err, "INVALID_REQUEST: raft_addr: ")
		_, err = admin.ClusterJoin(ctx, &ClusterJoinRequest{NodeID: "n4", RaftAddr: "127.0.0.1:1"})
		require.ErrorContains(t, err, "does the node run")
		_, err = admin.ClusterRemove(ctx, &ClusterRemoveRequest{NodeID: "n9"})
		requireCode(t, err, ops.InvalidRequest)
		require.ErrorContains(t, err, "INVALID_REQUEST: node_id: ")
		_, err = admin.ClusterTransfer(ctx, &ClusterTransferRequest{NodeID: "n9"})
		requireCode(t, err, ops.InvalidRequest)
		_, err = admin.ClusterStatus(ctx, &ClusterStatusRequest{}, Stale(), MinIndex(1))
		requireCode(t, err, ops.InvalidRequest)
		_, err = admin.ClusterTransfer(ctx, &ClusterTransferRequest{}, Stale())
		requireCode(t, err, ops.InvalidRequest)
	})
}

// Leadership goes where it is asked to go, whichever node is asked.
func TestClusterTransfer(t *testing.T) {
	nodes := three(t, nil)
	target := nodes[2].config.NodeID
	r := nodes[1].post(t, "cluster-transfer", `{"node_id": "`+target+`"}`)
	require.Equal(t, http.StatusOK, r.status, "%s", r.body)
	eventually(t, "the node leads", func() bool { return nodes[1].node.LeaderID() == target })
	require.Regexp(t, `msg="asked to change the cluster" verb=cluster-transfer request="{.*`+target+`.*}" outcome=OK`, nodes[0].log.String())
}

// Without a leader, a node still says what it knows itself.
func TestStatusOfOneNode(t *testing.T) {
	nodes := three(t, nil)
	// The leader stays: a follower could be handed leadership, and lose it, in between.
	alone := nodes[0]
	for _, s := range nodes[1:] {
		require.NoError(t, s.node.Close())
	}
	eventually(t, "no leader is known", func() bool { return alone.node.LeaderID() == "" })
	alone.post(t, "cluster-status", `{}`).requireCode(t, http.StatusServiceUnavailable, ops.NoLeader, "no leader is known: a majority of the voters, ")
	validate := answerValidator(t)
	r := alone.post(t, "cluster-status?consistency=stale", `{}`)
	validate("cluster-status", r)
	var status ClusterStatusResponse
	require.NoError(t, wire.DecodeAnswer(wire.JSON, r.body, &status))
	require.False(t, status.Complete)
	require.Empty(t, status.LeaderID)
	require.Len(t, status.Members, 3)
	for _, m := range status.Members {
		require.Equal(t, m.NodeID == alone.config.NodeID, m.Reachable)
		if m.Reachable {
			require.Positive(t, m.LastIndex)
			require.Contains(t, m.Problem, "no leader")
		}
	}
}

func TestExamplesOfTheCluster(t *testing.T) {
	examples, validate := readExamples(), answerValidator(t)
	for _, v := range adminVerbs {
		e, ok := examples[v.name]
		require.True(t, ok, v.name)
		validate(v.name, reply{status: http.StatusOK, body: e.Response, header: http.Header{"Content-Type": {mediaTypes[wire.JSON]}}})
		require.NoError(t, wire.DecodeAnswer(wire.JSON, e.Response, v.newResponse()))
	}
}
