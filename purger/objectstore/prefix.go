package objectstore

import (
	"context"
	"io"
	"strings"
)

// WithPrefix is the part of a store whose keys begin with prefix, which is put before
// the keys of every call and taken off the keys of what is listed. It shares what it is
// part of: closing one closes both.
func WithPrefix(s Store, prefix string) Store {
	if prefix == "" {
		return s
	}
	return &prefixed{s, prefix}
}

type prefixed struct {
	whole  Store
	prefix string
}

func (p *prefixed) List(ctx context.Context, prefix, after string, fn func(Object) bool) error {
	if after != "" {
		after = p.prefix + after
	}
	return p.whole.List(ctx, p.prefix+prefix, after, func(o Object) bool {
		return fn(p.relative(o))
	})
}

func (p *prefixed) relative(o Object) Object {
	o.Key = strings.TrimPrefix(o.Key, p.prefix)
	return o
}

func (p *prefixed) Stat(ctx context.Context, key string) (Object, error) {
	o, err := p.whole.Stat(ctx, p.prefix+key)
	return p.relative(o), err
}

func (p *prefixed) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	return p.whole.Get(ctx, p.prefix+key)
}

func (p *prefixed) Put(ctx context.Context, key string, body io.Reader, size int64) error {
	return p.whole.Put(ctx, p.prefix+key, body, size)
}

func (p *prefixed) Delete(ctx context.Context, keys []string) []error {
	long := make([]string, len(keys))
	for i, key := range keys {
		long[i] = p.prefix + key
	}
	return p.whole.Delete(ctx, long)
}

func (p *prefixed) Close() error { return p.whole.Close() }
