// Package raftmetrics shows what hashicorp/raft measures of itself to Prometheus.
//
// raft hands its measurements to one sink of the whole process (go-metrics), without
// saying which raft they are of. So they belong to a process, not to a node: a program
// that runs one node calls [Register], as cpnode serve does. Nodes that share a
// process share these numbers as well; all metrics of package raftnode are a node's
// own. A program that has a go-metrics sink of its own keeps it by not calling
// Register, and has raft's measurements there.
//
// Names, labels and units are those of the table in table.go: nothing that raft makes
// up at run time becomes part of a name. Times are in seconds. A series stays once it
// is there. The label peer is a member's name.
package raftmetrics
