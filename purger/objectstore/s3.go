package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// S3Config says where a bucket is.
type S3Config struct {
	Endpoint string // URL: scheme, host and port
	Bucket   string
	Region   string // empty: asked of the endpoint
	// AccessKey and SecretKey sign requests. When both are empty they are looked for
	// where AWS's tools do: environment, shared credentials file, instance role.
	AccessKey, SecretKey string
}

// S3 is a store in a bucket, of any service that speaks S3's protocol. Deleting in a
// bucket that keeps versions leaves those.
type S3 struct {
	client *minio.Client
	bucket string
}

var _ Store = (*S3)(nil)

const (
	// s3Attempts of one request, within seconds; the workers try again later anyway.
	s3Attempts = 3
	// s3DeleteKeys is how many keys the protocol lets one request delete.
	s3DeleteKeys = 1000
)

// errUnanswered is for keys that the answer to a deletion does not mention.
var errUnanswered = errors.New("the object store did not say what became of the object")

// OpenS3 connects to a bucket, which must exist.
func OpenS3(ctx context.Context, config S3Config) (*S3, error) {
	endpoint, err := url.Parse(config.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("object store: %w", err)
	}
	client, err := minio.New(endpoint.Host, &minio.Options{
		Creds: s3Credentials(config), Secure: endpoint.Scheme == "https", Region: config.Region, MaxRetries: s3Attempts,
	})
	if err != nil {
		return nil, fmt.Errorf("object store: %w", err)
	}
	exists, err := client.BucketExists(ctx, config.Bucket)
	if err == nil && !exists {
		err = errors.New("there is no such bucket")
	}
	if err != nil {
		return nil, fmt.Errorf("object store: bucket %q: %w", config.Bucket, err)
	}
	return &S3{client, config.Bucket}, nil
}

func s3Credentials(config S3Config) *credentials.Credentials {
	if config.AccessKey != "" || config.SecretKey != "" {
		return credentials.NewStaticV4(config.AccessKey, config.SecretKey, "")
	}
	return credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{},
	})
}

// List implements Store.
func (s *S3) List(ctx context.Context, prefix, after string, fn func(Object) bool) error {
	options := minio.ListObjectsOptions{Prefix: prefix, StartAfter: after, Recursive: true}
	for o := range s.client.ListObjectsIter(ctx, s.bucket, options) {
		if o.Err != nil {
			return o.Err
		}
		if !fn(Object{Key: o.Key, Size: o.Size, ModifiedAt: o.LastModified}) {
			return nil
		}
	}
	return ctx.Err()
}

// Stat implements Store.
func (s *S3) Stat(ctx context.Context, key string) (Object, error) {
	o, err := s.client.StatObject(ctx, s.bucket, key, minio.StatObjectOptions{})
	if err != nil {
		return Object{}, s3Error(key, err)
	}
	return Object{Key: key, Size: o.Size, ModifiedAt: o.LastModified}, nil
}

// Get implements Store.
func (s *S3) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	o, err := s.client.GetObject(ctx, s.bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return nil, s3Error(key, err)
	}
	if _, err := o.Stat(); err != nil { // the request is made here
		return nil, errors.Join(s3Error(key, err), o.Close())
	}
	return o, nil
}

// Put implements Store.
func (s *S3) Put(ctx context.Context, key string, body io.Reader, size int64) error {
	_, err := s.client.PutObject(ctx, s.bucket, key, body, size, minio.PutObjectOptions{})
	return s3Error(key, err)
}

// s3Error names the key, and tells apart an object that is not there.
func s3Error(key string, err error) error {
	if err == nil {
		return nil
	}
	if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		err = ErrNotFound
	}
	return fmt.Errorf("%q: %w", key, err)
}

// Delete implements Store: one request for up to 1,000 keys. Only those that the answer
// names as deleted are confirmed.
func (s *S3) Delete(ctx context.Context, keys []string) []error {
	errs := make([]error, 0, len(keys))
	for len(keys) > 0 {
		n := min(len(keys), s3DeleteKeys)
		errs = append(errs, s.deleteSome(ctx, keys[:n])...)
		keys = keys[n:]
	}
	return errs
}

func (s *S3) deleteSome(ctx context.Context, keys []string) []error {
	outcome := make(map[string]error, len(keys))
	unanswered := errUnanswered
	objects := make(chan minio.ObjectInfo, len(keys))
	for _, key := range keys {
		if key != "" {
			objects <- minio.ObjectInfo{Key: key}
		}
	}
	close(objects)
	for r := range s.client.RemoveObjectsWithResult(ctx, s.bucket, objects, minio.RemoveObjectsOptions{}) {
		if r.ObjectName == "" { // of the answer as a whole
			unanswered = r.Err
			continue
		}
		outcome[r.ObjectName] = r.Err
	}
	errs := make([]error, len(keys))
	for i, key := range keys {
		err, answered := outcome[key]
		if !answered {
			err = unanswered
		}
		errs[i] = s3Error(key, err)
		if errors.Is(errs[i], ErrNotFound) {
			errs[i] = nil
		}
	}
	return errs
}

// Close implements Store.
func (s *S3) Close() error { return nil }
