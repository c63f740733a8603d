package objectstore

import (
	"context"
	"fmt"
	"net/url"
)

// The kinds of stores that a Config names.
const (
	TypeDirectory = "directory"
	TypeS3        = "s3"
	TypeMemory    = "memory"
)

// Config names a store.
type Config struct {
	Type      string // one of the constants
	Directory string // of type "directory"
	S3        S3Config
	// Prefix is put before every object key, as it is: a path ends in a slash.
	Prefix string
}

// Validate names the first field that is wrong.
func (c *Config) Validate() error {
	switch {
	case c.Type != TypeDirectory && c.Type != TypeS3 && c.Type != TypeMemory:
		return fmt.Errorf("Type: %q must be %q, %q or %q", c.Type, TypeDirectory, TypeS3, TypeMemory)
	case c.Type == TypeDirectory && c.Directory == "":
		return fmt.Errorf("Directory: must be given")
	case c.Type == TypeS3 && c.S3.Endpoint == "":
		return fmt.Errorf("S3.Endpoint: must be given")
	case c.Type == TypeS3 && c.S3.Bucket == "":
		return fmt.Errorf("S3.Bucket: must be given")
	case c.Type == TypeS3 && !isURL(c.S3.Endpoint):
		return fmt.Errorf("S3.Endpoint: %q must be a URL of http or https", c.S3.Endpoint)
	case (c.S3.AccessKey == "") != (c.S3.SecretKey == ""):
		return fmt.Errorf("S3.AccessKey, S3.SecretKey: give both or neither")
	}
	return nil
}

func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// Open makes the store that c names. A directory or bucket must exist.
func Open(ctx context.Context, c Config) (Store, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("object store: %w", err)
	}
	var s Store
	var err error
	switch c.Type {
	case TypeDirectory:
		s, err = OpenDirectory(c.Directory)
	case TypeS3:
		s, err = OpenS3(ctx, c.S3)
	case TypeMemory:
		s = NewMemory(nil)
	}
	if err != nil {
		return nil, err
	}
	return WithPrefix(s, c.Prefix), nil
}
