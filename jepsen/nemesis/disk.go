package nemesis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/cpnode/cpnode/jepsen/cluster"
)

const (
	smallDiskBytes = 192 << 20
	// minFree is below what is free on an empty small disk, and above what a node must
	// keep for itself.
	minFree = 16 << 20
)

// FullDisk begins the kind of each fault that fills a disk: STORAGE_FULL is what clients
// are told then.
const FullDisk = "disk full"

// SmallDisk is a file system of its own, which one node keeps its data on.
type SmallDisk struct {
	Root string
	Node *cluster.Node
	kept string // where its data is at the end
}

// NewSmallDisk puts the node, which has not run yet, on a small disk at root. It takes
// Linux and the right to mount.
func NewSmallDisk(root string, node *cluster.Node) (*SmallDisk, error) {
	if err := os.Mkdir(root, 0o700); err != nil {
		return nil, err
	}
	if err := mountSmall(root, smallDiskBytes); err != nil {
		return nil, errors.Join(fmt.Errorf("a small file system cannot be mounted: %w", err), os.Remove(root))
	}
	d := &SmallDisk{root, node, node.Dir}
	node.Dir = filepath.Join(root, node.ID)
	node.Flags = append(node.Flags, "--disk.min.free.bytes", fmt.Sprint(minFree))
	return d, nil
}

// Close copies the data of the node, which is down, to where it is looked for, and
// gives the disk back.
func (d *SmallDisk) Close() error {
	var copied error
	if _, err := os.Stat(d.Node.Dir); err == nil {
		copied = os.CopyFS(d.kept, os.DirFS(d.Node.Dir))
	}
	return errors.Join(copied, unmount(d.Root), os.Remove(d.Root))
}

func (d *SmallDisk) ballast() string { return filepath.Join(d.Root, "ballast") }

// fill takes all that is free.
func (d *SmallDisk) fill() error {
	file, err := os.OpenFile(d.ballast(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, zeros{})
	if errors.Is(err, syscall.ENOSPC) {
		err = nil
	}
	return errors.Join(err, file.Close())
}

func (d *SmallDisk) free() error { return os.Remove(d.ballast()) }

// zeros is endless.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// fillDisk fills the disk of the node that has a small one, which now and then leads,
// and frees it. The node goes on without a restart.
func (n *Nemesis) fillDisk(ctx context.Context, f *Fault, leader *cluster.Node) error {
	victim := n.Disk.Node
	if victim != leader && n.Random.IntN(2) == 0 {
		if err := n.handOver(ctx, victim); err != nil {
			return err
		}
		leader, f.Begin = victim, n.Now()
	}
	f.Kind, f.Nodes = FullDisk+" of "+role(victim, leader), []string{victim.ID}
	if err := n.Disk.fill(); err != nil {
		return errors.Join(err, n.Disk.free())
	}
	return errors.Join(sleep(ctx, fullFor.choose(n.Random)), n.Disk.free())
}
