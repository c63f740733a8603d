package raftnode

import (
	"context"
	"fmt"
	"strings"

	"github.com/cpnode/cpnode/ops"
)

// Upgrade raises the cluster's feature level, 0 for the one that this node's release
// supports, once every member, voter or learner, answers and supports it; where the
// cluster has it, nothing is logged. From is the level before, to the one after.
// Errors: ErrNotLeader; *ops.Error with UNSUPPORTED_FEATURE_LEVEL, which names the
// members that are not ready, or those of Propose.
func (n *Node) Upgrade(ctx context.Context, level uint64) (from, to uint64, err error) {
	if level == 0 {
		level = ops.FeatureLevel
	}
	status, err := n.Cluster(ctx)
	if err != nil {
		return 0, 0, err
	}
	if lag := notReadyFor(level, status.Members); len(lag) > 0 {
		return 0, 0, ops.Errorf(ops.UnsupportedFeatureLevel, "level %d: %s", level, strings.Join(lag, "; "))
	}
	r, err := n.Propose(ctx, &ops.RaiseFeatureLevel{Level: level})
	if err != nil {
		return 0, 0, err
	}
	raised := r.Answer.(ops.FeatureLevelRaised)
	return raised.From, raised.To, nil
}

// notReadyFor says which members a level has to wait for, and why.
func notReadyFor(level uint64, members []MemberStatus) []string {
	var lag []string
	for _, m := range members {
		switch {
		case !m.Reachable:
			lag = append(lag, m.ID+" does not answer; start it, or remove it from the cluster")
		case m.FeatureLevel < level:
			lag = append(lag, fmt.Sprintf("%s runs a release that supports level %d; upgrade that first", m.ID, m.FeatureLevel))
		}
	}
	return lag
}
