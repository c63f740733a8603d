package nemesis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/cpnode/cpnode/jepsen/cluster"
)

// corrupt stops a node, changes bytes in one of its files, and starts it again.
func (n *Nemesis) corrupt(ctx context.Context, f *Fault, leader *cluster.Node) error {
	victim := n.any()
	f.Nodes = []string{victim.ID}
	if err := victim.Stop(); err != nil {
		return err
	}
	if n.Random.IntN(2) == 0 {
		f.Kind = "corrupt state of " + role(victim, leader)
		return n.corruptState(ctx, f, victim)
	}
	f.Kind = "corrupt log of " + role(victim, leader)
	return n.corruptLog(ctx, f, victim)
}

// corruptState changes a byte of both pages by which a bbolt file is read. The node
// finds that out, and helps itself.
func (n *Nemesis) corruptState(ctx context.Context, f *Fault, victim *cluster.Node) error {
	const rootPage = 16 + 16 // in a page: after its header, magic, version, page size and flags
	page := int64(os.Getpagesize())
	path := filepath.Join(victim.Dir, "state.db")
	if err := errors.Join(flip(path, rootPage), flip(path, page+rootPage)); err != nil {
		return err
	}
	if err := victim.Start(); err != nil {
		return err
	}
	if err := victim.AwaitReady(ctx); err != nil {
		return err
	}
	f.Note = "put right from what the node knew"
	if _, err := os.Stat(path + ".damaged"); err == nil {
		f.Note = "fetched from another node"
		return os.Remove(path + ".damaged") // the next one is to be seen
	}
	return nil
}

// corruptLog changes one byte of the raft log. What of it can be trusted nobody knows,
// so the node comes back empty, as the operator is told, and learns before it votes.
func (n *Nemesis) corruptLog(ctx context.Context, f *Fault, victim *cluster.Node) error {
	path, written, err := largest(filepath.Join(victim.Dir, "raft.wal"))
	if err != nil {
		return err
	}
	at := n.Random.Int64N(written)
	if err := flip(path, at); err != nil {
		return err
	}
	clean, err := n.Cluster.Check(ctx, victim)
	if err != nil {
		return err
	}
	f.Note = fmt.Sprintf("byte %d of the %d written to %s, seen by check: %t", at, written, filepath.Base(path), !clean)
	if err := victim.Wipe(); err != nil {
		return err
	}
	if err := victim.Start(); err != nil {
		return err
	}
	return n.awaitVote(ctx, victim)
}

// largest is the file of a directory in which most bytes were written: up to the last
// one that is not zero.
func largest(dir string) (path string, written int64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", 0, err
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return "", 0, err
		}
		slices.Reverse(data)
		zeros := slices.IndexFunc(data, func(b byte) bool { return b != 0 })
		if size := int64(len(data) - zeros); zeros >= 0 && size > written {
			path, written = filepath.Join(dir, e.Name()), size
		}
	}
	if path == "" {
		return "", 0, fmt.Errorf("nothing is written in %s", dir)
	}
	return path, written, nil
}

// flip inverts one byte of a file.
func flip(path string, at int64) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	b := make([]byte, 1)
	_, err = file.ReadAt(b, at)
	if err == nil {
		b[0] = ^b[0]
		_, err = file.WriteAt(b, at)
	}
	return errors.Join(err, file.Close())
}
