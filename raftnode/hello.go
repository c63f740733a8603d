package raftnode

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"
)

// Every connection to the raft port begins with a hello, an answer to it and,
// where there is a shared secret, a proof:
//
//	hello   | kind 1 | version 1 | length 2 | JSON |
//	answer  | length 2 | JSON | with a secret: MAC 32 |
//	proof   | with a secret: MAC 32 |
//
// The kind says what the connection is for. A MAC is over who makes it, the hello
// and the answer, both of which hold a nonce.
const networkVersion = 2

type connKind byte

// Kinds of connections. Numbers are append-only; 4 was used by version 1.
const (
	kindRaft    connKind = 1 // raft's own messages
	kindTerm    connKind = 2 // term questions
	kindForward connKind = 3 // requests for the leader
	kindControl connKind = 5 // what nodes ask each other about themselves
	kindState   connKind = 6 // a state, for a node whose own is damaged
)

type verdict byte

// Verdicts on a hello. Numbers are append-only.
const (
	accepted       verdict = 0
	refusedVersion verdict = 1
	refusedCluster verdict = 2
	refusedMember  verdict = 3
	refusedForming verdict = 4
	refusedKind    verdict = 5
	refusedWant    verdict = 6
	refusedSecret  verdict = 7
)

// errRefused is wrapped by the errors of connections that the other side, or this
// one on hearing its answer, refused.
var errRefused = errors.New("connection refused")

// party is what each side says of itself.
type party struct {
	Cluster  clusterID  `json:"cluster"`
	NodeID   string     `json:"node_id"`
	Instance instanceID `json:"instance"`
	Addr     string     `json:"addr"`            // where it is reached
	Nonce    []byte     `json:"nonce,omitempty"` // with a shared secret
}

func (p *party) serverID() raft.ServerID { return serverID(p.NodeID, p.Instance) }

// hello is what the side that dials says first.
type hello struct {
	party
	// Want is whom it means to talk to; empty for whoever answers, which only
	// connections of kindControl may leave open.
	Want raft.ServerID `json:"want,omitempty"`
}

// answer is what the other side says to a hello.
type answer struct {
	party
	Verdict verdict `json:"verdict"`
}

const (
	greetingLimit = 1024 // bytes of JSON in a hello or an answer
	nonceSize     = 32
	tlsHandshake  = 0x16 // first byte of what a TLS client says
)

// writeGreeting writes head, length and JSON, and returns the bytes.
func writeGreeting(w io.Writer, head []byte, v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(data) > greetingLimit {
		return nil, fmt.Errorf("greeting of %d bytes, at most %d are taken", len(data), greetingLimit)
	}
	frame := append(binary.BigEndian.AppendUint16(head, uint16(len(data))), data...)
	_, err = w.Write(frame)
	return frame, err
}

// readGreeting reads length and JSON after head, which was read, and returns the
// bytes of all.
func readGreeting(r io.Reader, head []byte, v any) ([]byte, error) {
	var length [2]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(length[:]))
	if n > greetingLimit {
		return nil, fmt.Errorf("greeting of %d bytes, at most %d are taken", n, greetingLimit)
	}
	frame := append(append(head, length[:]...), make([]byte, n)...)
	if _, err := io.ReadFull(r, frame[len(frame)-n:]); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(frame[len(frame)-n:], v); err != nil {
		return nil, fmt.Errorf("greeting: %w", err)
	}
	return frame, nil
}

// check refuses what no node says.
func (p *party) check() error {
	if !validNodeID(p.NodeID) {
		return fmt.Errorf("%q is not a node id", p.NodeID)
	}
	if err := validAddr(p.Addr, false); err != nil {
		return fmt.Errorf("node %s: %w", p.NodeID, err)
	}
	return nil
}

// agrees says whether the party has a shared secret where this node has one.
func (p *party) agrees(secret []byte) error {
	switch {
	case secret != nil && len(p.Nonce) != nonceSize:
		return fmt.Errorf("node %s has no shared secret, this node has one", p.NodeID)
	case secret == nil && len(p.Nonce) > 0:
		return fmt.Errorf("node %s has a shared secret, this node has none", p.NodeID)
	}
	return nil
}

func newNonce() []byte {
	nonce := make([]byte, nonceSize)
	rand.Read(nonce) // never fails
	return nonce
}

// Who makes a MAC, so that neither side can send the other its own.
const (
	macDialer   = "cpnode dialer\n"
	macAcceptor = "cpnode acceptor\n"
)

func mac(secret []byte, who string, helloFrame, answerFrame []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(who))
	h.Write(helloFrame)
	h.Write(answerFrame)
	return h.Sum(nil)
}

// readMAC reads and checks a MAC.
func readMAC(r io.Reader, want []byte) error {
	got := make([]byte, len(want))
	if _, err := io.ReadFull(r, got); err != nil {
		return fmt.Errorf("proof of the shared secret: %w", err)
	}
	if !hmac.Equal(got, want) {
		return errors.New("the shared secrets differ")
	}
	return nil
}
