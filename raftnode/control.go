package raftnode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/raft"

	"github.com/cpnode/cpnode/ops"
)

// A connection of kindControl carries requests and answers in turn, each a frame
// of JSON. A node that is no member yet may ask for reports and to be taken back;
// all else is for members.
type controlRequest struct {
	Verb  string `json:"verb"`
	ID    string `json:"id,omitempty"`
	Force bool   `json:"force,omitempty"`
}

// Verbs of control requests.
const (
	verbReport  = "report"  // how the node is
	verbReadmit = "readmit" // take the caller back under its new instance
	verbRemove  = "remove"  // remove the node named by ID
)

type controlAnswer struct {
	Error  *ops.Error  `json:"error,omitempty"`
	Report *nodeReport `json:"report,omitempty"`
}

const (
	controlLimit   = 256 << 10 // bytes of a frame
	controlTimeout = time.Second
	changeTimeout  = 10 * time.Second // of a verb that changes the membership
)

// serveControl answers control requests until the connection ends.
func (n *Node) serveControl(conn net.Conn, from party) {
	for {
		frame, err := readFrame(conn, controlLimit)
		if err != nil {
			return
		}
		var request controlRequest
		said := controlAnswer{}
		if err := json.Unmarshal(frame, &request); err != nil {
			said.Error = ops.Errorf(ops.InvalidRequest, "control request: %v", err)
		} else {
			said = n.answerControl(&request, from)
		}
		data, err := json.Marshal(said)
		if err != nil || conn.SetWriteDeadline(time.Now().Add(controlTimeout)) != nil || writeFrame(conn, data) != nil {
			return
		}
	}
}

func (n *Node) answerControl(request *controlRequest, from party) controlAnswer {
	ctx, cancel := context.WithTimeout(n.ctx, changeTimeout)
	defer cancel()
	switch request.Verb {
	case verbReport:
		return controlAnswer{Report: n.report(from)}
	case verbReadmit:
		return controlAnswer{Error: errorObject(n.readmit(ctx, from))}
	case verbRemove:
		if n.strange(from.serverID()) || from.Cluster != n.identity.Load().Cluster {
			return controlAnswer{Error: ops.Errorf(ops.Unauthorized, "node %s is not a member of the cluster", from.NodeID)}
		}
		return controlAnswer{Error: errorObject(n.Remove(ctx, request.ID, request.Force))}
	default:
		return controlAnswer{Error: ops.Errorf(ops.UnknownOperation, "control verb %q is not known", request.Verb)}
	}
}

// errorObject is what an error of a change looks like to another node.
func errorObject(err error) *ops.Error {
	var object *ops.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &object):
		return object
	default:
		return ops.Errorf(ops.OutcomeUnknown, "%v", err)
	}
}

// askControl sends one request and waits for its answer until ctx ends.
func askControl(ctx context.Context, conn net.Conn, request controlRequest) (controlAnswer, error) {
	var said controlAnswer
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	data, err := json.Marshal(request)
	if err != nil {
		return said, err
	}
	if err := writeFrame(conn, data); err != nil {
		return said, err
	}
	frame, err := readFrame(conn, controlLimit)
	if err != nil {
		return said, err
	}
	return said, json.Unmarshal(frame, &said)
}

// askAddr asks whoever answers at addr, who must be the node called name.
func (n *Node) askAddr(ctx context.Context, p Peer, request controlRequest) (controlAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	conn, other, err := n.network.dial(ctx, p.Addr, kindControl, "")
	if err != nil {
		return controlAnswer{}, err
	}
	defer conn.Close()
	if other.NodeID != p.ID {
		return controlAnswer{}, fmt.Errorf("%s is node %s, not %s", p.Addr, other.NodeID, p.ID)
	}
	return askControl(ctx, conn, request)
}

// askMember asks a member, wherever it is.
func (n *Node) askMember(ctx context.Context, id raft.ServerID, request controlRequest) (controlAnswer, error) {
	conn, err := n.dialMember(ctx, id, kindControl)
	if err != nil {
		return controlAnswer{}, err
	}
	defer conn.Close()
	return askControl(ctx, conn, request)
}
