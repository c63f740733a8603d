package objectstore

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
)

// List implements Store. Of each directory on the way to the present key it holds the
// names, which bounds its memory by the largest directories and not by all objects.
func (d *Directory) List(ctx context.Context, prefix, after string, fn func(Object) bool) error {
	l := listing{d, prefix, after, fn}
	_, err := l.walk(ctx, "")
	return err
}

type listing struct {
	store         *Directory
	prefix, after string
	fn            func(Object) bool
}

// walk lists the directory whose path, with a slash at its end, is dir; the root's is
// empty. more is false when fn has seen enough.
func (l *listing) walk(ctx context.Context, dir string) (more bool, err error) {
	names, err := l.store.names(dir)
	if missing(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if more, err := l.visit(ctx, dir+name); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

func (l *listing) visit(ctx context.Context, key string) (more bool, err error) {
	if strings.HasSuffix(key, "/") {
		if !l.mayHold(key) {
			return true, nil
		}
		return l.walk(ctx, key)
	}
	if key <= l.after || !strings.HasPrefix(key, l.prefix) {
		return true, nil
	}
	info, err := l.store.root.Lstat(key)
	if missing(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return l.fn(object(key, info)), nil
}

// mayHold says whether a directory may hold keys that are asked for.
func (l *listing) mayHold(dir string) bool {
	matches := strings.HasPrefix(dir, l.prefix) || strings.HasPrefix(l.prefix, dir)
	return matches && (dir > l.after || strings.HasPrefix(l.after, dir))
}

// names are the files and directories of a directory. The latter end in a slash, which
// makes their order that of the keys in them: "a.b" before "a/b".
func (d *Directory) names(dir string) ([]string, error) {
	f, err := d.root.Open(cmp.Or(strings.TrimSuffix(dir, "/"), "."))
	if err != nil {
		return nil, err
	}
	entries, err := f.ReadDir(-1)
	err = errors.Join(err, f.Close())
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		switch {
		case e.IsDir() && dir+e.Name() != incoming:
			names = append(names, e.Name()+"/")
		case e.Type() == fs.FileMode(0): // a regular file
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, err
}
