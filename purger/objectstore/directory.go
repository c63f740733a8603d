package objectstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// Directory is a store in a directory of a local or shared file system: an object is the
// file whose path is its key. Nothing outside of the directory is ever touched, whatever
// keys say and wherever symbolic links lead.
//
// What Put and Delete answer is on disk. Directories that become empty stay.
type Directory struct {
	root *os.Root
}

var _ Store = (*Directory)(nil)

// incoming is the directory for files that are not whole yet. No key lies in it.
const incoming = ".incoming"

// OpenDirectory opens the store in dir, which must exist: one that is not mounted must
// not look like an empty one.
func OpenDirectory(dir string) (*Directory, error) {
	root, err := os.OpenRoot(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("object store: %w: mount the directory, or make it", err)
	case err != nil:
		return nil, fmt.Errorf("object store: %w", err)
	}
	return &Directory{root}, nil
}

// checkPath is the error for a key that is no path below the root.
func checkPath(key string) error {
	first, _, _ := strings.Cut(key, "/")
	if !fs.ValidPath(key) || key == "." || first == incoming || strings.ContainsRune(key, 0) {
		return fmt.Errorf("%q: not a key that a directory can hold", key)
	}
	return nil
}

// file is the file of a key; links and directories are no objects.
func (d *Directory) file(key string) (fs.FileInfo, error) {
	if err := checkPath(key); err != nil {
		return nil, err
	}
	info, err := d.root.Lstat(key)
	if missing(err) || err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%q: %w", key, ErrNotFound)
	}
	return info, err
}

// missing says that a path leads nowhere, also because it leads through a file.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

func object(key string, info fs.FileInfo) Object {
	return Object{Key: key, Size: info.Size(), ModifiedAt: info.ModTime()}
}

// Stat implements Store.
func (d *Directory) Stat(ctx context.Context, key string) (Object, error) {
	if err := ctx.Err(); err != nil {
		return Object{}, err
	}
	info, err := d.file(key)
	if err != nil {
		return Object{}, err
	}
	return object(key, info), nil
}

// Get implements Store.
func (d *Directory) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	if _, err := d.Stat(ctx, key); err != nil {
		return nil, err
	}
	return d.root.Open(key)
}

// Put implements Store: it writes a file beside, and renames it when it is on disk.
func (d *Directory) Put(ctx context.Context, key string, body io.Reader, size int64) error {
	if err := errors.Join(checkPath(key), ctx.Err()); err != nil {
		return err
	}
	if err := d.makeDirectory(incoming); err != nil {
		return err
	}
	beside := path.Join(incoming, rand.Text())
	err := d.writeFile(beside, key, body, size)
	if err == nil {
		err = d.place(beside, key)
	}
	if err != nil {
		return errors.Join(err, d.root.Remove(beside))
	}
	return nil
}

func (d *Directory) writeFile(name, key string, body io.Reader, size int64) error {
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	written, err := io.Copy(f, body)
	if err == nil && written != size {
		err = wrongSize(key, written, size)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// place gives a written file its key.
func (d *Directory) place(name, key string) error {
	parent := path.Dir(key)
	if err := d.makeDirectory(parent); err != nil {
		return err
	}
	if err := d.root.Rename(name, key); err != nil {
		return err
	}
	return d.syncDirectory(parent)
}

// makeDirectory makes a directory and those above it, each on disk before what it holds.
func (d *Directory) makeDirectory(dir string) error {
	if _, err := d.root.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := path.Dir(dir)
	if err := d.makeDirectory(parent); err != nil {
		return err
	}
	if err := d.root.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return d.syncDirectory(parent)
}

func (d *Directory) syncDirectory(dir string) error {
	f, err := d.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Delete implements Store. Each directory that keys lie in is synced once, after all of
// them: also for an absent object, since an earlier call may have removed its file and
// ended before that was on disk.
func (d *Directory) Delete(ctx context.Context, keys []string) []error {
	errs := make([]error, len(keys))
	inside := map[string][]int{} // by directory
	for i, key := range keys {
		if errs[i] = d.remove(ctx, key); errs[i] == nil {
			dir := path.Dir(key)
			inside[dir] = append(inside[dir], i)
		}
	}
	for dir, removed := range inside {
		err := ctx.Err()
		if err == nil {
			err = d.syncDirectory(dir)
		}
		if err == nil || missing(err) {
			continue
		}
		for _, i := range removed {
			errs[i] = fmt.Errorf("%q: %w", keys[i], err)
		}
	}
	return errs
}

func (d *Directory) remove(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err := d.file(key)
	if err == nil {
		err = d.root.Remove(key)
	}
	if errors.Is(err, ErrNotFound) || missing(err) {
		return nil
	}
	return err
}

// Close implements Store.
func (d *Directory) Close() error { return d.root.Close() }
