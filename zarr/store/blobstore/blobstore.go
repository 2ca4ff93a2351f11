// Package blobstore keeps Zarr values in object stores, by way of gocloud.dev/blob.
//
// Programs open an object store by its URL: they import the package of its kind, such as
// blobstore/s3, for its side effect and call store.Open. [New] takes any bucket of
// gocloud.dev/blob.
//
// A value is one object, written whole by one request: there are no parts to clean up when
// a write is cancelled. Moving a prefix is not possible. Requests that fail for a time are
// retried by the client library of the kind.
package blobstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quiver-gpu/quiver/zarr/store"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// contentType is that of all values.
const contentType = "application/octet-stream"

// Store is a store of the objects of a bucket. Use [New] or store.Open.
type Store struct {
	bucket *blob.Bucket
	name   string
	native Native
}

var (
	_ store.Sizer             = (*Store)(nil)
	_ store.DirLister         = (*Store)(nil)
	_ store.ValueOpener       = (*Store)(nil)
	_ store.VersionsGetter    = (*Store)(nil)
	_ store.ConditionalSetter = (*Store)(nil)
)

// Native are requests that a kind of object store does better than gocloud.dev/blob. A nil
// function is not used.
type Native struct {
	// Put writes an object by one request. If creation is not nil, it is written only if
	// it does not exist, with creation as its metadata. The error of a refusal wraps
	// store.ErrExists.
	Put func(ctx context.Context, key string, value []byte, creation map[string]string) error
	// Last reads the last n bytes of an object, n > 0, without asking for its size first.
	// Its error wraps store.ErrNotFound if there is no object.
	// The version is that of Version.
	Last func(ctx context.Context, key string, n int64) (value []byte, version string, err error)
	// Require makes a read fail with an error of code FailedPrecondition if the object
	// has another ETag. It is called before the request, with the function of
	// blob.ReaderOptions.BeforeRead.
	Require func(etag string, as func(any) bool) error
	// Version returns what distinguishes the version of an object that a reader reads, or
	// "" if that is unknown. as is the function of blob.Reader.As. Without it, a transfer
	// that breaks off begins again, since the rest might be of another version.
	Version func(as func(any) bool) string
}

// New returns the store of a bucket, which Close closes. name is for errors, such as
// "s3://bucket".
func New(bucket *blob.Bucket, name string, native Native) (*Store, error) {
	if bucket == nil {
		return nil, errors.New("blobstore.New: nil bucket")
	}
	return &Store{bucket, name, native}, nil
}

// Open opens the bucket of a URL with gocloud.dev/blob. The path of the URL is a prefix of
// all keys; its query is for gocloud.dev/blob. Packages of kinds of object stores call it.
func Open(ctx context.Context, u *url.URL, native func(*blob.Bucket) (Native, error)) (store.Store, error) {
	if u == nil {
		return nil, errors.New("blobstore.Open: nil URL")
	}
	bucketURL := *u
	bucketURL.Path = ""
	bucket, err := blob.OpenBucket(ctx, bucketURL.String())
	if err != nil {
		return nil, err
	}
	s := &Store{bucket: bucket, name: u.Scheme + "://" + u.Host}
	if native != nil {
		s.native, err = native(bucket)
	}
	var opened store.Store
	if err == nil {
		opened, err = store.Under(s, strings.Trim(u.Path, "/"))
	}
	if err != nil {
		return nil, errors.Join(err, bucket.Close())
	}
	return opened, nil
}

// String returns the name of the bucket.
func (s *Store) String() string { return s.name }

// Close closes the bucket.
func (s *Store) Close() error { return s.bucket.Close() }

// check returns an error unless an operation on a key can begin. gocloud.dev/blob would
// store some keys under other names, which other programs could not find.
func check(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := store.CheckKey(key); err != nil {
		return err
	}
	escaped := strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c == 0x7f })
	if escaped || strings.Contains(key, "../") || strings.Contains(key, "__0x") {
		return fmt.Errorf("control characters, ../ and __0x are not possible in an object store: %w", store.ErrInvalidKey)
	}
	return nil
}

func checkPrefix(ctx context.Context, prefix string) error {
	if prefix == "" {
		return ctx.Err()
	}
	return check(ctx, prefix)
}

// wrap names the method and the key of an error, and wraps the store's errors.
func (s *Store) wrap(ctx context.Context, method, key string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		err = ctx.Err()
	case gcerrors.Code(err) == gcerrors.NotFound:
		err = fmt.Errorf("%w: %w", store.ErrNotFound, err)
	case gcerrors.Code(err) == gcerrors.FailedPrecondition:
		err = fmt.Errorf("%w: %w", store.ErrExists, err)
	}
	return fmt.Errorf("store.%s: %s: key %q: %w", method, s.name, key, err)
}

