package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/cpnode/cpnode/pruner"
	"github.com/cpnode/cpnode/purger"
	"github.com/cpnode/cpnode/purger/objectstore"
	"github.com/cpnode/cpnode/raftnode"
)

// Config is everything that a node is started with. Start from Default.
type Config struct {
	// Node is the part of the raft node, without its logger and registerer.
	Node raftnode.Config
	// HTTPAddr is the host:port to serve HTTP on; port 0 picks a free one.
	HTTPAddr string
	// HTTPAdvertise is where clients reach the node, as the node says it; empty is
	// the address it serves on, with the host of its raft port where it serves on all.
	HTTPAdvertise string
	// TopicPurger, FileCleaner and Pruner are those of the background workers.
	TopicPurger purger.TopicPurgerConfig
	FileCleaner purger.FileCleanerConfig
	Pruner      pruner.Config
	// ObjectStore is where the objects of files lie, of type NoObjectStore when that is
	// not the node's business. Its secret key is not read yet: see LazyObjectStore.
	ObjectStore objectstore.Config
	// ObjectSecretFile is the file that holds the secret key.
	ObjectSecretFile string
	// LogLevel is the least severe line that is logged.
	LogLevel slog.Level
	// LogFormat is LogText or LogJSON.
	LogFormat string
}

// The formats of log lines.
const (
	LogText = "text"
	LogJSON = "json"
)

// Default is the configuration of a node that was told nothing but its name.
func Default() Config {
	node := raftnode.DefaultConfig()
	node.DataDir, node.RaftAddr = "cpnode-data", "127.0.0.1:7490"
	return Config{
		Node: node, HTTPAddr: "127.0.0.1:7480", LogLevel: slog.LevelInfo, LogFormat: LogText,
		TopicPurger: purger.DefaultTopicPurgerConfig(), FileCleaner: purger.DefaultFileCleanerConfig(), Pruner: pruner.DefaultConfig(),
		ObjectStore: objectstore.Config{Type: NoObjectStore},
	}
}

// Validate checks what no key can check alone.
func (c *Config) Validate() error {
	if c.Node.NodeID == "" {
		return errors.New("node.id: must be given: a name for this node, such as a")
	}
	switch heartbeat := c.Node.HeartbeatTimeout; {
	case c.Node.ElectionTimeout < heartbeat:
		return fmt.Errorf("raft.election.timeout.ms: must be at least raft.heartbeat.timeout.ms, %d", heartbeat.Milliseconds())
	case c.Node.LeaderLeaseTimeout > heartbeat:
		return fmt.Errorf("raft.leader.lease.timeout.ms: must be at most raft.heartbeat.timeout.ms, %d", heartbeat.Milliseconds())
	}
	if err := c.Node.Validate(); err != nil {
		return renamed(err)
	}
	if !c.Node.Insecure && !isLoopback(c.HTTPAddr) {
		return fmt.Errorf("http.addr: %s is not a loopback address, and there is no authentication of clients yet; use 127.0.0.1, or --insecure on a network you trust", c.HTTPAddr)
	}
	return c.ValidateObjectStore()
}

// fieldKeys are the keys of what the parts' Validate names by field.
var fieldKeys = map[string]string{
	"NodeID": "node.id", "DataDir": "data.dir", "RaftAddr": "raft.addr", "RaftAdvertise": "raft.advertise", "Peers": "peers",
	"MaxProposalBytes": "proposals.max.bytes", "StateMaxBytes": "state.max.bytes", "RaftTLS": "raft.tls", "RaftSecretFile": "raft.secret.file",
	"Directory": "object.store.directory", "S3.Endpoint": "object.store.endpoint", "S3.Bucket": "object.store.bucket",
	"S3.AccessKey, S3.SecretKey": "object.store.access.key, object.store.secret.key.file",
}

// otherFields are fields that messages name beside the wrong one.
var otherFields = strings.NewReplacer("RaftTLS", "raft.tls.*", "RaftSecretFile", "raft.secret.file", "Insecure", "--insecure", "RaftAddr", "raft.addr", "RaftAdvertise", "raft.advertise")

// renamed is an error of a part's Validate with the key in place of the
// field.
func renamed(err error) error {
	field, problem, _ := strings.Cut(err.Error(), ": ")
	if key, ok := fieldKeys[field]; ok {
		return errors.New(key + ": " + otherFields.Replace(problem))
	}
	return err
}

// isLoopback says whether nobody beyond this machine can reach an address. A name
// other than localhost may become anything.
func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// ParsePeers reads id=host:port,... ; an empty text is no peers.
func ParsePeers(text string) ([]raftnode.Peer, error) {
	var peers []raftnode.Peer
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		id, addr, ok := strings.Cut(item, "=")
		if !ok || id == "" || addr == "" {
			return nil, fmt.Errorf("%q is not id=host:port", item)
		}
		peers = append(peers, raftnode.Peer{ID: id, Addr: addr})
	}
	return peers, nil
}

func formatPeers(peers []raftnode.Peer) string {
	items := make([]string, len(peers))
	for i, p := range peers {
		items[i] = p.ID + "=" + p.Addr
	}
	return strings.Join(items, ",")
}
