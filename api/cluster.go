package api

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/cpnode/cpnode/api/wire"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/raftnode"
)

// Admin is what is asked about the cluster itself and its workers, a method a verb, as in
// [ControlPlane]. The leader answers, asked at any node.
type Admin interface {
	ClusterStatus(context.Context, *ClusterStatusRequest, ...Option) (*ClusterStatusResponse, error)
	ClusterJoin(context.Context, *ClusterJoinRequest, ...Option) (*ClusterJoinResponse, error)
	ClusterRemove(context.Context, *ClusterRemoveRequest, ...Option) (*ClusterRemoveResponse, error)
	ClusterTransfer(context.Context, *ClusterTransferRequest, ...Option) (*ClusterTransferResponse, error)
	ClusterUpgrade(context.Context, *ClusterUpgradeRequest, ...Option) (*ClusterUpgradeResponse, error)
	RunWorker(context.Context, *RunWorkerRequest, ...Option) (*RunWorkerResponse, error)
	ReportRemoteOffsets(context.Context, *ReportRemoteOffsetsRequest, ...Option) (*ReportRemoteOffsetsResponse, error)
}

var _, _ Admin = (*Embedded)(nil), (*Client)(nil)

// ClusterStatusRequest asks how the members are. With [Stale] the node that is asked
// answers, for itself alone and without a leader.
type ClusterStatusRequest struct{}

// ClusterStatusResponse is the cluster as its leader sees it, or as one node does,
// which is among the members even while it is none.
type ClusterStatusResponse struct {
	Complete           bool           `json:"complete" doc:"The leader asked all members; else one node answers for itself."`
	ClusterID          string         `json:"cluster_id" doc:"Empty until the cluster is formed."`
	LeaderID           string         `json:"leader_id" doc:"Empty when none is known."`
	Term               int64          `json:"term"`
	ConfigurationIndex int64          `json:"configuration_index" doc:"Log index of the members' configuration; -1 when not known."`
	FeatureLevel       int64          `json:"feature_level" doc:"Of the cluster: what may be logged."`
	FailuresTolerated  int64          `json:"failures_tolerated" doc:"How many more voters may fail now; -1 when not known."`
	Members            []MemberStatus `json:"members"`
}

// MemberStatus is one member. Numbers that are not known are -1.
type MemberStatus struct {
	NodeID        string `json:"node_id"`
	Instance      string `json:"instance" doc:"Names the data directory."`
	RaftAddr      string `json:"raft_addr" doc:"Empty until the leader has written it down."`
	HTTPAddr      string `json:"http_addr"`
	Role          string `json:"role" doc:"voter or learner; empty when not known."`
	Leader        bool   `json:"leader"`
	Reachable     bool   `json:"reachable"`
	LastContactMs int64  `json:"last_contact_ms" doc:"How long ago it was last heard of."`
	LastIndex     int64  `json:"last_index" doc:"End of its log."`
	CommitIndex   int64  `json:"commit_index"`
	AppliedIndex  int64  `json:"applied_index" doc:"What its state holds."`
	ClockOffsetMs int64  `json:"clock_offset_ms" doc:"Its clock beyond the leader's; 0 when not known."`
	FeatureLevel  int64  `json:"feature_level" doc:"Highest level that its release supports."`
	DiskFreeBytes int64  `json:"disk_free_bytes"`
	Problem       string `json:"problem" doc:"What is wrong with it; empty when nothing is."`
}

// ClusterJoinRequest adds a node, started with an empty directory and with peers of
// the cluster. It learns until it has caught up and is then made a voter.
type ClusterJoinRequest struct {
	NodeID   string `json:"node_id"`
	RaftAddr string `json:"raft_addr" doc:"Where the node listens for others, host:port."`
}

// ClusterJoinResponse names the directory that was added. To add a member again is no error.
type ClusterJoinResponse struct {
	Instance string `json:"instance"`
}

// ClusterRemoveRequest removes a node for good; a leader hands over first.
type ClusterRemoveRequest struct {
	NodeID string `json:"node_id"`
	Force  bool   `json:"force" default:"false" doc:"Also when the voters left that answer are no majority."`
}

// ClusterRemoveResponse names the node that was removed.
type ClusterRemoveResponse struct {
	NodeID string `json:"node_id"`
}

// ClusterTransferRequest hands leadership over.
type ClusterTransferRequest struct {
	NodeID string `json:"node_id" default:"" doc:"The next leader; empty: any voter that is up to date."`
}

// ClusterTransferResponse names the leader as far as it is known by now.
type ClusterTransferResponse struct {
	LeaderID string `json:"leader_id"`
}

// ClusterUpgradeRequest raises the feature level, which every member must support.
type ClusterUpgradeRequest struct {
	Level int64 `json:"level" min:"0" default:"0" doc:"0 = the level that the leader's release supports."`
}

