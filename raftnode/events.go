package raftnode

import (
	"context"
	"fmt"
)

// Events is the number of the last event (store.Event) of what this node has answered.
// While it stays, so do all topics, brokers and registrations that a View shows.
func (n *Node) Events() uint64 { return n.fsm.Events() }

// AwaitEvents returns once a View with Stale shows an event with a number above seq. It
// hurries nothing. Errors: *ops.Error with SHUTTING_DOWN or NODE_CORRUPT; ctx's.
func (n *Node) AwaitEvents(ctx context.Context, seq uint64) error {
	if err := n.serving(); err != nil {
		return err
	}
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(n.duties.over, cancel)()
	if err := n.fsm.AwaitEvents(wait, seq); err != nil {
		if stopped := n.serving(); stopped != nil {
			return stopped
		}
		return fmt.Errorf("watch: %w", err)
	}
	return nil
}
