package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/cmd/cpnode/config"
	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/raftnode/raftmetrics"
)

// shutdownTimeout is how long requests that are being answered may take at the
// end.
const shutdownTimeout = 5 * time.Second

// readyInterval is how often a new node is asked whether it is ready.
const readyInterval = 100 * time.Millisecond

// serve runs a node until the command's context ends, or the node stops by itself.
func serve(cmd *cobra.Command, c config.Config) (err error) {
	logger := newLogger(cmd.ErrOrStderr(), c)
	// The port comes first: it is what is most often taken, and until then nothing
	// has been written.
	listener, err := listen("http.addr", c.HTTPAddr)
	if err != nil {
		return err
	}
	objects, err := c.LazyObjectStore()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	if objects != nil {
		defer func() { err = errors.Join(err, objects.Close()) }() // after the node, whose workers use it
	}
	registry, err := newRegistry()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	c.Node.Logger, c.Node.Registerer, c.Node.HTTPAdvertise = logger, registry, httpAdvertise(c, listener.Addr())
	if err := injectFaults(&c.Node); err != nil {
		return errors.Join(err, listener.Close())
	}
	node, err := raftnode.Open(c.Node)
	if err != nil {
		return errors.Join(explainOpen(err, c), listener.Close())
	}
	embedded := api.NewEmbedded(node, api.EmbeddedConfig{Limits: c.Node.Settings.Limits, Logger: logger, Registerer: registry})
	startWorkers(c, node, embedded, objects, logger, registry)
	server := api.NewServer(embedded, api.ServerConfig{Version: release(), Gatherer: registry})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	greeting := greeting{cmd.OutOrStdout(), "http://" + c.Node.HTTPAdvertise}
	greeting.introduce(c, node)
	return errors.Join(await(cmd.Context(), logger, node, served, greeting.invite), shutDown(server, node))
}

// newRegistry has what is measured of the process: by Go, by its system, and by the
// raft of the one node that it runs.
func newRegistry() (*prometheus.Registry, error) {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r, raftmetrics.Register(r)
}

// await returns when it is time to stop, with the reason unless that is a signal. It
// calls ready once, when the node can serve for the first time.
func await(ctx context.Context, logger *slog.Logger, node *raftnode.Node, served <-chan error, ready func()) error {
	look := time.NewTicker(readyInterval)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			if node.Ready() == nil {
				ready()
				look.Stop()
			}
		case <-ctx.Done():
			logger.Info("stopping", "role", node.Status().Role)
			return nil
		case <-node.Stopped():
			return fmt.Errorf("this node has stopped and must be looked at: %w; see %s check", node.Err(), program)
		case err := <-served:
			return err
		}
	}
}

// shutDown ends what answers clients before what answers it: what is being answered
// still needs the node, which then hands leadership over and closes its files.
func shutDown(server *api.Server, node *raftnode.Node) error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	err := server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil // the slow ones were cut off, as they were promised
	}
	return errors.Join(err, node.Close())
}

func newLogger(w io.Writer, c config.Config) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == config.LogJSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

func listen(key, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	return l, explainAddress(err, key, addr)
}

func explainAddress(err error, key, addr string) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s: %s is in use by another process; stop it or name another port", key, addr)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// explainOpen is why the node did not start. Only of a busy raft port does it not
// say itself what to do.
func explainOpen(err error, c config.Config) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return explainAddress(err, "raft.addr", c.Node.RaftAddr)
	}
	return err
}

// greeting is what a node says to the person who started it.
type greeting struct {
	to  io.Writer
	url string // of the node
}

// introduce says where the node is.
func (g greeting) introduce(c config.Config, node *raftnode.Node) {
	fmt.Fprintf(g.to, "cpnode %s: node %s\n", release(), c.Node.NodeID)
	raftAddr := node.RaftAddr()
	if told := node.RaftAdvertised(); told != raftAddr {
		raftAddr += ", reached by the other nodes at " + told
	}
	fmt.Fprintf(g.to, "  http  %s\n  raft  %s\n  data  %s\n", g.url, raftAddr, c.Node.DataDir)
	fmt.Fprintf(g.to, "Until it is ready, %s/readyz says for what it waits. Ctrl-C stops it.\n", g.url)
}

// invite says what to do next, once the node is ready.
func (g greeting) invite() {
	fmt.Fprintf(g.to, "Ready. Try:\n")
	fmt.Fprintf(g.to, "  %s topic create orders --partitions 3 --endpoints %s\n", program, g.url)
	fmt.Fprintf(g.to, "  curl %s/readyz; curl %s/metrics; curl %s/openapi.json\n", g.url, g.url, g.url)
}

// httpAdvertise is where clients reach this node, which serves at at. Nobody dials the
// address that stands for all of them.
func httpAdvertise(c config.Config, at net.Addr) string {
	if c.HTTPAdvertise != "" {
		return c.HTTPAdvertise
	}
	host, port, err := net.SplitHostPort(at.String())
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsUnspecified() {
		return at.String()
	}
	return net.JoinHostPort(raftHost(c.Node), port)
}

// raftHost is the host at which the other nodes look for this one.
func raftHost(c raftnode.Config) string {
	addr := cmp.Or(c.RaftAdvertise, c.RaftAddr)
	for _, p := range c.Peers {
		if p.ID == c.NodeID {
			addr = p.Addr
		}
	}
	host, _, _ := net.SplitHostPort(addr) // it was checked
	return host
}
