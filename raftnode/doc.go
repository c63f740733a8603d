// Package raftnode is one node of a cluster: a raft instance over the state, its
// log, its connections to the other nodes, and the ways in.
//
// [Open] starts a [Node] on a data directory. [Node.Propose] carries a write
// through the log; [Node.View] reads the state, linearizably or as this node has
// it; [Node.Forward] hands a request to the leader. A node without peers is its
// own cluster. Nodes with peers form one the first time all of them are up, in
// any order; see DESIGN.md for how, and for what each kind of connection on the
// raft port is.
//
// A node that meets an entry or a page it cannot make sense of stops: [Node.Err]
// says why, [Node.Stopped] is closed, and every call answers NODE_CORRUPT. It
// never goes on with a state that may differ from the others'.
package raftnode
