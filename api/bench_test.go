package api

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/api/wire"
	"github.com/cpnode/cpnode/ops"
)

// benchmarkWays runs fn in process and over HTTP, with 32 callers per core, on one
// node that has a topic of 100 partitions.
func benchmarkWays(b *testing.B, fn func(b *testing.B, cp ControlPlane)) {
	s := single(b, nil)
	_, err := s.embedded.CreateTopics(b.Context(), newTopic(100))
	require.NoError(b, err)
	config := DefaultClientConfig(s.url)
	msgpack := newClient(b, config)
	config.Format = wire.JSON
	json := newClient(b, config)
	for _, way := range []struct {
		name string
		cp   ControlPlane
	}{{"in process", s.embedded}, {"HTTP msgpack", msgpack}, {"HTTP JSON", json}} {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(32)
			fn(b, way.cp)
		})
	}
}

var benchmarkKeys atomic.Int64

func BenchmarkCommit(b *testing.B) {
	benchmarkWays(b, func(b *testing.B, cp ControlPlane) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := cp.CommitFile(b.Context(), commitOf(fmt.Sprint("wal/", benchmarkKeys.Add(1)), 10)); err != nil {
					b.Error(err)
				}
			}
		})
	})
}

func BenchmarkStaleRead(b *testing.B) {
	request := &ops.GetLogInfoRequest{}
	for i := range int32(10) {
		request.Requests = append(request.Requests, ops.LogRef{TopicID: testTopic, Partition: i})
	}
	benchmarkWays(b, func(b *testing.B, cp ControlPlane) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := cp.GetLogInfo(b.Context(), request, Stale()); err != nil {
					b.Error(err)
				}
			}
		})
	})
}

// BenchmarkHandler is what the server itself takes for a read, without connection
// and client.
func BenchmarkHandler(b *testing.B) {
	s := single(b, nil)
	_, err := s.embedded.CreateTopics(b.Context(), newTopic(1))
	require.NoError(b, err)
	server := NewServer(s.embedded, ServerConfig{})
	for name, f := range map[string]wire.Format{"JSON": wire.JSON, "msgpack": wire.Msgpack} {
		body, err := wire.Append(f, nil, &ops.GetLogInfoRequest{Requests: []ops.LogRef{{TopicID: testTopic}}})
		require.NoError(b, err)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				record(server, "get-log-info", f, body)
			}
		})
	}
}
