package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/cpnode/cpnode/api"
	switchover "github.com/cpnode/cpnode/switch"
	"github.com/cpnode/cpnode/switch/remotestore"
	"github.com/cpnode/cpnode/switch/segmentlog"
)

// routes are the broker's own, and those of the control plane.
func (b *broker) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", api.NewServer(b.plane, api.ServerConfig{Version: "example"}))
	route(mux, verbProduce, b.whenServing, b.produce)
	route(mux, verbConsume, b.whenServing, b.consume)
	route(mux, verbFetch, b.whenServing, b.serveFetch)
	route(mux, verbEndOfEpoch, b.whenServing, b.serveEndOfEpoch)
	route(mux, verbStatus, always, b.status)
	route(mux, verbCopying, always, b.setCopying)
	route(mux, verbReady, b.whenServing, func(context.Context, empty) (empty, error) { return empty{}, nil })
	return mux
}

func always() error { return nil }

// whenServing refuses what comes before the broker is registered: until then it may know
// less than it has known before it was down.
func (b *broker) whenServing() error {
	if !b.serving.Load() {
		return fmt.Errorf("%w: the broker is not registered yet", errAgain)
	}
	return nil
}

func route[R, A any](mux *http.ServeMux, verb string, allowed func() error, do func(context.Context, R) (A, error)) {
	mux.HandleFunc("POST /broker/"+verb, func(w http.ResponseWriter, r *http.Request) {
		var request R
		err := json.NewDecoder(r.Body).Decode(&request)
		if err == nil {
			err = allowed()
		}
		var answer A
		if err == nil {
			answer, err = do(r.Context(), request)
		}
		if err != nil {
			http.Error(w, err.Error(), statusOf(err))
			return
		}
		_ = json.NewEncoder(w).Encode(answer) // who asked may be gone
	})
}

// statusOf tells what a second try would not help.
func statusOf(err error) int {
	if errors.Is(err, remotestore.ErrLost) || errors.Is(err, segmentlog.ErrCorrupt) {
		return http.StatusInternalServerError
	}
	return http.StatusServiceUnavailable
}

// consume reads records from an offset on, of as many batches as there are at once.
func (b *broker) consume(ctx context.Context, r consumeRequest) (a consumeAnswer, err error) {
	result, err := b.gate.Read(ctx, switchover.ReadRequest{Ref: r.Ref, Offset: r.Offset, MaxBytes: fetchBytes, Replica: switchover.Consumer})
	if err != nil {
		return a, fmt.Errorf("at offset %d: %w", r.Offset, err)
	}
	a.Tier = result.Tier
	for i := range result.Batches {
		set, err := decodeBatch(&result.Batches[i])
		if err != nil {
			return a, err
		}
		skipped := min(max(r.Offset-result.Batches[i].BaseOffset, 0), int64(len(set.Records)))
		a.Records = append(a.Records, set.Records[skipped:]...)
	}
	return a, nil
}

// status is what the gate says of a partition, and how much of its prefix is still here.
func (b *broker) status(_ context.Context, r statusRequest) (a statusAnswer, err error) {
	if a.Status, err = b.gate.Status(r.Ref); err != nil {
		return a, err
	}
	a.Serving, a.HighestRemote = b.serving.Load(), b.view.HighestOffset(r.Ref)
	reg, ok := b.known.registration(r.Ref)
	if !ok || !reg.Sealed() || a.Offline != "" {
		return a, nil
	}
	return a, b.gate.WithLog(r.Ref, func(log switchover.LocalLog) error {
		for _, s := range log.Segments() {
			if s.Base < min(reg.Seal(), s.End) {
				a.PrefixSegments++
			}
		}
		return nil
	})
}

func (b *broker) setCopying(_ context.Context, r copyingRequest) (empty, error) {
	b.view.SetCopying(r.On)
	return empty{}, nil
}
