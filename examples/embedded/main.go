// Command embedded shows how a Go broker carries the control plane inside itself:
// three nodes in one program, one of which is closed while commits go on.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/internal/loopback"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/purger"
	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/store"
	"github.com/cpnode/cpnode/worker"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "embedded:", err)
		os.Exit(1)
	}
}

// member is one broker's part of the control plane.
type member struct {
	*raftnode.Node
	api.ControlPlane
}

func run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "cpnode-embedded-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	members, err := open(dir)
	defer func() {
		for _, m := range members {
			err = errors.Join(err, m.Close())
		}
	}()
	if err != nil {
		return err
	}
	for _, m := range members {
		if err := ready(ctx, m, ""); err != nil {
			return err
		}
	}
	fmt.Printf("three nodes in one process, %s leads\n", members[0].LeaderID())

	topic := store.TopicID{0xe, 15: 1}
	_, err = members[0].CreateTopics(ctx, &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{{TopicID: topic, TopicName: "orders", NumPartitions: 1}}})
	if err != nil {
		return err
	}
	for i, m := range members { // any node takes any request
		if err := commit(ctx, m, topic, fmt.Sprintf("wal/%d", i)); err != nil {
			return err
		}
	}
	leader, others := split(members)
	closed := leader.Status().NodeID
	fmt.Printf("closing %s\n", closed)
	if err := leader.Close(); err != nil {
		return err
	}
	for _, m := range others {
		if err := ready(ctx, m, closed); err != nil {
			return err
		}
	}
	fmt.Printf("%s leads now\n", others[0].LeaderID())
	if err := commit(ctx, others[0], topic, "wal/3"); err != nil {
		return err
	}
	found, err := others[1].FindBatches(ctx, &ops.FindBatchesRequest{
		Requests:      []ops.FindBatches{{TopicID: topic, MaxPartitionFetchBytes: 1 << 20}},
		FetchMaxBytes: 1 << 20,
	})
	if err != nil {
		return err
	}
	for _, b := range found.Responses[0].Batches {
		fmt.Printf("  offsets %d to %d in %s\n", b.BaseOffset, b.LastOffset, b.ObjectKey)
	}
	return nil
}

// open starts three nodes that know each other. Brokers would each open one, at
// the addresses of their configuration.
func open(dir string) ([]member, error) {
	var peers []raftnode.Peer
	for _, id := range []string{"a", "b", "c"} {
		addr, err := loopback.FreeAddr()
		if err != nil {
			return nil, err
		}
		peers = append(peers, raftnode.Peer{ID: id, Addr: addr})
	}
	var members []member
	for _, p := range peers {
		config := raftnode.DefaultConfig()
		config.NodeID, config.RaftAddr, config.Peers = p.ID, p.Addr, peers
		config.DataDir = filepath.Join(dir, p.ID)
		node, err := raftnode.Open(config)
		if err != nil {
			return members, err
		}
		plane := api.NewEmbedded(node, api.EmbeddedConfig{})
		node.WhileLeading(purger.NewTopicPurger(purger.DefaultTopicPurgerConfig(), plane, nil, worker.Deps{}).Run)
		members = append(members, member{node, plane})
	}
	return members, nil
}

// ready waits until the node knows a leader, not the one that was closed, and has
// caught up with it.
func ready(ctx context.Context, m member, closed string) error {
	for {
		err := m.Ready()
		if err == nil && m.LeaderID() != closed {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("node %s is not ready: %w", m.Status().NodeID, errors.Join(err, ctx.Err()))
		}
	}
}

func commit(ctx context.Context, m member, topic store.TopicID, key string) error {
	answer, err := m.CommitFile(ctx, &ops.CommitFileRequest{
		ObjectKey: key, Format: 1, UploaderBrokerID: 1, FileSize: 100,
		Batches: []ops.CommitBatch{{
			TopicID: topic, Magic: 2, ByteSize: 100, LastOffset: 9, BatchMaxTimestamp: time.Now().UnixMilli(),
			ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1,
		}},
	})
	if err != nil {
		return err
	}
	fmt.Printf("  %s committed through %s: offset %d\n", key, m.Status().NodeID, answer.Batches[0].AssignedBaseOffset)
	return nil
}

// split is the leader and the others.
func split(members []member) (leader member, others []member) {
	leader = members[0]
	for _, m := range members {
		if m.Status().NodeID == m.LeaderID() {
			leader = m
		}
	}
	for _, m := range members {
		if m.Node != leader.Node {
			others = append(others, m)
		}
	}
	return leader, others
}
