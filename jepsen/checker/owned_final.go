package checker

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/cpnode/cpnode/jepsen/history"
	"github.com/cpnode/cpnode/ops"
)

// ObjectsDir holds the objects of a run, in its directory: files named by their keys.
const ObjectsDir = "objects"

// addList checks that the workers have left nothing, when they had time.
func (o *owned) addList(line int, r *history.Record) error {
	if r.Op == "list-files" {
		return decoded(r, func(_ *ops.ListFilesRequest, a *ops.ListFilesResponse) {
			if len(a.Files) > 0 {
				o.v.fail(CheckLeftovers, []int{line}, "node %s still holds %d files without batches, the first of object %s", r.Node, len(a.Files), a.Files[0].ObjectKey)
			}
		})
	}
	return decoded(r, func(_ *ops.ListTopicsRequest, a *ops.ListTopicsResponse) {
		for _, t := range a.Topics {
			if t.DeletedAt >= 0 {
				o.v.fail(CheckLeftovers, []int{line}, "node %s still holds topic %s, which was deleted", r.Node, t.TopicID)
			}
		}
	})
}

// checkFinals compares what nodes refer to at the end.
func (o *owned) checkFinals() {
	nodes := slices.Sorted(maps.Keys(o.finals))
	for _, node := range nodes {
		if !maps.Equal(o.finals[node], o.finals[nodes[0]]) {
			o.v.fail(CheckReplicas, []int{o.lastOne}, "nodes %s and %s refer to different objects at the end", nodes[0], node)
		}
	}
}

// checkStore holds the directory of objects against what batches refer to at the end.
func (o *owned) checkStore(dir string) error {
	referred := map[string]bool{}
	for _, keys := range o.finals {
		maps.Copy(referred, keys)
	}
	root := filepath.Join(dir, ObjectsDir)
	there := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		key, err := filepath.Rel(root, path)
		there[filepath.ToSlash(key)] = true
		return err
	})
	if errors.Is(err, os.ErrNotExist) && len(referred) == 0 {
		return nil // a run without objects
	}
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(referred)) {
		if !there[key] {
			o.v.fail(CheckObjects, []int{o.lastOne}, "object %s is gone, and batches refer to it at the end", key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(there)) {
		if !referred[key] {
			o.v.fail(CheckLeftovers, nil, "object %s is still there, and nothing refers to it", key)
		}
	}
	return nil
}
