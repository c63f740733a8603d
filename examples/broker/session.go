package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cpnode/cpnode/ops"
)

// retryPause is between two tries of whatever did not work.
const retryPause = 50 * time.Millisecond

// keepRegistered registers the broker and keeps it alive by heartbeats, until ctx ends.
func (b *broker) keepRegistered(ctx context.Context) error {
	intact := b.disk.intact
	for ctx.Err() == nil {
		epoch, err := b.register(ctx, intact)
		if err == nil {
			b.epoch.Store(epoch)
			intact = true // from here on only this process writes to the disk
			err = b.heartbeats(ctx, epoch)
		}
		if err != nil && ctx.Err() == nil {
			b.logger.Warn("not registered; trying again", "error", err)
			_ = pause(ctx, retryPause) // the error is ctx's, which the loop looks at
		}
	}
	return nil
}

// register registers the broker, fenced, and waits until all that was said before is applied:
// a broker that has not would serve what it had before it was down.
func (b *broker) register(ctx context.Context, intact bool) (epoch int64, err error) {
	answer, err := b.plane.RegisterBroker(ctx, &ops.RegisterBrokerRequest{
		BrokerID: b.id, IncarnationID: b.incarnation, Endpoints: []string{b.address.HTTP}, CleanShutdown: intact,
	})
	switch {
	case err != nil:
		return 0, err
	case answer.Error != ops.None: // of a session that has not ended yet, above all
		return 0, fmt.Errorf("register-broker: %s", answer.Error)
	}
	for {
		if known, _ := b.known.Epoch(b.id); known >= answer.BrokerEpoch && b.upToDate.Load() {
			return answer.BrokerEpoch, nil
		}
		if err := pause(ctx, retryPause); err != nil {
			return 0, err
		}
	}
}

// heartbeats says that the broker is alive until the control plane does not know it any
// more under this epoch. The first one unfences it.
func (b *broker) heartbeats(ctx context.Context, epoch int64) error {
	interval := b.layout.Session / 10
	for {
		called, cancel := context.WithTimeout(ctx, b.layout.Session/2)
		answer, err := b.plane.BrokerHeartbeat(called, &ops.BrokerHeartbeatRequest{BrokerID: b.id, BrokerEpoch: epoch})
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			b.logger.Warn("heartbeat", "error", err)
		case answer.Error != ops.None:
			return errors.New("broker-heartbeat: " + string(answer.Error))
		default:
			b.serving.Store(true)
		}
		if err := pause(ctx, interval); err != nil {
			return nil
		}
	}
}
