package main

import "context"

// step is one leg of the tour. It ends with a cluster whose nodes are all ready.
type step struct {
	name string
	take func(*tour, context.Context) error
}

// itinerary is the steps in their order: each begins with what the one before left.
var itinerary = []step{
	{"one node", (*tour).one},
	{"1 -> 3 nodes", (*tour).three},
	{"3 -> 5 nodes", (*tour).five},
	{"5 -> 3 nodes: the leader and a follower are removed", (*tour).remove},
	{"one node moves to another address", (*tour).moveOne},
	{"all nodes move at once", (*tour).moveAll},
	{"one node is wiped", (*tour).wipeOne},
	{"two of three nodes are wiped at once", (*tour).wipeTwo},
	{"two of three nodes are gone for good", (*tour).loseTwo},
	{"an old directory and a foreign node turn up", (*tour).strangers},
}
