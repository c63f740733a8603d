// Package overlay makes builds of this module with one line wrong, without changing
// the tree: the wrong file is laid over it (go build -overlay).
package overlay

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Change is what is wrong: New in place of Old, which occurs once in File, a path
// below the module's root.
type Change struct{ File, Old, New string }

// Write makes the wrong file and the map that puts it in place of the right one, both
// in dir, and returns the map's path, for -overlay. It runs in the module's root.
func (c Change) Write(dir string) (string, error) {
	wrong, err := c.Apply()
	if err != nil {
		return "", err
	}
	right, err := filepath.Abs(c.File)
	if err != nil {
		return "", err
	}
	path, overlay := filepath.Join(dir, "wrong.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {right: path}})
	if err != nil {
		return "", err
	}
	return overlay, errors.Join(os.WriteFile(path, wrong, 0o600), os.WriteFile(overlay, replace, 0o600))
}

// Apply is the file with the change in it. A line that is gone, or there twice, is an
// error: the change would be none, or another one.
func (c Change) Apply() ([]byte, error) {
	code, err := os.ReadFile(c.File)
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(code), c.Old); n != 1 {
		return nil, fmt.Errorf("%s has %q %d times, not once", c.File, c.Old, n)
	}
	return []byte(strings.Replace(string(code), c.Old, c.New, 1)), nil
}
