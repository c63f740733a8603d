package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"math/bits"
	"os"
	"slices"
)

// bbolt trusts its pages: damage makes it panic, loop or, with one meta page
// broken, open an older state without a word. The pages are therefore read by
// hand first. Integers are in the byte order of the machine:
//
//	page   | page id 8 | flags 2 | count 2 | overflow 4 | elements ... | keys and values ... |
//	meta   | magic 4 | version 4 | page size 4 | flags 4 | root page 8 | sequence 8 | free list 8
//	       | high water 8 | transaction 8 | FNV-1a of the fields before 8 |
//	branch | position of the key 4 | key size 4 | page id 8 |
//	leaf   | flags 4 | position of the key 4 | key size 4 | value size 4 |
//	bucket | root page 8, 0: a page follows inline | sequence 8 | page ... |
//
// Positions count from the element itself. Keys and values lie one after the
// other, in the order of the elements, without a gap.
const (
	boltMagic       = 0xED0CDAED
	boltVersion     = 2
	boltHeaderSize  = 16
	boltElementSize = 16
	boltBucketSize  = 16
	boltMetaSize    = 64
	boltNoFreelist  = 1<<64 - 1

	boltBranchPage = 0x01
	boltLeafPage   = 0x02
	boltMetaPage   = 0x04
	boltSubBucket  = 0x01

	maxTreeDepth = 32
)

// boltMeta is what a meta page says.
type boltMeta struct {
	pageSize    int64
	root        uint64
	freelist    uint64
	pages       uint64 // all page ids are below it
	transaction uint64
}

// CheckPages reads every page of a bbolt file that the newest meta page leads to
// and returns what is wrong with the first bad one as a problem, "" when all is
// well. The raft log is such a file too.
func CheckPages(path string) (problem string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // it was only read
	metas, problem, err := metasOf(f)
	if problem != "" || err != nil {
		return problem, err
	}
	return walkPages(f, metas, nil)
}

// metasOf reads both meta pages, which must both be whole: with one of them
// damaged, the other may be an older state.
func metasOf(f io.ReaderAt) (m metaPages, problem string, err error) {
	var first boltMeta
	for i := range m {
		if _, err := f.ReadAt(m[i][:], int64(i)*first.pageSize); err == io.EOF {
			return m, fmt.Sprintf("the file ends in meta page %d", i), nil
		} else if err != nil {
			return m, "", err
		}
		if i == 0 {
			if first, problem = decodeBoltMeta(m[0][:], 0); problem != "" {
				return m, "meta page 0: " + problem, nil
			}
		}
	}
	_, problem = m.newest()
	return m, problem, nil
}

// walkPages reads every page that the newer of the meta pages leads to, and gives
// each bucket (without a key) and each row to row, unless that is nil; what it
// answers is a problem.
func walkPages(f *os.File, metas metaPages, row func(bucket, key, value []byte) string) (problem string, err error) {
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	meta, problem := metas.newest()
	if problem != "" {
		return problem, nil
	}
	if meta.pages > uint64(info.Size()/meta.pageSize) {
		return fmt.Sprintf("the file ends after %d bytes, before its page %d", info.Size(), meta.pages-1), nil
	}
	w := pageWalk{file: f, meta: meta, seen: make([]bool, meta.pages), row: row}
	return w.tree(pageRef{id: meta.root, root: true, buckets: true}), w.err
}

func decodeBoltMeta(buf []byte, id uint64) (m boltMeta, problem string) {
	e := binary.NativeEndian
	b := buf[boltHeaderSize:]
	h := fnv.New64a()
	h.Write(b[:boltMetaSize-8])
	switch {
	case e.Uint32(b) != boltMagic:
		return m, "not a state file"
	case e.Uint32(b[4:]) != boltVersion:
		return m, "unknown version"
	case e.Uint64(b[56:]) != h.Sum64():
		return m, "checksum mismatch"
	case e.Uint64(buf) != id || e.Uint16(buf[8:]) != boltMetaPage || e.Uint16(buf[10:]) != 0 || e.Uint32(buf[12:]) != 0:
		return m, "wrong header"
	}
	m = boltMeta{
		pageSize: int64(e.Uint32(b[8:])), root: e.Uint64(b[16:]), freelist: e.Uint64(b[32:]),
		pages: e.Uint64(b[40:]), transaction: e.Uint64(b[48:]),
	}
	if m.pageSize < 1<<10 || m.pageSize > 1<<16 || bits.OnesCount64(uint64(m.pageSize)) != 1 {
		return m, "impossible page size"
	}
	return m, ""
}

// pageWalk visits the pages of a tree.
type pageWalk struct {
	file io.ReaderAt
	meta boltMeta
	seen []bool // page is part of a tree
	row  func(bucket, key, value []byte) string
	err  error // reading failed

	// levels are what is being looked at: a page, and those above it.
	levels [maxTreeDepth + 2]pageLevel
}

// pageLevel is room that the next page at the same depth uses again.
type pageLevel struct {
	page     []byte
	elements []pageElement
}

func (l *pageLevel) room(size int64) []byte {
	if int64(cap(l.page)) < size {
		l.page = make([]byte, size)
	}
	return l.page[:size]
}

// pageRef is what a page is expected to be.
type pageRef struct {
	id       uint64
	min, max []byte // its keys are in [min, max); nil is no bound
	root     bool   // of its bucket: may be an empty leaf
	buckets  bool   // its leaves hold buckets, not rows
	bucket   []byte // the one that its rows are in
	inline   bool   // lies within its bucket's value
	depth    int
}

// tree checks a page and all below it.
func (w *pageWalk) tree(ref pageRef) (problem string) {
	page, problem := w.read(ref)
	if problem == "" && w.err == nil {
		problem = w.elements(page, ref)
	}
	return problem
}