// Get reads an object or a range of it. [store.Last] asks for the size first, unless the
// kind of store has requests for it.
func (s *Store) Get(ctx context.Context, key string, r store.Range) ([]byte, error) {
	value, _, err := s.get(ctx, key, r)
	return value, s.wrap(ctx, "Get", key, err)
}

// GetRangesVersion reads ranges of an object, nearby ones by one request, and returns what
// [Native.Version] says of it, if all requests saw the same version.
func (s *Store) GetRangesVersion(ctx context.Context, key string, ranges []store.Range) ([][]byte, string, error) {
	reader := &versionReader{Store: s, store: s}
	values, err := store.GetRanges(ctx, reader, key, ranges)
	version := reader.version
	if err != nil || reader.differ || strings.HasPrefix(version, "W/") { // a weak ETag
		version = ""
	}
	return values, version, err
}

// versionReader is the store that store.GetRanges reads the ranges of one object from.
type versionReader struct {
	store.Store // without the GetRangesVersion of *Store
	store       *Store

	mu      sync.Mutex
	read    bool
	version string // of the first response
	differ  bool   // whether another response has another version
}

// Get reads a range of the object.
func (r *versionReader) Get(ctx context.Context, key string, wanted store.Range) ([]byte, error) {
	value, version, err := r.store.get(ctx, key, wanted)
	if err != nil {
		return nil, r.store.wrap(ctx, "GetRanges", key, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.read {
		r.read, r.version = true, version
	}
	r.differ = r.differ || version != r.version
	return value, nil
}

// get reads an object or a range of it, and returns its version, which is empty if that is
// unknown.
func (s *Store) get(ctx context.Context, key string, r store.Range) (value []byte, version string, err error) {
	if err := check(ctx, key); err != nil {
		return nil, "", err
	}
	offset, length, fromEnd, err := r.Request()
	if err != nil {
		return nil, "", err
	}
	switch {
	case length == 0:
		_, err := s.bucket.Attributes(ctx, key) // a missing key is an error
		return nil, "", err
	case fromEnd && s.native.Last != nil:
		value, version, err := s.native.Last(ctx, key, length)
		if err == nil || errors.Is(err, store.ErrNotFound) || ctx.Err() != nil {
			return value, version, err
		}
		// Some servers refuse more bytes than there are.
		return s.resolve(ctx, key, r, err)
	case fromEnd:
		return s.resolve(ctx, key, r, nil)
	}
	value, version, err = s.read(ctx, key, offset, length, nil)
	if err != nil && (offset > 0 || length > 0) && gcerrors.Code(err) != gcerrors.NotFound && ctx.Err() == nil {
		// A range that begins at the end or beyond is refused, also in an empty object.
		return s.resolve(ctx, key, r, err)
	}
	return value, version, err
}

// resolve reads a range by the size of the object. It returns the error of an earlier
// request if the range cannot be its reason.
func (s *Store) resolve(ctx context.Context, key string, r store.Range, earlier error) (value []byte, version string, err error) {
	attributes, err := s.bucket.Attributes(ctx, key)
	if err != nil {
		return nil, "", err
	}
	start, end, err := r.Resolve(attributes.Size)
	if err != nil || start == end {
		return nil, "", err
	}
	if offset, _, fromEnd, _ := r.Request(); earlier != nil && !fromEnd && start == offset {
		return nil, "", earlier
	}
	return s.read(ctx, key, start, end-start, &object{s, key, attributes})
}

// attempts is how often a transfer that breaks off is resumed.
const attempts = 4

// read reads length bytes, or all from offset on if length is negative. Client libraries
// retry a request, but not a transfer that breaks off: read resumes it. Unless it is nil,
// object is what it must be. The version is that of [Native.Version].
func (s *Store) read(ctx context.Context, key string, offset, length int64, object *object) (value []byte, version string, err error) {
	t := transfer{store: s, key: key, offset: offset, length: length, object: object}
	for attempt := 1; ; attempt++ {
		done, err := t.resume(ctx)
		if done || err != nil && (attempt == attempts || ctx.Err() != nil) {
			return t.value.Bytes(), t.version, err
		}
	}
}

// transfer is a read that may break off and go on. All its bytes are of one version of the
// object.
type transfer struct {
	store          *Store
	key            string
	offset, length int64
	object         *object // which version; nil for any
	value          bytes.Buffer
	version        string // of the bytes in value; "" if unknown
}

// resume reads what value lacks. It returns done with an error that another attempt would
// not change.
func (t *transfer) resume(ctx context.Context) (done bool, err error) {
	if t.object == nil && t.version == "" {
		t.value.Reset() // the rest might be of another version
	}
	have := int64(t.value.Len())
	resumes := have > 0 && t.object == nil
	rest := t.length
	if rest >= 0 {
		rest -= have
	}
	reader, err := t.store.bucket.NewRangeReader(ctx, t.key, t.offset+have, rest, t.object.options())
	if err != nil {
		t.restart()
		return !resumes || gcerrors.Code(err) == gcerrors.NotFound, t.object.changed(err)
	}
	defer func() { _ = reader.Close() }() // errors show in Copy
	if err := t.object.check(reader); err != nil {
		return true, err
	}
	version := ""
	if t.store.native.Version != nil {
		version = t.store.native.Version(reader.As)
	}
	if have > 0 && version != t.version {
		t.restart()
		return t.object != nil, store.ErrChanged
	}
	t.version = version
	want := reader.Size() - t.offset // in all
	if t.length >= 0 {
		want = min(want, t.length)
	}
	t.value.Grow(int(max(want-have, 0)) + bytes.MinRead) // with MinRead, ReadFrom does not grow
	_, err = io.Copy(&t.value, reader)
	if err == nil && int64(t.value.Len()) != want {
		err = fmt.Errorf("got %d bytes from %d on, want %d: %w", t.value.Len(), t.offset, want, io.ErrUnexpectedEOF)
	}
	return err == nil, err
}

// restart forgets the bytes that are of an earlier version.
func (t *transfer) restart() {
	if t.object == nil {
		t.value.Reset()
		t.version = ""
	}
}

// object is one version of an object.
type object struct {
	store      *Store
	key        string
	attributes *blob.Attributes
}

// OpenValue returns the present version of an object. Another one is noticed by its ETag
// if [Native.Require] is set, otherwise by its length and the time when it was written.
func (s *Store) OpenValue(ctx context.Context, key string) (store.Value, error) {
	err := check(ctx, key)
	if err == nil {
		var attributes *blob.Attributes
		if attributes, err = s.bucket.Attributes(ctx, key); err == nil {
			return &object{s, key, attributes}, nil
		}
	}
	return nil, s.wrap(ctx, "OpenValue", key, err)
}

func (o *object) Size() int64 { return o.attributes.Size }

func (o *object) Version() string {
	if o.attributes.ETag != "" {
		return o.attributes.ETag
	}
	return o.attributes.ModTime.UTC().Format(time.RFC3339Nano)
}

func (o *object) Read(ctx context.Context, r store.Range) ([]byte, error) {
	start, end, err := r.Resolve(o.attributes.Size)
	if err == nil && start == end {
		return nil, ctx.Err()
	}
	var value []byte
	if err == nil {
		value, _, err = o.store.read(ctx, o.key, start, end-start, o)
	}
	return value, o.store.wrap(ctx, "Value.Read", o.key, err)
}

// options makes a request fail if the object has another version.
func (o *object) options() *blob.ReaderOptions {
	if o == nil || o.store.native.Require == nil || o.attributes.ETag == "" {
		return nil
	}
	return &blob.ReaderOptions{BeforeRead: func(as func(any) bool) error {
		return o.store.native.Require(o.attributes.ETag, as)
	}}
}

// changed marks the error of a request that options made fail.
func (o *object) changed(err error) error {
	if o != nil && gcerrors.Code(err) == gcerrors.FailedPrecondition {
		return fmt.Errorf("%w: %s", store.ErrChanged, err.Error()) // not as an error of a precondition
	}
	return err
}

// check returns an error wrapping store.ErrChanged if a reader reads another version.
func (o *object) check(r *blob.Reader) error {
	if o == nil {
		return nil
	}
	if size := r.Size(); size != o.attributes.Size {
		return fmt.Errorf("%d bytes, was %d: %w", size, o.attributes.Size, store.ErrChanged)
	}
	// Headers have whole seconds.
	if at := r.ModTime(); !at.IsZero() && !o.attributes.ModTime.IsZero() && at.Sub(o.attributes.ModTime).Abs() > 2*time.Second {
		return fmt.Errorf("written at %v, was %v: %w", at, o.attributes.ModTime, store.ErrChanged)
	}
	return nil
}

// Size returns the length of an object.
func (s *Store) Size(ctx context.Context, key string) (int64, error) {
	err := check(ctx, key)
	if err == nil {
		var attributes *blob.Attributes
		if attributes, err = s.bucket.Attributes(ctx, key); err == nil {
			return attributes.Size, nil
		}
	}
	return 0, s.wrap(ctx, "Size", key, err)
}

// Set writes an object.
func (s *Store) Set(ctx context.Context, key string, value []byte) error {
	return s.wrap(ctx, "Set", key, s.put(ctx, key, value, nil))
}

// creationKey is the metadata of an object that names the call that created it.
const creationKey = "quivercreation"

// SetIfNotExists writes an object unless it exists. If the response to a request that
// succeeded is lost, the client library repeats it, and the repetition is refused. The
// object's metadata name the call that created it, so that this call returns nil. After
// an error other than store.ErrExists the object may exist.
func (s *Store) SetIfNotExists(ctx context.Context, key string, value []byte) error {
	creation := rand.Text()
	err := s.wrap(ctx, "SetIfNotExists", key, s.put(ctx, key, value, map[string]string{creationKey: creation}))
	if errors.Is(err, store.ErrExists) {
		attributes, failed := s.bucket.Attributes(ctx, key)
		switch {
		case failed != nil && gcerrors.Code(failed) != gcerrors.NotFound:
			return s.wrap(ctx, "SetIfNotExists", key, failed)
		case failed == nil && attributes.Metadata[creationKey] == creation:
			return nil
		}
	}
	return err
}

// put writes an object, and if creation is not nil, only if it does not exist, with that
// metadata.
func (s *Store) put(ctx context.Context, key string, value []byte, creation map[string]string) error {
	if err := check(ctx, key); err != nil {
		return err
	}
	if s.native.Put != nil {
		return s.native.Put(ctx, key, value, creation)
	}
	// azureblob's Writer panics if an upload fails; Upload does not (gocloud.dev 0.47.0).
	return s.bucket.Upload(ctx, key, bytes.NewReader(value), &blob.WriterOptions{
		ContentType: contentType, IfNotExist: creation != nil, Metadata: creation, BufferSize: len(value) + 1})
}

// Delete deletes an object.
func (s *Store) Delete(ctx context.Context, key string) error {
	err := check(ctx, key)
	if err == nil {
		err = s.bucket.Delete(ctx, key)
	}
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil
	}
	return s.wrap(ctx, "Delete", key, err)
}

// List lists objects.
func (s *Store) List(ctx context.Context, prefix string) ([]string, error) {
	keys, _, err := s.list(ctx, prefix, "")
	if err != nil {
		return nil, s.wrap(ctx, "List", prefix, err)
	}
	slices.Sort(keys)
	return keys, nil
}

// ListDir lists the objects and the prefixes of one level.
func (s *Store) ListDir(ctx context.Context, prefix string) (keys, prefixes []string, err error) {
	keys, prefixes, err = s.list(ctx, prefix, "/")
	if err != nil {
		return nil, nil, s.wrap(ctx, "ListDir", prefix, err)
	}
	for _, names := range [][]string{keys, prefixes} {
		for i, name := range names {
			name = strings.TrimSuffix(name, "/")
			names[i] = name[strings.LastIndexByte(name, '/')+1:]
		}
		slices.Sort(names)
	}
	return keys, prefixes, nil
}

func (s *Store) list(ctx context.Context, prefix, delimiter string) (keys, prefixes []string, err error) {
	if err := checkPrefix(ctx, prefix); err != nil {
		return nil, nil, err
	}
	if prefix != "" {
		prefix += "/"
	}
	options := &blob.ListOptions{Prefix: prefix, Delimiter: delimiter}
	for token := blob.FirstPageToken; len(token) > 0; {
		var objects []*blob.ListObject
		if objects, token, err = s.listPage(ctx, token, options); err != nil {
			return nil, nil, err
		}
		for _, object := range objects {
			if object.IsDir {
				prefixes = append(prefixes, object.Key)
			} else if store.CheckKey(object.Key) == nil { // tools make objects such as "a/" for folders
				keys = append(keys, object.Key)
			}
		}
	}
	return keys, prefixes, nil
}

// pageSize is the number of objects of a page. S3 and Cloud Storage list as many in a response;
// gocloud.dev asks servers that list less again until it has a page.
const pageSize = 1000

// listPage lists the objects after a token, and returns that of the next page, empty after the
// last. The client of S3 does not repeat a request whose response breaks off.
func (s *Store) listPage(ctx context.Context, token []byte, options *blob.ListOptions) (objects []*blob.ListObject, next []byte, err error) {
	for attempt := 1; ; attempt++ {
		objects, next, err = s.bucket.ListPage(ctx, token, pageSize, options)
		if !errors.Is(err, io.ErrUnexpectedEOF) || attempt == attempts || ctx.Err() != nil {
			return objects, next, err
		}
	}
}
