package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/purger/objectstore"
	"github.com/cpnode/cpnode/raftnode"
	switchover "github.com/cpnode/cpnode/switch"
	"github.com/cpnode/cpnode/switch/remotestore"
)

// broker is one process: a node of the control plane, local logs behind the gate, and what
// fills and empties them.
type broker struct {
	id      int32
	address address
	layout  layout
	points  points
	logger  *slog.Logger

	node  *raftnode.Node
	plane *api.Embedded

	objects   *objectstore.Directory
	wal       *wal
	remote    *remotestore.Store
	view      *remotestore.View
	disk      *disk
	known     *registry
	producers *producers
	fetchers  *fetchers
	gate      *switchover.Gate

	incarnation string       // of this process
	epoch       atomic.Int64 // of the registration
	upToDate    atomic.Bool  // all that was said before the registration is applied
	serving     atomic.Bool  // registered, up to date, and not fenced at first
	failure     chan error   // the first one ends the process
}

// serve runs the broker of an id in a cluster's directory until ctx ends or something fails.
func serve(ctx context.Context, dir string, id int32, output io.Writer) (err error) {
	b, err := newBroker(dir, id, slog.New(slog.NewTextHandler(output, nil)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	listener, err := net.Listen("tcp", b.address.HTTP)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	server := &http.Server{Handler: b.routes(), BaseContext: func(net.Listener) context.Context { return ctx }}
	running.Go(func() { b.fail(server.Serve(listener)) })
	running.Go(func() { b.fail(b.followRegistrations(ctx)) })
	running.Go(func() { b.fail(b.keepRegistered(ctx)) })
	running.Go(func() { b.tier(ctx) })
	b.gate.Start()
	select {
	case <-ctx.Done():
	case err = <-b.failure:
	}
	stop() // reads that wait for records end, too
	err = errors.Join(err, server.Close())
	b.gate.Close()
	b.fetchers.close()
	running.Wait()
	return err
}

func newBroker(dir string, id int32, logger *slog.Logger) (b *broker, err error) {
	b = &broker{
		id: id, points: points{pointsDir(dir), id}, logger: logger, known: newRegistry(), incarnation: rand.Text(), failure: make(chan error, 1),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.layout, err = readLayout(dir); err != nil {
		return b, err
	}
	if b.address, err = b.layout.address(id); err != nil {
		return b, err
	}
	if err := b.openControlPlane(metaDir(dir, id)); err != nil {
		return b, err
	}
	if err := b.openStorage(dir); err != nil {
		return b, err
	}
	b.openGate()
	return b, nil
}

func (b *broker) openControlPlane(dir string) (err error) {
	config := raftnode.DefaultConfig()
	config.NodeID, config.DataDir, config.RaftAddr, config.Peers = nodeID(b.id), dir, b.address.Raft, b.layout.peers()
	config.Settings.BrokerSessionMs = b.layout.Session.Milliseconds()
	config.Logger = b.logger
	if b.node, err = raftnode.Open(config); err != nil {
		return err
	}
	b.plane = api.NewEmbedded(b.node, api.EmbeddedConfig{Logger: b.logger})
	return nil
}

func (b *broker) openStorage(dir string) (err error) {
	if b.objects, err = objectstore.OpenDirectory(objectsDir(dir)); err != nil {
		return err
	}
	b.wal = &wal{broker: b.id, plane: b.plane, objects: b.objects}
	open := remotestore.Open
	if b.layout.NoRemoteBytes {
		open = remotestore.OpenWithoutBytes
	}
	if b.remote, err = open(remoteDir(dir)); err != nil {
		return err
	}
	b.view = remotestore.NewView(b.remote)
	b.disk, err = openDisk(logsDir(dir, b.id), func(ref ops.LogRef) {
		b.points.reach(pointDuringDeletion, b.known.leads(ref, b.id))
	})
	return err
}

func (b *broker) openGate() {
	b.fetchers = &fetchers{broker: b}
	b.producers = &producers{failed: b.LogDirFailed, known: map[ops.LogRef]*knownProducers{}}
	config := switchover.DefaultConfig(b.id)
	config.ReplicaLagMax, config.RetryMax, config.CommitTimeout = b.layout.Session, b.layout.Session, callTimeout
	b.gate = switchover.New(config, switchover.Deps{
		Remote: b.view, Diskless: b.wal, Fetchers: b.fetchers, Failures: b, Producers: b.producers, Brokers: b.known,
		ControlPlane: steppedPlane{b}, Logger: b.logger,
	})
	b.producers.gate = b.gate
}

// close frees what was opened, whatever that is. The logs come before the control plane,
// which says that they are whole.
func (b *broker) close() (err error) {
	if b.disk != nil {
		err = b.disk.close()
	}
	if b.remote != nil {
		err = errors.Join(err, b.remote.Close())
	}
	if b.objects != nil {
		err = errors.Join(err, b.objects.Close())
	}
	if b.node != nil {
		err = errors.Join(err, b.node.Close())
	}
	return err
}

// fail ends the process with the first error that is one.
func (b *broker) fail(err error) {
	if err == nil || errors.Is(err, http.ErrServerClosed) || errors.Is(err, context.Canceled) {
		return
	}
	select {
	case b.failure <- err:
	default:
	}
}

// LogDirFailed implements switchover.LogDirFailureHandler. This broker has one disk.
func (b *broker) LogDirFailed(ref ops.LogRef, err error) {
	b.fail(fmt.Errorf("the log of %s-%d: %w", ref.TopicID, ref.Partition, err))
}