// ClusterUpgradeResponse is the level before and after.
type ClusterUpgradeResponse struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// Validate has nothing to check.
func (*ClusterStatusRequest) Validate(ops.Limits) error { return nil }

// Validate refuses what names nothing; the node that leads checks the rest.
func (r *ClusterJoinRequest) Validate(ops.Limits) error {
	if err := given("node_id", r.NodeID); err != nil {
		return err
	}
	return given("raft_addr", r.RaftAddr)
}

// Validate refuses what names nothing.
func (r *ClusterRemoveRequest) Validate(ops.Limits) error { return given("node_id", r.NodeID) }

// Validate has nothing to check.
func (*ClusterTransferRequest) Validate(ops.Limits) error { return nil }

// Validate has nothing to check.
func (*ClusterUpgradeRequest) Validate(ops.Limits) error { return nil }

func given(field, value string) error {
	if value == "" {
		return ops.Errorf(ops.InvalidRequest, "%s: must be given", field)
	}
	return nil
}

// adminVerbs are all that are no operations.
var adminVerbs = slices.Concat(clusterVerbs, workerVerbs)

// clusterVerbs is the table of calls about the cluster.
var clusterVerbs = []*verb{
	admin("cluster-status", "Ask how the members of the cluster are.", false, clusterStatus),
	admin("cluster-join", "Add a node to the cluster.", true, func(ctx context.Context, e *Embedded, r *ClusterJoinRequest) (*ClusterJoinResponse, error) {
		instance, err := e.node.Join(ctx, raftnode.Peer{ID: r.NodeID, Addr: r.RaftAddr})
		return &ClusterJoinResponse{instance}, err
	}),
	admin("cluster-remove", "Remove a node from the cluster for good.", true, func(ctx context.Context, e *Embedded, r *ClusterRemoveRequest) (*ClusterRemoveResponse, error) {
		return &ClusterRemoveResponse{r.NodeID}, e.node.Remove(ctx, r.NodeID, r.Force)
	}),
	admin("cluster-transfer", "Hand leadership to another node.", true, func(ctx context.Context, e *Embedded, r *ClusterTransferRequest) (*ClusterTransferResponse, error) {
		err := e.node.Transfer(ctx, r.NodeID)
		return &ClusterTransferResponse{e.node.LeaderID()}, err
	}),
	admin("cluster-upgrade", "Raise the feature level of the cluster.", true, func(ctx context.Context, e *Embedded, r *ClusterUpgradeRequest) (*ClusterUpgradeResponse, error) {
		from, to, err := e.node.Upgrade(ctx, uint64(r.Level))
		return &ClusterUpgradeResponse{int64(from), int64(to)}, err
	}),
}

// admin is a direct verb of operators. Whoever asks for a change leaves a line in the
// log of the node that carries it out.
func admin[Req, Resp any, R interface {
	*Req
	ops.Request
}](name, summary string, write bool, call func(context.Context, *Embedded, R) (*Resp, error)) *verb {
	return direct(name, summary, write, func(ctx context.Context, e *Embedded, r R) (*Resp, error) {
		answer, err := call(ctx, e, r)
		if write {
			e.audit(name, r, err)
		}
		return answer, err
	})
}

// direct is a verb that is no log entry of its own, by the types of its request and
// answer.
func direct[Req, Resp any, R interface {
	*Req
	ops.Request
}](name, summary string, write bool, call func(context.Context, *Embedded, R) (*Resp, error)) *verb {
	return &verb{
		name: name, summary: summary, write: write, admin: true,
		newRequest: func() ops.Request { return R(new(Req)) }, newResponse: func() any { return new(Resp) },
		run: func(ctx context.Context, e *Embedded, req ops.Request, read raftnode.ReadOptions) (any, Info, error) {
			if read.Level == raftnode.Stale {
				return e.ownStatus(read)
			}
			answer, err := call(ctx, e, req.(R))
			return answer, Info{AppliedIndex: e.node.Status().AppliedIndex}, inFieldsOfTheWire(err)
		},
	}
}

// audit leaves a line about what was asked for and what came of it.
func (e *Embedded) audit(verb string, req ops.Request, err error) {
	outcome := outcomeOK
	if err != nil {
		outcome = err.Error()
	}
	request, encodeErr := wire.Append(wire.JSON, nil, req)
	if encodeErr != nil {
		request = []byte(encodeErr.Error())
	}
	e.logger.Info("asked to change the cluster", "verb", verb, "request", string(request), "outcome", outcome)
}

// inFieldsOfTheWire names the fields of a raftnode.Peer, which a node complains
// about, as the request does.
func inFieldsOfTheWire(err error) error {
	var e *ops.Error
	if !errors.As(err, &e) || e.Code != ops.InvalidRequest {
		return err
	}
	field, problem, ok := strings.Cut(e.Message, ": ")
	name := map[string]string{"id": "node_id", "addr": "raft_addr"}[field]
	if !ok || name == "" {
		return err
	}
	return ops.Errorf(e.Code, "%s: %s", name, problem)
}

