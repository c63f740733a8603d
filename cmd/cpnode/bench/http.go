package bench

import (
	"context"
	"errors"
	"net"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
)

// httpSide is a cluster's leader served over HTTP on loopback, and a client of it.
type httpSide struct {
	server *api.Server
	served chan error
	client *api.Client
}

func (c *cluster) serve() (*httpSide, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	client, err := api.NewClient(api.DefaultClientConfig("http://" + l.Addr().String()))
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	h := &httpSide{
		server: api.NewServer(api.NewEmbedded(c.leader, api.EmbeddedConfig{}), api.ServerConfig{}),
		served: make(chan error, 1), client: client,
	}
	go func() { h.served <- h.server.Serve(l) }()
	return h, nil
}

func (h *httpSide) close(ctx context.Context) error {
	h.client.Close()
	return errors.Join(h.server.Shutdown(ctx), <-h.served)
}

func (h *httpSide) commitFile(ctx context.Context, r *ops.CommitFileRequest) (*ops.CommitFileResponse, error) {
	return h.client.CommitFile(ctx, r)
}

func (h *httpSide) findBatches(ctx context.Context, q *ops.FindBatchesRequest) (*ops.FindBatchesResponse, error) {
	return h.client.FindBatches(ctx, q, api.Stale())
}
