package nemesis

import (
	"context"

	"github.com/cpnode/cpnode/jepsen/cluster"
)

// cuts are what can be wrong with a network, each until it heals.
var cuts = []struct {
	kind string
	make func(n *Nemesis, leader, other *cluster.Node) []*cluster.Node
}{
	{"cut leader off", func(n *Nemesis, leader, _ *cluster.Node) []*cluster.Node { return n.cutOff(leader, true, true) }},
	{"cut follower off", func(n *Nemesis, _, other *cluster.Node) []*cluster.Node { return n.cutOff(other, true, true) }},
	{"one way: nobody hears the leader", func(n *Nemesis, leader, _ *cluster.Node) []*cluster.Node { return n.cutOff(leader, true, false) }},
	{"one way: the leader hears nobody", func(n *Nemesis, leader, _ *cluster.Node) []*cluster.Node { return n.cutOff(leader, false, true) }},
	{"one way: nobody hears a follower", func(n *Nemesis, _, other *cluster.Node) []*cluster.Node { return n.cutOff(other, true, false) }},
	{"partial: leader and a follower apart", func(n *Nemesis, leader, other *cluster.Node) []*cluster.Node { return n.cutLink(leader, other) }},
	{"partial: two followers apart", func(n *Nemesis, leader, other *cluster.Node) []*cluster.Node {
		for _, third := range n.Cluster.Nodes {
			if third != leader && third != other {
				return n.cutLink(other, third)
			}
		}
		return nil
	}},
	{"all apart", func(n *Nemesis, _, _ *cluster.Node) []*cluster.Node {
		for _, node := range n.Cluster.Nodes {
			n.cutOff(node, true, true)
		}
		return n.Cluster.Nodes
	}},
	{"slow links", func(n *Nemesis, _, _ *cluster.Node) []*cluster.Node { return n.slowLinks() }},
}

// cut makes one cut, and heals it.
func (n *Nemesis) cut(ctx context.Context, f *Fault, leader *cluster.Node) error {
	n.breakLinks(f, leader)
	err := sleep(ctx, cutFor.choose(n.Random))
	n.Cluster.Links.Heal()
	return err
}

func (n *Nemesis) breakLinks(f *Fault, leader *cluster.Node) {
	c := cuts[n.Random.IntN(len(cuts))]
	f.Kind = c.kind
	for _, node := range c.make(n, leader, n.other(leader)) {
		f.Nodes = append(f.Nodes, node.ID)
	}
}

// mix kills, pauses or hands over while the network is cut.
func (n *Nemesis) mix(ctx context.Context, f *Fault, leader *cluster.Node) error {
	n.breakLinks(f, leader)
	defer n.Cluster.Links.Heal()
	if err := sleep(ctx, secondAfter.choose(n.Random)); err != nil {
		return err
	}
	second := Fault{}
	do := []func(*Nemesis, context.Context, *Fault, *cluster.Node) error{(*Nemesis).kill, (*Nemesis).pause}[n.Random.IntN(2)]
	err := do(n, ctx, &second, leader)
	f.Note, f.Kind, f.Nodes = f.Kind+", meanwhile "+second.Kind, "mix", append(f.Nodes, second.Nodes...)
	return err
}

// cutOff cuts one node off from all others: what it sends, what it is sent, or both.
func (n *Nemesis) cutOff(node *cluster.Node, sends, hears bool) []*cluster.Node {
	for _, other := range n.Cluster.Nodes {
		if other == node {
			continue
		}
		if sends {
			n.Cluster.Links.Cut(node.ID, other.ID)
		}
		if hears {
			n.Cluster.Links.Cut(other.ID, node.ID)
		}
	}
	return []*cluster.Node{node}
}

func (n *Nemesis) cutLink(a, b *cluster.Node) []*cluster.Node {
	n.Cluster.Links.Cut(a.ID, b.ID)
	n.Cluster.Links.Cut(b.ID, a.ID)
	return []*cluster.Node{a, b}
}

// slowLinks slows every direction between any two nodes, each by another time.
func (n *Nemesis) slowLinks() []*cluster.Node {
	for _, from := range n.Cluster.Nodes {
		for _, to := range n.Cluster.Nodes {
			if from != to {
				n.Cluster.Links.Slow(from.ID, to.ID, linkDelay.choose(n.Random))
			}
		}
	}
	return n.Cluster.Nodes
}
