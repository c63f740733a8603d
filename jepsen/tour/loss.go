package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/cpnode/cpnode/jepsen/cluster"
)

// wipeOne has a node lose its data while another one is down: the wiped one has no
// vote to give until the others, being a majority again, have taken it back.
func (t *tour) wipeOne(ctx context.Context) error {
	leader, followers, err := t.roles(ctx)
	if err != nil {
		return err
	}
	wiped, down := followers[0], followers[1]
	before, err := t.instances(ctx, wiped)
	if err != nil {
		return err
	}
	if err := down.Stop(); err != nil {
		return err
	}
	if err := wipe(wiped); err != nil {
		return err
	}
	t.say("   %s is down, %s has lost its data", down.ID, wiped.ID)
	if _, err := t.watchAlone(ctx, leader); err != nil {
		return err
	}
	if err := t.awaitReason(ctx, wiped, wiped.ID+" has lost its data and asks to be taken back"); err != nil {
		return err
	}
	t.say("   %s is started", down.ID)
	if err := down.Start(); err != nil {
		return err
	}
	return t.awaitNew(ctx, before)
}

// wipe has nodes lose their data at once, and starts them again.
func wipe(nodes ...*cluster.Node) (err error) {
	for _, n := range nodes {
		n.Kill()
	}
	for _, n := range nodes {
		err = errors.Join(err, n.Wipe(), n.Start())
	}
	return err
}

// instances is the directories that the cluster knows nodes by.
func (t *tour) instances(ctx context.Context, nodes ...*cluster.Node) (map[string]string, error) {
	s, err := t.status(ctx)
	all := map[string]string{}
	for _, n := range nodes {
		m, _ := member(s, n.ID)
		all[n.ID] = m.Instance
	}
	return all, err
}

// wipeTwo has the followers lose their data at once. They are a majority, of nodes
// that know nothing: the leader that was keeps all it has acknowledged, until an
// operator says that it is to go on alone.
func (t *tour) wipeTwo(ctx context.Context) error {
	survivor, lost, err := t.roles(ctx)
	if err != nil {
		return err
	}
	before, err := t.instances(ctx, lost...)
	if err != nil {
		return err
	}
	if err := wipe(lost...); err != nil {
		return err
	}
	t.say("   %s and %s have lost their data, %s has not", lost[0].ID, lost[1].ID, survivor.ID)
	if err := t.awaitStranded(ctx, survivor); err != nil {
		return err
	}
	for _, n := range lost {
		if err := t.awaitReason(ctx, n, "2 of 3 voters have lost their data: see cpnode recover"); err != nil {
			return err
		}
	}
	if err := t.goOnWith(ctx, survivor, peers(t.cluster.Nodes...)); err != nil {
		return err
	}
	return t.awaitNew(ctx, before)
}

// awaitStranded waits until a node that led is alone, and checks that it has all that
// was acknowledged.
func (t *tour) awaitStranded(ctx context.Context, survivor *cluster.Node) error {
	own, err := t.watchAlone(ctx, survivor)
	if err != nil {
		return err
	}
	records, err := t.recorder.SoFar()
	if err != nil {
		return err
	}
	commits, index := acknowledged(records)
	if own.LastIndex < int64(index) {
		return fmt.Errorf("the log of %s ends at %d, a commit at %d was acknowledged", survivor.ID, own.LastIndex, index)
	}
	t.say("     the log of %s ends at %d, the last of %d acknowledged commits is at %d", survivor.ID, own.LastIndex, commits, index)
	return nil
}

// goOnWith recovers the cluster from the directory of one node, after a look at what
// there is.
func (t *tour) goOnWith(ctx context.Context, survivor *cluster.Node, peers string) error {
	if err := survivor.Stop(); err != nil {
		return err
	}
	if err := t.verb(ctx, "recover", survivor.Dir, "--dry-run"); err != nil {
		return err
	}
	if err := t.verb(ctx, "recover", survivor.Dir, "--peers", peers, "--yes"); err != nil {
		return err
	}
	return survivor.Start()
}

// loseTwo deletes the directories of the followers, which never come back, and has
// new nodes join what is recovered from the third. A copy of one is kept.
func (t *tour) loseTwo(ctx context.Context) error {
	survivor, lost, err := t.roles(ctx)
	if err != nil {
		return err
	}
	for _, n := range lost {
		n.Kill()
	}
	if err := os.CopyFS(oldDir(t.dir), os.DirFS(lost[0].Dir)); err != nil {
		return err
	}
	for _, n := range lost {
		if err := n.Wipe(); err != nil {
			return err
		}
		t.cluster.Drop(n)
	}
	if err := t.direct(); err != nil {
		return err
	}
	t.say("   the directories of %s and %s are deleted", lost[0].ID, lost[1].ID)
	if err := t.awaitStranded(ctx, survivor); err != nil {
		return err
	}
	survivor.Flags = nil
	if err := t.goOnWith(ctx, survivor, peers(survivor)); err != nil {
		return err
	}
	if err := t.awaitVoters(ctx); err != nil {
		return err
	}
	t.old = lost[0]
	return t.join(ctx, "n6", "n7")
}
