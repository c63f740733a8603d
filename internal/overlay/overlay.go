// Package overlay makes builds with some lines changed, without changing the tree:
// the changed files are laid over it (go build -overlay).
package overlay

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Change is New in place of Old, which occurs once in File: a path below the module's
// root, or an absolute one.
type Change struct{ File, Old, New string }

// replacement is what go build -overlay reads.
type replacement struct {
	Replace map[string]string // files by the ones that they are in place of, all absolute
}

// Write makes the changed files and the map that puts them in place of the right ones,
// all in dir, and returns the map's path, for -overlay. It runs in the module's root.
// below is the path of another such map, empty for none: its files are replaced too, and
// changes are made to them. A file may have several changes.
func Write(dir, below string, changes ...Change) (string, error) {
	all := replacement{Replace: map[string]string{}}
	if below != "" {
		data, err := os.ReadFile(below)
		if err := errors.Join(err, json.Unmarshal(data, &all)); err != nil {
			return "", err
		}
	}
	for i, c := range changes {
		right, err := filepath.Abs(c.File)
		if err != nil {
			return "", err
		}
		from, ok := all.Replace[right]
		if !ok {
			from = right
		}
		code, err := c.in(from)
		to := filepath.Join(dir, fmt.Sprintf("changed%d.go", i))
		if err := errors.Join(err, os.WriteFile(to, code, 0o600)); err != nil {
			return "", err
		}
		all.Replace[right] = to
	}
	data, err := json.Marshal(all)
	path := filepath.Join(dir, "overlay.json")
	return path, errors.Join(err, os.WriteFile(path, data, 0o600))
}

// Apply is the file with the change in it. A line that is gone, or there twice, is an
// error: the change would be none, or another one.
func (c Change) Apply() ([]byte, error) { return c.in(c.File) }

// in makes the change to what is at path.
func (c Change) in(path string) ([]byte, error) {
	code, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(code), c.Old); n != 1 {
		return nil, fmt.Errorf("%s has %q %d times, not once", c.File, c.Old, n)
	}
	return []byte(strings.Replace(string(code), c.Old, c.New, 1)), nil
}
