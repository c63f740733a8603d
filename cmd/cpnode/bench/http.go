package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/api/wire"
	"github.com/cpnode/cpnode/ops"
)

// httpSide is a cluster's leader served over HTTP on loopback, and the least that
// asks it in msgpack.
type httpSide struct {
	server *api.Server
	served chan error
	url    string
	client *http.Client
}

func (c *cluster) serve() (*httpSide, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := &httpSide{
		server: api.NewServer(api.NewEmbedded(c.leader, api.EmbeddedConfig{}), api.ServerConfig{}),
		served: make(chan error, 1), url: "http://" + l.Addr().String() + "/v1/",
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: mostClients}},
	}
	go func() { h.served <- h.server.Serve(l) }()
	return h, nil
}

func (h *httpSide) close(ctx context.Context) error {
	h.client.CloseIdleConnections()
	return errors.Join(h.server.Shutdown(ctx), <-h.served)
}

// ask posts request to path and decodes the answer.
func (h *httpSide) ask(ctx context.Context, path string, request, answer any) error {
	body, err := wire.Append(wire.Msgpack, nil, request)
	if err != nil {
		return err
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	post.Header.Set("Content-Type", "application/msgpack")
	response, err := h.client.Do(post)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", path, response.Status, text)
	}
	return wire.DecodeAnswer(wire.Msgpack, text, answer)
}

func (h *httpSide) commitFile(ctx context.Context, r *ops.CommitFileRequest) (*ops.CommitFileResponse, error) {
	answer := new(ops.CommitFileResponse)
	return answer, h.ask(ctx, "commit-file", r, answer)
}

func (h *httpSide) findBatches(ctx context.Context, q *ops.FindBatchesRequest) (*ops.FindBatchesResponse, error) {
	answer := new(ops.FindBatchesResponse)
	return answer, h.ask(ctx, "find-batches?consistency=stale", q, answer)
}
