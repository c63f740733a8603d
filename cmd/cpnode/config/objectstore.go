package config

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/cpnode/cpnode/purger/objectstore"
)

// NoObjectStore is the type of no store: objects are deleted by others.
const NoObjectStore = "none"

// openTimeout is how long an object store may take to answer when it is opened.
const openTimeout = 30 * time.Second

// ValidateObjectStore is the part of Validate that is about the object store: what can be
// known before it is opened.
func (c *Config) ValidateObjectStore() error {
	if c.ObjectStore.Type == NoObjectStore {
		return nil
	}
	if shortest := c.FileCleaner.LongestDeletion().Milliseconds(); c.Node.Settings.ForgottenKeyRetentionMs < shortest {
		return fmt.Errorf("forgotten.key.retention.ms: must be at least %d where objects are deleted: a deletion may be under way for so long, and must not meet another file of its key", shortest)
	}
	store := c.ObjectStore
	store.S3.SecretKey = c.ObjectSecretFile // stands for what it holds
	if err := store.Validate(); err != nil {
		return renamed(err)
	}
	return nil
}

// LazyObjectStore is the store, which is opened when it is needed, and nil when there is
// none. The error is the secret's file. The caller closes the store.
func (c *Config) LazyObjectStore() (*objectstore.Lazy, error) {
	if c.ObjectStore.Type == NoObjectStore {
		return nil, nil
	}
	config := c.ObjectStore
	if c.ObjectSecretFile != "" {
		secret, err := os.ReadFile(c.ObjectSecretFile)
		if err != nil {
			return nil, fmt.Errorf("object.store.secret.key.file: %w", err)
		}
		config.S3.SecretKey = strings.TrimSpace(string(secret))
	}
	return objectstore.NewLazy(func(ctx context.Context) (objectstore.Store, error) {
		ctx, cancel := context.WithTimeout(ctx, openTimeout)
		defer cancel()
		return objectstore.Open(ctx, config)
	}), nil
}
