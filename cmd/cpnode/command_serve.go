package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/raftnode"
)

// serveOptions are the flags of serve and dev.
type serveOptions struct {
	node      raftnode.Config
	httpAddr  string
	peers     string
	logLevel  string
	logFormat string
	insecure  bool
	ephemeral bool
}

func (o *serveOptions) logFlags(c *cobra.Command) {
	c.Flags().StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	c.Flags().StringVar(&o.logFormat, "log-format", "text", "text or json")
}

func serveCommand() *cobra.Command {
	o := serveOptions{node: raftnode.DefaultConfig()}
	c := &cobra.Command{
		Use: "serve", Short: "Run one node of a cluster", Args: cobra.NoArgs,
		Example: "  cpnode serve --node-id a --data-dir data-a --http-addr 127.0.0.1:7481 --raft-addr 127.0.0.1:7491 \\\n    --peers a=127.0.0.1:7491,b=127.0.0.1:7492,c=127.0.0.1:7493",
		RunE: func(c *cobra.Command, _ []string) error {
			return serve(c.Context(), o, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.StringVar(&o.node.NodeID, "node-id", "", "name of this node within its cluster, for ever (required)")
	f.StringVar(&o.node.DataDir, "data-dir", "", "directory of the node's files (required)")
	f.StringVar(&o.httpAddr, "http-addr", "127.0.0.1:7480", "where clients connect")
	f.StringVar(&o.node.RaftAddr, "raft-addr", "127.0.0.1:7490", "where the other nodes connect")
	f.StringVar(&o.node.RaftAdvertise, "raft-advertise", "", "where the other nodes reach this one (default: as in --peers)")
	f.StringVar(&o.peers, "peers", "", "all nodes, this one included: id=addr,... (empty: a cluster of one)")
	f.BoolVar(&o.insecure, "insecure", false, "listen beyond loopback although no port has authentication yet")
	f.BoolVar(&o.node.Settings.Coalesce, "batch.coalescing.enabled", o.node.Settings.Coalesce, "join adjacent batches of a commit whose bytes touch")
	f.Int64Var(&o.node.Settings.ReplayRetentionMs, "commit.replay.retention.ms", o.node.Settings.ReplayRetentionMs, "how long a repeated commit is answered as before")
	f.Int64Var(&o.node.Settings.ForgottenKeyRetentionMs, "forgotten.key.retention.ms", o.node.Settings.ForgottenKeyRetentionMs, "how long the key of a forgotten object is fenced")
	f.Int64Var(&o.node.Settings.ObjectFenceRetentionMs, "object.fence.retention.ms", o.node.Settings.ObjectFenceRetentionMs, "how long a fence of is-safe-to-delete-file holds")
	o.logFlags(c)
	return c
}

func devCommand() *cobra.Command {
	o := serveOptions{node: raftnode.DefaultConfig()}
	o.node.NodeID, o.node.RaftAddr = "dev", "127.0.0.1:0"
	c := &cobra.Command{
		Use: "dev", Short: "Run one node with nothing to set up", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.ephemeral {
				dir, err := os.MkdirTemp("", "cpnode-dev-")
				if err != nil {
					return err
				}
				defer os.RemoveAll(dir) //nolint:errcheck // temporary files of a finished process
				o.node.DataDir = dir
			}
			return serve(c.Context(), o, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	c.Flags().StringVar(&o.node.DataDir, "data-dir", "cpnode-data", "directory of the node's files")
	c.Flags().StringVar(&o.httpAddr, "http-addr", "127.0.0.1:7480", "where clients connect")
	c.Flags().BoolVar(&o.ephemeral, "ephemeral", false, "keep nothing after the end")
	o.logFlags(c)
	return c
}

// serve runs a node until ctx ends or the node stops by itself.
func serve(ctx context.Context, o serveOptions, stdout, stderr io.Writer) (err error) {
	logger, err := newLogger(o, stderr)
	if err != nil {
		return err
	}
	if err := o.complete(); err != nil {
		return err
	}
	metrics := prometheus.NewRegistry()
	o.node.Logger, o.node.Registerer = logger, metrics
	listener, err := net.Listen("tcp", o.httpAddr)
	if err != nil {
		return fmt.Errorf("cannot listen for clients: %w; choose another --http-addr", err)
	}
	node, err := raftnode.Open(o.node)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server := api.NewServer(api.NewEmbedded(node, api.EmbeddedConfig{Limits: o.node.Settings.Limits, Logger: logger, Registerer: metrics}),
		api.ServerConfig{Version: version(), Gatherer: metrics})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Fprintf(stdout, "cpnode %s: node %s\n  clients  http://%s   (try /readyz, /metrics)\n  nodes    %s\n  data     %s\n",
		version(), o.node.NodeID, listener.Addr(), node.RaftAddr(), o.node.DataDir)
	select {
	case <-ctx.Done():
	case <-node.Stopped():
		err = node.Err()
	case err = <-served:
	}
	// Clients first, so that what they were promised is still answered; then the node.
	shutdown, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(err, server.Shutdown(shutdown), node.Close())
}

// complete checks the flags and fills in what follows from them.
func (o *serveOptions) complete() error {
	if o.node.NodeID == "" || o.node.DataDir == "" {
		return usagef("--node-id and --data-dir are required")
	}
	for flag, addr := range map[string]string{"--http-addr": o.httpAddr, "--raft-addr": o.node.RaftAddr} {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return usagef("%s %q: must be host:port", flag, addr)
		}
		if ip := net.ParseIP(host); !o.insecure && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return usagef("%s %q is not a loopback address and the port has no authentication yet; use 127.0.0.1, or say --insecure where the network is trusted", flag, addr)
		}
	}
	for item := range strings.SplitSeq(o.peers, ",") {
		if o.peers == "" {
			break
		}
		id, addr, ok := strings.Cut(item, "=")
		if !ok || id == "" || addr == "" {
			return usagef("--peers %q: must be id=host:port,...", o.peers)
		}
		o.node.Peers = append(o.node.Peers, raftnode.Peer{ID: id, Addr: addr})
	}
	return nil
}

func newLogger(o serveOptions, w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return nil, usagef("--log-level %q: must be debug, info, warn or error", o.logLevel)
	}
	options := &slog.HandlerOptions{Level: level}
	switch o.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, usagef("--log-format %q: must be text or json", o.logFormat)
}
