package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/cpnode/cpnode/purger/objectstore"
	"github.com/cpnode/cpnode/purger/objectstore/s3server"
)

const (
	storeDirectory = objectstore.TypeDirectory
	storeS3        = objectstore.TypeS3
)

// objects is the store of a run.
type objects struct {
	objectstore.Store
	flags []string // by which nodes and tools know it
	end   func() error
}

// openObjects makes an empty store under dir.
func openObjects(ctx context.Context, kind, dir string) (*objects, error) {
	dir = filepath.Join(dir, "objects")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	if kind == storeS3 {
		return openBucket(ctx, dir)
	}
	s, err := objectstore.OpenDirectory(dir)
	flags := []string{"--object.store.type", storeDirectory, "--object.store.directory", dir}
	return &objects{s, flags, func() error { return nil }}, err
}

// openBucket starts a server for a bucket.
func openBucket(ctx context.Context, dir string) (*objects, error) {
	server, err := s3server.New(dir)
	if err != nil {
		return nil, err
	}
	if err := server.Start(); err != nil {
		return nil, err
	}
	config, err := server.MakeBucket(ctx, "objects")
	if err != nil {
		return nil, errors.Join(err, server.Kill())
	}
	secret := filepath.Join(dir, "secret")
	s, err := objectstore.OpenS3(ctx, config)
	if err = errors.Join(err, os.WriteFile(secret, []byte(config.SecretKey), 0o600)); err != nil {
		return nil, errors.Join(err, server.Kill())
	}
	flags := []string{"--object.store.type", storeS3, "--object.store.endpoint", config.Endpoint, "--object.store.bucket", config.Bucket,
		"--object.store.region", config.Region, "--object.store.access.key", config.AccessKey, "--object.store.secret.key.file", secret}
	return &objects{s, flags, server.Kill}, nil
}

// close ends the server, if there is one.
func (o *objects) close() error { return errors.Join(o.Store.Close(), o.end()) }

// keys are those of all objects.
func (o *objects) keys(ctx context.Context) (map[string]bool, error) {
	keys := map[string]bool{}
	return keys, o.List(ctx, "", "", func(o objectstore.Object) bool {
		keys[o.Key] = true
		return true
	})
}
