// Package sessions keeps, on the node that leads, which brokers are alive.
//
// A broker's heartbeat is answered from memory as long as nothing has changed; the log
// sees it only when it unfences the broker. A broker that is silent for the session
// timeout is fenced by an entry. A node that begins to lead knows nothing of when
// brokers were last heard, so every session begins anew. A leader that has been deposed
// and does not know it yet may answer a heartbeat once more; it cannot fence.
package sessions
