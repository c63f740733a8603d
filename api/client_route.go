package api

import "sync"

// router chooses the endpoint to ask: for a stale read the first one, else that of
// the leader. Which node an endpoint is shows in its answers.
type router struct {
	mu       sync.Mutex
	leaderID string
	nodes    []string // ids by endpoint, empty until it has answered
	failed   []bool   // by endpoint: it did not answer under this leader
	next     int      // the endpoint that leads, or is asked to find out
}

func newRouter(endpoints []string) *router {
	return &router{nodes: make([]string, len(endpoints)), failed: make([]bool, len(endpoints))}
}

func (r *router) first(stale bool) int {
	if stale {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next
}

// after is the endpoint to try when another one could not answer. Calls that come
// later do not ask that one first either.
func (r *router) after(failed int, stale bool) int {
	next := (failed + 1) % len(r.nodes)
	if stale {
		return next
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == failed {
		r.next = next
	}
	return next
}

// lost takes in that the endpoint did not answer.
func (r *router) lost(endpoint int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed[endpoint] = true
}

// learn takes in that the endpoint is this node, which takes that one for the
// leader. While it is not known where the leader is, an endpoint that has neither
// answered nor failed is asked next.
func (r *router) learn(endpoint int, node, leader string) {
	if node == "" || leader == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes[endpoint], r.failed[endpoint] = node, false
	if leader != r.leaderID {
		r.leaderID = leader
		clear(r.failed)
	}
	candidate := endpoint
	for i, id := range r.nodes {
		switch {
		case r.failed[i]:
		case id == leader:
			r.next = i
			return
		case id == "":
			candidate = i
		}
	}
	r.next = candidate
}
