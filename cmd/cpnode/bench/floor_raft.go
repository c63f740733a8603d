package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"github.com/cpnode/cpnode/raftnode"
)

// floorCluster is what Raft itself costs: the raft settings of our nodes, with
// raft-boltdb, over loopback TCP, on a state machine that does nothing.
type floorCluster struct {
	dir    string
	nodes  []*floorNode
	leader *floorNode
}

type floorNode struct {
	raft      *raft.Raft
	transport *raft.NetworkTransport
	log       *raftboltdb.BoltStore
}

const (
	floorTimeout = 10 * time.Second
	floorPool    = 3
)

// newFloorCluster starts as many nodes under dir, which it makes and removes.
func newFloorCluster(ctx context.Context, parent string, nodes int) (*floorCluster, error) {
	dir, err := os.MkdirTemp(parent, "floor-")
	if err != nil {
		return nil, err
	}
	c := &floorCluster{dir: dir}
	if err := c.open(ctx, nodes); err != nil {
		return nil, errors.Join(err, c.remove())
	}
	return c, nil
}

func (c *floorCluster) open(ctx context.Context, nodes int) error {
	configs, err := clusterConfigs(c.dir, nodes)
	if err != nil {
		return err
	}
	var members raft.Configuration
	for _, config := range configs {
		members.Servers = append(members.Servers, raft.Server{ID: raft.ServerID(config.NodeID), Address: raft.ServerAddress(config.RaftAddr)})
	}
	for i := range configs {
		n := &floorNode{}
		c.nodes = append(c.nodes, n)
		if err := n.open(&configs[i], members); err != nil {
			return err
		}
	}
	return poll(ctx, "a leader of the floor", func() bool {
		for _, n := range c.nodes {
			if n.raft.State() == raft.Leader {
				c.leader = n
			}
		}
		return c.leader != nil
	})
}

func (n *floorNode) open(config *raftnode.Config, members raft.Configuration) (err error) {
	if n.log, err = raftboltdb.New(raftboltdb.Options{Path: filepath.Join(filepath.Dir(config.DataDir), config.NodeID+".db"), BoltOptions: bareOptions()}); err != nil {
		return err
	}
	if n.transport, err = raft.NewTCPTransportWithLogger(config.RaftAddr, nil, floorPool, floorTimeout, hclog.NewNullLogger()); err != nil {
		return err
	}
	settings := config.RaftConfig()
	settings.Logger = hclog.NewNullLogger()
	cache, err := raft.NewLogCache(settings.MaxAppendEntries, n.log)
	if err != nil {
		return err
	}
	snapshots := raft.NewDiscardSnapshotStore()
	if err := raft.BootstrapCluster(settings, n.log, n.log, snapshots, n.transport, members); err != nil {
		return err
	}
	n.raft, err = raft.NewRaft(settings, idleFSM{}, cache, n.log, snapshots, n.transport)
	return err
}

func (c *floorCluster) remove() error {
	var errs []error
	for _, n := range c.nodes {
		errs = append(errs, n.close())
	}
	return errors.Join(append(errs, os.RemoveAll(c.dir))...)
}

func (n *floorNode) close() error {
	var errs []error
	if n.raft != nil {
		errs = append(errs, n.raft.Shutdown().Error())
	}
	if n.transport != nil {
		errs = append(errs, n.transport.Close())
	}
	if n.log != nil {
		errs = append(errs, n.log.Close())
	}
	return errors.Join(errs...)
}

// apply is a call that logs entry.
func (c *floorCluster) apply(entry []byte) call {
	return func(context.Context, int) error {
		if err := c.leader.raft.Apply(entry, floorTimeout).Error(); err != nil {
			return fmt.Errorf("floor: %w", err)
		}
		return nil
	}
}

// idleFSM does nothing.
type idleFSM struct{}

var _ raft.BatchingFSM = idleFSM{}

func (idleFSM) Apply(*raft.Log) any { return nil }

func (idleFSM) ApplyBatch(entries []*raft.Log) []any { return make([]any, len(entries)) }

func (idleFSM) Snapshot() (raft.FSMSnapshot, error) { return idleFSM{}, nil }

func (idleFSM) Restore(r io.ReadCloser) error { return r.Close() }

func (idleFSM) Persist(sink raft.SnapshotSink) error { return sink.Close() }

func (idleFSM) Release() {}
