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
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/quiver-gpu/quiver/zarr/store/blobstore"
	"gocloud.dev/blob/s3blob"
)

func init() { store.Register("s3", open) }

// open opens the bucket of a URL, whose path is a prefix of all keys.
func open(ctx context.Context, u *url.URL) (store.Store, error) {
	client, err := newClient(ctx, u)
	if err != nil {
		return nil, err
	}
	encryption := encryptionOf(u)
	bucket, err := s3blob.OpenBucket(ctx, client, u.Host, &s3blob.Options{
		EncryptionType: encryption.method, KMSEncryptionID: encryption.key,
		RequestChecksumCalculation: client.Options().RequestChecksumCalculation,
	})
	if err != nil {
		return nil, err
	}
	var opened store.Store
	s, err := blobstore.New(bucket, u.Scheme+"://"+u.Host, native(client, u.Host, encryption))
	if err == nil {
		opened, err = store.Under(s, strings.Trim(u.Path, "/"))
	}
	if err != nil {
		return nil, errors.Join(err, bucket.Close())
	}
	return opened, nil
}

// idleConnections is how many connections are kept for later requests. The client's own limit
// is 10: of more requests at once, the others would each open a connection. The client closes
// those that are idle for 90 s, and has no way to close them with the store.
const idleConnections = 128

// newClient returns a client for a URL, by its query.
func newClient(ctx context.Context, u *url.URL) (*awss3.Client, error) {
	bucketURL := *u
	bucketURL.Path = ""
	opened, err := new(s3blob.URLOpener).OpenBucketURL(ctx, &bucketURL)
	if err != nil {
		return nil, err
	}
	var client *awss3.Client
	if !opened.As(&client) {
		err = errors.New("gocloud.dev/blob/s3blob has no S3 client")
	}
	if err = errors.Join(err, opened.Close()); err != nil {
		return nil, err
	}
	return awss3.New(client.Options(), func(o *awss3.Options) {
		// Objects may have been written without a checksum, which needs no line in a log for
		// each that is read.
		o.DisableLogOutputChecksumValidationSkipped = true
		if connections, ok := o.HTTPClient.(*awshttp.BuildableClient); ok {
			o.HTTPClient = connections.WithTransportOptions(func(t *http.Transport) {
				t.MaxIdleConns, t.MaxIdleConnsPerHost = idleConnections, idleConnections
			})
		}
	}), nil
}

// encryption is how the server encrypts objects.
type encryption struct {
	method types.ServerSideEncryption
	key    string // of AWS' key management, if not empty
}

// encryptionOf returns what the query of a URL says, which newClient has checked.
func encryptionOf(u *url.URL) encryption {
	e := encryption{key: u.Query().Get("kmskeyid")}
	for _, method := range e.method.Values() {
		if strings.EqualFold(string(method), u.Query().Get("ssetype")) {
			e.method = method
		}
	}
	return e
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
func native(client *awss3.Client, bucket string, encrypted encryption) blobstore.Native {
	return blobstore.Native{
		Put: func(ctx context.Context, key string, value []byte, creation map[string]string) error {
			in := &awss3.PutObjectInput{Bucket: &bucket, Key: &key, Body: bytes.NewReader(value),
				ContentLength: aws.Int64(int64(len(value))), ContentType: aws.String("application/octet-stream"),
				ServerSideEncryption: encrypted.method}
			if encrypted.key != "" {
				in.SSEKMSKeyId = &encrypted.key
			}
			if creation != nil {
				in.IfNoneMatch, in.Metadata = aws.String("*"), creation
			}
			_, err := client.PutObject(ctx, in, patient)
			return mark(err)
		},
		Last: func(ctx context.Context, key string, n int64) ([]byte, string, error) {
			out, err := client.GetObject(ctx, &awss3.GetObjectInput{Bucket: &bucket, Key: &key, Range: aws.String(fmt.Sprintf("bytes=-%d", n))})
			if err != nil {
				return nil, "", mark(err)
			}
			defer out.Body.Close()
			value, err := io.ReadAll(out.Body)
			return value, aws.ToString(out.ETag), err
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
