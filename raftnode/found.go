package raftnode

import (
	"context"
	"fmt"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// found has a new cluster begin at the feature level of this release, unless one of the
// members that have answered is of an older one. A state that was ever changed keeps
// its level until somebody raises it. It runs before this node takes writes.
func (n *Node) found(ctx context.Context) error {
	var m store.Meta
	if err := n.view(func(tx *store.ReadTx) error { m = tx.Meta(); return nil }); err != nil {
		return err
	}
	if m.LastClockMs != 0 || m.FeatureLevel >= ops.FeatureLevel || n.anyOlder() {
		return nil
	}
	return await(ctx, func() error {
		// At time 0: the cluster's clock begins with what clients ask for.
		beginning := func() int64 { return 0 }
		_, err := ops.Run(&ops.RaiseFeatureLevel{Level: ops.FeatureLevel}, n.config.Settings, n.view, beginning, func(cmd ops.Command) (any, error) {
			entry, err := ops.Encode(cmd, 0)
			if err != nil {
				return nil, err
			}
			o := n.apply(entry)
			return o.result.Value, o.err
		})
		if err != nil {
			return fmt.Errorf("begin at feature level %d: %w", ops.FeatureLevel, err)
		}
		return nil
	})
}

// anyOlder says whether a member has answered that does not support this release's level.
func (n *Node) anyOlder() bool {
	for _, s := range n.servers() {
		if p := n.polls.of(s.ID); p.report != nil && p.report.FeatureLevel < ops.FeatureLevel {
			return true
		}
	}
	return false
}
