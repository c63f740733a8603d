package crashdisk

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"github.com/cpnode/cpnode/store"
)

// Disk is a directory as the kernel has it, and as the disk may have it. It is used by
// one goroutine at a time.
type Disk struct {
	names   map[string]*file
	durable map[string]*file   // names as of the last sync of the directory
	renames []map[string]*file // and after each change of names since
}

type file struct {
	data   []byte
	synced []byte
	writes []write // since the last sync
}

type write struct {
	off  int64
	data []byte
}

// New is a disk that holds these files durably, by their names.
func New(files map[string][]byte) *Disk {
	d := &Disk{names: map[string]*file{}}
	for name, data := range files {
		d.names[name] = &file{data: data, synced: bytes.Clone(data)}
	}
	d.durable = maps.Clone(d.names)
	return d
}

// Do makes one change. It copies what it keeps.
func (d *Disk) Do(c store.Change) {
	name := filepath.Base(c.Path)
	f := d.names[name]
	switch c.Op {
	case store.OpCreate:
		d.names[name] = &file{}
		d.renamed()
	case store.OpWrite:
		data := bytes.Clone(c.Data)
		f.data = writeOver(f.data, c.Off, data)
		f.writes = append(f.writes, write{c.Off, data})
	case store.OpSync:
		f.synced, f.writes = bytes.Clone(f.data), nil
	case store.OpRename:
		d.names[filepath.Base(c.To)] = f
		delete(d.names, name)
		d.renamed()
	case store.OpRemove:
		delete(d.names, name)
		d.renamed()
	case store.OpSyncDir:
		d.durable, d.renames = maps.Clone(d.names), nil
	}
}

// Names are those of the files as the kernel has them.
func (d *Disk) Names() []string { return slices.Sorted(maps.Keys(d.names)) }

// Forget takes away, durably, a file that somebody else removed.
func (d *Disk) Forget(name string) {
	for _, names := range slices.Concat(d.renames, []map[string]*file{d.names, d.durable}) {
		delete(names, name)
	}
}

// Holds makes data the content of a file, as the kernel has it: there are changes that
// nobody sees. See store.DiskOp.
func (d *Disk) Holds(path string, data []byte) {
	if f := d.names[filepath.Base(path)]; f != nil {
		f.data = data
	}
}

func (d *Disk) renamed() { d.renames = append(d.renames, maps.Clone(d.names)) }

func writeOver(data []byte, off int64, b []byte) []byte {
	if end := int(off) + len(b); end > len(data) {
		data = append(data, make([]byte, end-len(data))...)
	}
	copy(data[off:], b)
	return data
}

// Killed is what a process that was killed leaves: all it did.
func (d *Disk) Killed() map[string][]byte {
	files := map[string][]byte{}
	for name, f := range d.names {
		files[name] = f.data
	}
	return files
}

// Cut is what a power cut leaves: some of the renames since the last sync of the
// directory, in their order, and of each part of a file what was synced last or any
// of what was written there since.
func (d *Disk) Cut(r *rand.Rand) map[string][]byte {
	names := d.durable
	if n := r.IntN(len(d.renames) + 1); n > 0 {
		names = d.renames[n-1]
	}
	files := map[string][]byte{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		files[name] = names[name].torn(r, filepath.Ext(name) == ".db")
	}
	return files
}

// Units of which a disk writes all or nothing.
const (
	pageSize   = 4096
	sectorSize = 512
)

// torn is a file of which each page, or sector where a page is no unit of the disk,
// is of some moment since the last sync.
func (f *file) torn(r *rand.Rand, pages bool) []byte {
	data := bytes.Clone(f.synced)
	unit := func(off int64) int64 {
		if pages && off >= 2*pageSize { // the first two are meta pages
			return pageSize
		}
		return sectorSize
	}
	// Of the writes to one place a random number, in their order, has arrived.
	arrived := map[int64]int{}
	for round := range 2 {
		for _, w := range f.writes {
			for off := w.off; off < w.off+int64(len(w.data)); {
				place := off - off%unit(off)
				n := min(place+unit(off), w.off+int64(len(w.data))) - off
				switch {
				case round == 0:
					arrived[place]++
				case arrived[place] > 0:
					arrived[place]--
					data = writeOver(data, off, w.data[off-w.off:off-w.off+n])
				}
				off += n
			}
		}
		if round == 0 {
			for _, place := range slices.Sorted(maps.Keys(arrived)) {
				arrived[place] = r.IntN(arrived[place] + 1)
			}
		}
	}
	return data
}
