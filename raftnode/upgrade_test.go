package raftnode

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

// Whoever is away or older is named, learners too.
func TestUpgradeNamesWhoIsNotReady(t *testing.T) {
	members := []MemberStatus{
		{ID: "n1", Role: "voter", Reachable: true, FeatureLevel: 3},
		{ID: "n2", Role: "learner", Reachable: true, FeatureLevel: 2},
		{ID: "n3", Role: "voter", FeatureLevel: 3},
	}
	require.Empty(t, notReadyFor(3, members[:1]))
	require.Empty(t, notReadyFor(2, members[:2]))
	require.Equal(t, []string{
		"n2 runs a release that supports level 2; upgrade that first",
		"n3 does not answer; start it, or remove it from the cluster",
	}, notReadyFor(3, members))
}

// The level is asked of all members, and not raised while one is away.
func TestUpgradeOfACluster(t *testing.T) {
	c := startCluster(t, nil)
	leader := c.nodes[c.leader()]
	eventually(t, func() bool {
		from, to, err := leader.Upgrade(t.Context(), 0)
		return err == nil && from == ops.FeatureLevel && to == ops.FeatureLevel
	}, "all members answer")
	follower := c.followers()[0]
	_, _, err := c.nodes[follower].Upgrade(t.Context(), 0)
	require.ErrorIs(t, err, ErrNotLeader)
	away := c.configs[follower].NodeID
	c.stop(follower)
	eventually(t, func() bool {
		_, _, err := leader.Upgrade(t.Context(), 0)
		return err != nil && err.Error() == fmt.Sprintf("UNSUPPORTED_FEATURE_LEVEL: level %d: ", ops.FeatureLevel)+away+" does not answer; start it, or remove it from the cluster"
	}, "the member that is away is named")
}
