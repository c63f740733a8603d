package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cpnode/cpnode/internal/loopback"
	"github.com/cpnode/cpnode/raftnode"
)

// layout is what all brokers of a cluster know from the start. It lies in a file of the
// cluster's directory, beside the directories of the brokers and of what they share.
type layout struct {
	Brokers []address `json:"brokers"`
	// Session is the silence after which a broker is fenced.
	Session time.Duration `json:"session"`
	// NoRemoteBytes makes remote storage forget what was uploaded.
	NoRemoteBytes bool `json:"no_remote_bytes"`
}

// address is where a broker listens: its part of the control plane, and the broker itself.
type address struct {
	ID   int32  `json:"id"`
	Raft string `json:"raft"`
	HTTP string `json:"http"`
}

func newLayout(brokers int32, session time.Duration) (layout, error) {
	l := layout{Session: session}
	for id := int32(1); id <= brokers; id++ {
		a := address{ID: id}
		var err error
		if a.Raft, err = loopback.FreeAddr(); err == nil {
			a.HTTP, err = loopback.FreeAddr()
		}
		if err != nil {
			return layout{}, err
		}
		l.Brokers = append(l.Brokers, a)
	}
	return l, nil
}

func layoutFile(dir string) string { return filepath.Join(dir, "cluster.json") }

func (l *layout) write(dir string) error {
	text, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(layoutFile(dir), text, 0o600)
}

func readLayout(dir string) (l layout, err error) {
	text, err := os.ReadFile(layoutFile(dir))
	if err == nil {
		err = json.Unmarshal(text, &l)
	}
	return l, err
}

// peers are the nodes of the control plane: one in each broker.
func (l *layout) peers() []raftnode.Peer {
	var peers []raftnode.Peer
	for _, a := range l.Brokers {
		peers = append(peers, raftnode.Peer{ID: nodeID(a.ID), Addr: a.Raft})
	}
	return peers
}

func nodeID(broker int32) string { return fmt.Sprintf("broker-%d", broker) }

func (l *layout) address(broker int32) (address, error) {
	for _, a := range l.Brokers {
		if a.ID == broker {
			return a, nil
		}
	}
	return address{}, fmt.Errorf("there is no broker %d", broker)
}

// The directories of a cluster.
func brokerDir(dir string, broker int32) string { return filepath.Join(dir, nodeID(broker)) }
func metaDir(dir string, broker int32) string   { return filepath.Join(brokerDir(dir, broker), "meta") }
func logsDir(dir string, broker int32) string   { return filepath.Join(brokerDir(dir, broker), "logs") }
func objectsDir(dir string) string              { return filepath.Join(dir, "objects") }
func remoteDir(dir string) string               { return filepath.Join(dir, "remote") }
func pointsDir(dir string) string               { return filepath.Join(dir, "points") }