func clusterStatus(ctx context.Context, e *Embedded, _ *ClusterStatusRequest) (*ClusterStatusResponse, error) {
	s, err := e.node.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	answer := &ClusterStatusResponse{
		Complete: true, ClusterID: s.ClusterID, LeaderID: s.LeaderID, Term: int64(s.Term),
		ConfigurationIndex: int64(s.ConfigurationIndex), FeatureLevel: int64(s.FeatureLevel), FailuresTolerated: int64(s.FailuresTolerated),
		Members: make([]MemberStatus, len(s.Members)),
	}
	for i, m := range s.Members {
		answer.Members[i] = MemberStatus{
			NodeID: m.ID, Instance: m.Instance, RaftAddr: m.Addr, HTTPAddr: m.HTTPAddr, Role: m.Role, Leader: m.Leader, Reachable: m.Reachable,
			LastContactMs: millis(m.LastContact), LastIndex: int64(m.LastIndex), CommitIndex: int64(m.CommitIndex), AppliedIndex: int64(m.AppliedIndex),
			ClockOffsetMs: m.ClockOffset.Milliseconds(), FeatureLevel: int64(m.FeatureLevel), DiskFreeBytes: m.DiskFreeBytes, Problem: m.Problem,
		}
	}
	return answer, nil
}

// ownStatus is what this node knows without asking anybody.
func (e *Embedded) ownStatus(read raftnode.ReadOptions) (any, Info, error) {
	if read.MinIndex > 0 || read.MaxStaleness > 0 {
		return nil, Info{}, ops.Errorf(ops.InvalidRequest, "min_index, max_staleness_ms: are for reads of the state")
	}
	s := e.node.Status()
	answer := &ClusterStatusResponse{
		ClusterID: s.ClusterID, LeaderID: s.LeaderID, Term: int64(s.Term),
		ConfigurationIndex: -1, FeatureLevel: int64(e.node.FeatureLevel()), FailuresTolerated: -1,
		Members: []MemberStatus{},
	}
	peers := s.Peers
	if !slices.ContainsFunc(peers, func(p raftnode.Peer) bool { return p.ID == s.NodeID }) {
		peers = append(peers, raftnode.Peer{ID: s.NodeID}) // not yet a member, or no longer
	}
	for _, p := range peers {
		m := MemberStatus{NodeID: p.ID, RaftAddr: p.Addr, Leader: p.ID == s.LeaderID,
			LastContactMs: -1, LastIndex: -1, CommitIndex: -1, AppliedIndex: -1, FeatureLevel: -1, DiskFreeBytes: -1}
		if p.ID == s.NodeID {
			m.Reachable, m.LastContactMs, m.FeatureLevel = true, 0, ops.FeatureLevel
			m.LastIndex, m.CommitIndex, m.AppliedIndex = int64(s.LastIndex), int64(s.CommitIndex), int64(s.AppliedIndex)
			if err := e.node.Ready(); err != nil {
				m.Problem = err.Error()
			}
		}
		answer.Members = append(answer.Members, m)
	}
	return answer, Info{AppliedIndex: s.AppliedIndex}, nil
}

// ClusterStatus asks how the members are.
func (o Operations) ClusterStatus(ctx context.Context, r *ClusterStatusRequest, opts ...Option) (*ClusterStatusResponse, error) {
	return do[ClusterStatusResponse](ctx, o.by, "cluster-status", r, opts)
}

// ClusterJoin adds a node.
func (o Operations) ClusterJoin(ctx context.Context, r *ClusterJoinRequest, opts ...Option) (*ClusterJoinResponse, error) {
	return do[ClusterJoinResponse](ctx, o.by, "cluster-join", r, opts)
}

// ClusterRemove removes a node for good.
func (o Operations) ClusterRemove(ctx context.Context, r *ClusterRemoveRequest, opts ...Option) (*ClusterRemoveResponse, error) {
	return do[ClusterRemoveResponse](ctx, o.by, "cluster-remove", r, opts)
}

// ClusterTransfer hands leadership over.
func (o Operations) ClusterTransfer(ctx context.Context, r *ClusterTransferRequest, opts ...Option) (*ClusterTransferResponse, error) {
	return do[ClusterTransferResponse](ctx, o.by, "cluster-transfer", r, opts)
}

// ClusterUpgrade raises the feature level to what all members support.
func (o Operations) ClusterUpgrade(ctx context.Context, r *ClusterUpgradeRequest, opts ...Option) (*ClusterUpgradeResponse, error) {
	return do[ClusterUpgradeResponse](ctx, o.by, "cluster-upgrade", r, opts)
}
