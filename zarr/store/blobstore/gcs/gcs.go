// Package gcs opens Zarr stores in Google Cloud Storage. Import it for its side effect:
// store.Open then takes URLs such as
//
//	gs://bucket/prefix
//
// The query is that of gocloud.dev/blob/gcsblob; credentials are the application's default
// credentials. With STORAGE_EMULATOR_HOST set, and ?anonymous=true, requests go to an
// emulator.
package gcs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"syscall"

	"cloud.google.com/go/storage"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/quiver-gpu/quiver/zarr/store/blobstore"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/gcsblob" // opens gs URLs
	"google.golang.org/api/googleapi"
)

func init() {
	store.Register("gs", func(ctx context.Context, u *url.URL) (store.Store, error) {
		return blobstore.Open(ctx, u, func(bucket *blob.Bucket) (blobstore.Native, error) {
			var client *storage.Client
			if !bucket.As(&client) {
				return blobstore.Native{}, errors.New("gocloud.dev/blob/gcsblob has no storage client")
			}
			client.SetRetry(storage.WithPolicy(storage.RetryAlways), storage.WithErrorFunc(temporary), storage.WithMaxAttempts(maxAttempts))
			return native(client.Bucket(u.Host)), nil
		})
	})
}

// maxAttempts limits the attempts of a request, which take about two minutes.
const maxAttempts = 8

// temporary reports whether a request is repeated after an error. All requests may be: a
// value is the same each time, and so is a deletion. The default does not repeat requests
// whose connection was closed.
func temporary(err error) bool {
	return storage.ShouldRetry(err) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// native returns the requests of Cloud Storage: one multipart request per object, and
// suffix ranges.
func native(bucket *storage.BucketHandle) blobstore.Native {
	return blobstore.Native{
		Put: func(ctx context.Context, key string, value []byte, creation map[string]string) error {
			object := bucket.Object(key)
			if creation != nil {
				object = object.If(storage.Conditions{DoesNotExist: true})
			}
			ctx, cancel := context.WithCancel(ctx) // aborts the upload after an error
			defer cancel()
			w := object.NewWriter(ctx)
			w.Metadata, w.ContentType = creation, "application/octet-stream"
			w.ChunkSize = len(value) + 1 // one request that is repeated; with 0 it is not
			if _, err := io.Copy(w, bytes.NewReader(value)); err != nil {
				return mark(err)
			}
			return mark(w.Close())
		},
		Last: func(ctx context.Context, key string, n int64) ([]byte, string, error) {
			r, err := bucket.Object(key).NewRangeReader(ctx, -n, -1)
			if err != nil {
				return nil, "", mark(err)
			}
			defer func() { _ = r.Close() }() // errors show in ReadAll
			value, err := io.ReadAll(r)
			return value, generation(r), err
		},
		Version: func(as func(any) bool) string {
			var r *storage.Reader
			if !as(&r) {
				return ""
			}
			return generation(r)
		},
	}
}

// generation returns the version of an object that a reader reads, or "" if it is unknown.
func generation(r *storage.Reader) string {
	if r.Attrs.Generation == 0 {
		return ""
	}
	return strconv.FormatInt(r.Attrs.Generation, 10)
}

// mark wraps the errors of Cloud Storage that callers act on in those of package store.
func mark(err error) error {
	var api *googleapi.Error
	switch {
	case errors.Is(err, storage.ErrObjectNotExist):
		return fmt.Errorf("%w: %w", store.ErrNotFound, err)
	case errors.As(err, &api) && api.Code == http.StatusPreconditionFailed:
		return fmt.Errorf("%w: %w", store.ErrExists, err)
	}
	return err
}
