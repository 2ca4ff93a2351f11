// Package s3 opens Zarr stores in Amazon S3 and servers that speak its protocol. Import it
// for its side effect: store.Open then takes URLs such as
//
//	s3://bucket/prefix?region=eu-west-1
//	s3://bucket/prefix?endpoint=http://localhost:9000&use_path_style=true&region=us-east-1
//
// The query is that of gocloud.dev/blob/s3blob; credentials come from the environment, as
// for AWS' own tools.
package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/quiver-gpu/quiver/zarr/store/blobstore"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/s3blob" // opens s3 URLs
)

func init() {
	store.Register("s3", func(ctx context.Context, u *url.URL) (store.Store, error) {
		return blobstore.Open(ctx, u, func(bucket *blob.Bucket) (blobstore.Native, error) {
			var client *awss3.Client
			if !bucket.As(&client) {
				return blobstore.Native{}, errors.New("gocloud.dev/blob/s3blob has no S3 client")
			}
			return native(client, u.Host), nil
		})
	})
}

// maxAttempts limits the attempts of a put, unless AWS_MAX_ATTEMPTS does. The client's own
// limit of 3 is too low for a large table: where one response in a hundred is lost, it ends
// one in a million puts, and more if the clocks differ, since a lost response costs two
// attempts then.
const maxAttempts = 8

func patient(o *awss3.Options) {
	if o.RetryMaxAttempts == 0 {
		o.RetryMaxAttempts = maxAttempts
	}
}

// native returns the requests of S3: PutObject, which has no parts that stay if it is
// cancelled, and GetObject with a suffix range.
func native(client *awss3.Client, bucket string) blobstore.Native {
	return blobstore.Native{
		Put: func(ctx context.Context, key string, value []byte, creation map[string]string) error {
			in := &awss3.PutObjectInput{Bucket: &bucket, Key: &key, Body: bytes.NewReader(value),
				ContentLength: aws.Int64(int64(len(value))), ContentType: aws.String("application/octet-stream")}
			if creation != nil {
				in.IfNoneMatch, in.Metadata = aws.String("*"), creation
			}
			_, err := client.PutObject(ctx, in, patient)
			return mark(err)
		},
		Last: func(ctx context.Context, key string, n int64) ([]byte, error) {
			out, err := client.GetObject(ctx, &awss3.GetObjectInput{Bucket: &bucket, Key: &key, Range: aws.String(fmt.Sprintf("bytes=-%d", n))})
			if err != nil {
				return nil, mark(err)
			}
			defer out.Body.Close()
			return io.ReadAll(out.Body)
		},
		Require: func(etag string, as func(any) bool) error {
			var in *awss3.GetObjectInput
			if as(&in) {
				in.IfMatch = &etag
			}
			return nil
		},
		Version: func(as func(any) bool) string {
			var out awss3.GetObjectOutput
			if !as(&out) {
				return ""
			}
			return aws.ToString(out.ETag)
		},
	}
}

// mark wraps the errors of S3 that callers act on in those of package store.
func mark(err error) error {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return err
	}
	switch api.ErrorCode() {
	case "PreconditionFailed", "ConditionalRequestConflict":
		return fmt.Errorf("%w: %w", store.ErrExists, err)
	case "NoSuchKey", "NotFound":
		return fmt.Errorf("%w: %w", store.ErrNotFound, err)
	}
	return err
}