// read returns the page with its overflow and marks it as seen.
func (w *pageWalk) read(ref pageRef) (page []byte, problem string) {
	bad := func(what string) ([]byte, string) { return nil, fmt.Sprintf("page %d: %s", ref.id, what) }
	if ref.id < 2 || ref.id >= w.meta.pages {
		return bad("does not exist")
	}
	if ref.depth > maxTreeDepth {
		return bad("lies too deep")
	}
	level := &w.levels[ref.depth]
	page = level.room(w.meta.pageSize)
	if _, w.err = w.file.ReadAt(page, int64(ref.id)*w.meta.pageSize); w.err != nil {
		return nil, ""
	}
	if binary.NativeEndian.Uint64(page) != ref.id {
		return bad("carries another page's number")
	}
	last := ref.id + uint64(binary.NativeEndian.Uint32(page[12:]))
	if last >= w.meta.pages {
		return bad("reaches beyond the last page")
	}
	for i := ref.id; i <= last; i++ {
		if w.seen[i] {
			return bad("is used twice")
		}
		w.seen[i] = true
	}
	if last > ref.id {
		page = level.room(int64(last-ref.id+1) * w.meta.pageSize)
		_, w.err = w.file.ReadAt(page, int64(ref.id)*w.meta.pageSize)
	}
	return page, ""
}

func (w *pageWalk) pagesFor(size int) int64 {
	return (int64(size) + w.meta.pageSize - 1) / w.meta.pageSize
}

// pageElement is one element of a branch or leaf page.
type pageElement struct {
	flags      uint32
	key, value []byte
	child      uint64
}

// elements checks a page's elements and the trees below them.
func (w *pageWalk) elements(page []byte, ref pageRef) (problem string) {
	bad := func(format string, args ...any) string {
		return fmt.Sprintf("page %d: ", ref.id) + fmt.Sprintf(format, args...)
	}
	flags, count := binary.NativeEndian.Uint16(page[8:]), int(binary.NativeEndian.Uint16(page[10:]))
	leaf := flags == boltLeafPage
	end := boltHeaderSize + count*boltElementSize // of what was read so far
	switch {
	case !leaf && flags != boltBranchPage:
		return bad("is neither branch nor leaf")
	case end > len(page):
		return bad("has more elements than room")
	case count == 0 && !(leaf && ref.root):
		return bad("is empty")
	}
	level := &w.levels[ref.depth]
	level.elements = slices.Grow(level.elements[:0], count)[:count]
	all := level.elements
	for i := range all {
		el, size, ok := decodeElement(page, boltHeaderSize+i*boltElementSize, end, leaf)
		switch {
		case !ok:
			return bad("element %d lies elsewhere", i)
		case i > 0 && bytes.Compare(all[i-1].key, el.key) >= 0:
			return bad("keys are not in order at element %d", i)
		case ref.min != nil && bytes.Compare(el.key, ref.min) < 0, ref.max != nil && bytes.Compare(el.key, ref.max) >= 0:
			return bad("key of element %d belongs to another page", i)
		}
		all[i], end = el, end+size
	}
	if !ref.inline && len(page) != int(w.pagesFor(end)*w.meta.pageSize) {
		return bad("takes more pages than it fills")
	}
	for i, el := range all {
		if leaf {
			problem = w.leafElement(el, ref)
		} else {
			below := pageRef{id: el.child, min: el.key, max: ref.max, buckets: ref.buckets, bucket: ref.bucket, depth: ref.depth + 1}
			if i+1 < count {
				below.max = all[i+1].key
			}
			problem = w.tree(below)
		}
		if problem != "" || w.err != nil {
			return problem
		}
	}
	return ""
}

// decodeElement reads the element at off, whose data must begin at data.
func decodeElement(page []byte, off, data int, leaf bool) (el pageElement, size int, ok bool) {
	e, b := binary.NativeEndian, page[off:off+boltElementSize]
	var pos, keySize, valueSize uint32
	if leaf {
		el.flags, pos, keySize, valueSize = e.Uint32(b), e.Uint32(b[4:]), e.Uint32(b[8:]), e.Uint32(b[12:])
	} else {
		pos, keySize, el.child = e.Uint32(b), e.Uint32(b[4:]), e.Uint64(b[8:])
	}
	size = int(keySize) + int(valueSize)
	if off+int(pos) != data || size > len(page)-data {
		return el, 0, false
	}
	el.key, el.value = page[data:data+int(keySize)], page[data+int(keySize):data+size]
	return el, size, true
}

// leafElement checks that the element is the kind that its tree holds, and the
// tree of a bucket.
func (w *pageWalk) leafElement(el pageElement, ref pageRef) (problem string) {
	if !ref.buckets {
		if el.flags != 0 {
			return fmt.Sprintf("page %d: a row has flags", ref.id)
		}
		if w.row != nil {
			return w.row(ref.bucket, el.key, el.value)
		}
		return ""
	}
	if el.flags != boltSubBucket || len(el.value) < boltBucketSize {
		return fmt.Sprintf("page %d: %q is not a bucket", ref.id, el.key)
	}
	if w.row != nil {
		if problem := w.row(el.key, nil, nil); problem != "" {
			return problem
		}
	}
	below := pageRef{id: binary.NativeEndian.Uint64(el.value), root: true, bucket: el.key, depth: ref.depth + 1}
	if below.id != 0 {
		return w.tree(below)
	}
	below.inline = true
	inline := el.value[boltBucketSize:]
	if len(inline) < boltHeaderSize || binary.NativeEndian.Uint16(inline[8:]) != boltLeafPage {
		return fmt.Sprintf("page %d: bucket %q holds no leaf", ref.id, el.key)
	}
	return w.elements(inline, below)
}
