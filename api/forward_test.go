package api

import (
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/api/wire"
	"github.com/cpnode/cpnode/ops"
)

func TestFollowersForward(t *testing.T) {
	nodes := three(t, nil)
	leader, follower := nodes[0], nodes[1]
	body, err := wire.Append(wire.JSON, nil, newTopic(1))
	require.NoError(t, err)

	r := follower.post(t, "create-topics", string(body))
	require.Equal(t, http.StatusOK, r.status, "%s", r.body)
	require.Equal(t, leader.config.NodeID, r.header.Get(headerLeader))
	require.Equal(t, follower.config.NodeID, r.header.Get(headerNode))
	index := r.header.Get(headerIndex)
	require.NotEmpty(t, index)

	r = follower.post(t, "list-topics", `{}`)
	require.Equal(t, http.StatusOK, r.status, "%s", r.body)
	require.Equal(t, index, r.header.Get(headerAppliedIndex))
	require.Contains(t, string(r.body), `"topic_name":"t"`)
	require.EqualValues(t, 2, testutil.ToFloat64(follower.embedded.metrics.sent))
	require.EqualValues(t, 2, testutil.ToFloat64(leader.embedded.metrics.served))

	r = follower.post(t, "list-topics?consistency=stale&min_index="+index, `{}`)
	require.Contains(t, string(r.body), `"topic_name":"t"`)
	require.NotEmpty(t, r.header.Get(headerStaleness))
	require.EqualValues(t, 2, testutil.ToFloat64(follower.embedded.metrics.sent), "a stale read stays here")
}

func TestFollowersForwardRefusals(t *testing.T) {
	follower := three(t, nil)[1]
	r := follower.post(t, "commit-file", `{"object_keys":"k"}`)
	r.requireCode(t, http.StatusBadRequest, ops.InvalidRequest, "object_keys: unknown field (did you mean object_key?)")
	r = follower.send(t, http.MethodPost, "/v1/commit-file", []byte(`{}`), "Accept", mediaTypes[wire.Msgpack])
	require.Equal(t, mediaTypes[wire.Msgpack], r.header.Get("Content-Type"))
	e, ok := decodeError(wire.Msgpack, r.body)
	require.True(t, ok)
	require.Equal(t, ops.InvalidRequest, e.Code)
}

func TestForwardedCallGoesNoFurther(t *testing.T) {
	follower := three(t, nil)[1]
	frame := appendCall(nil, &wireCall{op: follower.embedded.operations["list-topics"], body: []byte(`{}`)})
	a, err := parseAnswer(follower.embedded.answerForwarded(t.Context(), frame))
	require.NoError(t, err)
	require.Equal(t, ops.NoLeader, a.code)
}

func TestForwardedCallOfAnotherRelease(t *testing.T) {
	e := single(t, nil).embedded
	frame := appendCall(nil, &wireCall{op: &operation{verb: &verb{name: "of-tomorrow"}}, out: wire.Msgpack})
	a, err := parseAnswer(e.answerForwarded(t.Context(), frame))
	require.NoError(t, err)
	require.Equal(t, ops.UnsupportedFeatureLevel, a.code)
	frame[0]++
	a, err = parseAnswer(e.answerForwarded(t.Context(), frame))
	require.NoError(t, err)
	require.Equal(t, ops.UnsupportedFeatureLevel, a.code)
	frame = appendAnswer(a)
	frame[len(frame)-1]++
	_, err = parseAnswer(frame)
	require.ErrorIs(t, err, errForwardFrame)
}

func TestWithoutMajorityThereIsNoLeader(t *testing.T) {
	nodes := three(t, nil)
	require.NoError(t, nodes[1].node.Close())
	require.NoError(t, nodes[2].node.Close())
	var r reply
	eventually(t, "the leader has stepped down", func() bool {
		r = nodes[0].post(t, "list-topics", `{}`)
		return r.status == http.StatusServiceUnavailable
	})
	r.requireCode(t, http.StatusServiceUnavailable, ops.NoLeader, "")
	require.Equal(t, "1", r.header.Get("Retry-After"))
	r = nodes[0].post(t, "list-topics?consistency=stale", `{}`)
	require.Equal(t, http.StatusOK, r.status, "stale reads go on")
}

// FuzzFrames holds frames to their round trip; what is not a frame is refused.
func FuzzFrames(f *testing.F) {
	f.Add(appendCall(nil, &wireCall{op: &operation{verb: &verb{name: "commit-file"}}, in: wire.Msgpack, body: []byte("body")}))
	f.Add(appendAnswer(wireAnswer{code: ops.NoLeader, info: Info{Index: 1 << 60, AppliedIndex: 7}, body: []byte("body")}))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if name, c, err := parseCall(frame); err == nil {
			c.op = &operation{verb: &verb{name: name}}
			require.Equal(t, frame, appendCall(nil, &c))
		}
		if a, err := parseAnswer(frame); err == nil {
			a.body = append([]byte(nil), a.body...)
			require.Equal(t, frame, appendAnswer(a))
		}
	})
}
