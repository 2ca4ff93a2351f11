// Package httpstore reads Zarr values over HTTP and HTTPS.
//
// The value of key "temp/c/0" is at the URL "LOCATION/temp/c/0". Any server of files will
// do; one that serves ranges and sends ETags is best. Programs that import the package,
// also for its side effect alone, open http and https URLs with store.Open. [New] takes
// options, such as headers with credentials.
//
// The store is read-only and cannot list, because HTTP has no request for it. Arrays and
// groups open and read. The members of a group are known if its metadata is consolidated.
//
// Ranges follow RFC 9110, section 14.
package httpstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quiver-gpu/quiver/zarr/store"
)

func init() {
	for _, scheme := range []string{"http", "https"} {
		store.Register(scheme, func(_ context.Context, u *url.URL) (store.Store, error) {
			return open(u, Options{})
		})
	}
}

// Options configure a [Store]. The zero value is the default.
type Options struct {
	// Client makes the requests. If it is nil, the store has a client of its own, which
	// waits at most 30 s for the header of a response. Redirects are the client's policy.
	Client *http.Client
	// Header is sent with each request, for example Authorization. A redirect to another
	// host gets it too, except for the fields that net/http withholds.
	Header http.Header
	// ForbiddenIsMissing treats status 403 as a missing value. Object stores send it for
	// missing keys to clients that may not list.
	ForbiddenIsMissing bool
	// Retries is how often a request that fails for a time is repeated. 0 is 4 times, a
	// negative number is never. A transfer that made progress starts to count again.
	Retries int
	// Backoff is the mean wait before the first repetition, 0 is 100 ms. It doubles each
	// time, up to 10 s. A server's Retry-After makes it longer, up to 30 s.
	Backoff time.Duration
}

// Store is a read-only store of the values below a URL. Use [New] or store.Open.
//
// The parts of one Get or GetRanges are of one version of a value, by its strong ETag,
// else its Last-Modified time, else its length. If it changes meanwhile, the error wraps
// store.ErrChanged.
type Store struct {
	base    url.URL // with credentials and query, which errors do not show
	name    string  // without them
	client  *http.Client
	owned   bool // whether client is the store's
	options Options
	ranges  atomic.Bool // whether the server has served a range
}

var (
	_ store.Sizer             = (*Store)(nil)
	_ store.RangesGetter      = (*Store)(nil)
	_ store.DirLister         = (*Store)(nil)
	_ store.PrefixDeleter     = (*Store)(nil)
	_ store.Creator           = (*Store)(nil)
	_ store.ConditionalSetter = (*Store)(nil)
	_ store.Mover             = (*Store)(nil)
)

// New returns the store of the values below a location, an http or https URL. Each request
// has the URL's user, password and query. New makes no request.
func New(location string, options Options) (*Store, error) {
	u, err := url.Parse(location)
	var malformed *url.Error
	if errors.As(err, &malformed) {
		err = malformed.Err // without the URL, which may have credentials
	}
	var s *Store
	if err == nil {
		s, err = open(u, options)
	}
	if err != nil {
		return nil, fmt.Errorf("httpstore.New: %w", err)
	}
	return s, nil
}

func open(u *url.URL, options Options) (*Store, error) {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("scheme %q, want http or https", u.Scheme)
	case u.Host == "":
		return nil, errors.New("a URL without a host")
	case u.Fragment != "":
		return nil, errors.New("a URL with a fragment")
	case options.Backoff < 0:
		return nil, fmt.Errorf("negative Backoff %v", options.Backoff)
	}
	s := &Store{base: *u, client: options.Client, options: options}
	s.options.Header = options.Header.Clone()
	s.base.RawPath = strings.TrimRight(u.EscapedPath(), "/")
	s.base.Path = strings.TrimRight(u.Path, "/")
	s.name = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: s.base.Path, RawPath: s.base.RawPath}).String()
	if s.options.Retries == 0 {
		s.options.Retries = 4
	}
	if s.options.Backoff == 0 {
		s.options.Backoff = 100 * time.Millisecond
	}
	if s.client == nil {
		transport := &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
			MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second,
			TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 30 * time.Second,
		}
		s.client, s.owned = &http.Client{Transport: transport}, true
	}
	return s, nil
}

// String returns the location without user, password and query.
func (s *Store) String() string { return s.name }

// Close closes idle connections, unless the client is that of the options.
func (s *Store) Close() error {
	if s.owned {
		s.client.CloseIdleConnections()
	}
	return nil
}

// url returns the URL of a value. Object stores take a plus sign for a space.
func (s *Store) url(key string) *url.URL {
	u := s.base
	u.Path += "/" + key
	segments := strings.Split(key, "/")
	for i, segment := range segments {
		segments[i] = strings.ReplaceAll(url.PathEscape(segment), "+", "%2B")
	}
	u.RawPath += "/" + strings.Join(segments, "/")
	return &u
}

// wrap names the method and the key of an error. The context's error goes first.
func (s *Store) wrap(ctx context.Context, method, key string, err error) error {
	if done := ctx.Err(); done != nil {
		err = done
	}
	return fmt.Errorf("store.%s: %s: key %q: %w", method, s.name, key, err)
}

// Get reads a value or a range of it.
func (s *Store) Get(ctx context.Context, key string, r store.Range) ([]byte, error) {
	value, err := s.get(ctx, key, r)
	if err != nil {
		return nil, s.wrap(ctx, "Get", key, err)
	}
	return value, nil
}

func (s *Store) get(ctx context.Context, key string, r store.Range) ([]byte, error) {
	t, err := s.transfer(ctx, key, r, &version{}, 0)
	if err != nil {
		return nil, err
	}
	return t.value, nil
}

// Size returns the length of a value. It reads the value if the server does not say.
func (s *Store) Size(ctx context.Context, key string) (int64, error) {
	if err := check(ctx, key); err != nil {
		return 0, s.wrap(ctx, "Size", key, err)
	}
	n, err := s.size(ctx, key, &version{})
	if err != nil {
		return 0, s.wrap(ctx, "Size", key, err)
	}
	return n, nil
}

// GetRanges reads several ranges of one version of a value. Nearby ones are one request.
func (s *Store) GetRanges(ctx context.Context, key string, ranges []store.Range) ([][]byte, error) {
	values, _, err := s.GetRangesVersion(ctx, key, ranges)
	return values, err
}

// GetRangesVersion is GetRanges, and returns the ETag. It returns none where the bytes of other
// versions may have it, too: if it is weak (RFC 9110, section 8.8.1), or if the value was modified
// less than two seconds before the response.
func (s *Store) GetRangesVersion(ctx context.Context, key string, ranges []store.Range) ([][]byte, string, error) {
	reader := &rangesReader{Store: s, store: s}
	values := make([][]byte, len(ranges))
	err := check(ctx, key)
	switch {
	case err != nil:
	case len(ranges) == 1: // no other range needs the rest of what a server without ranges sends
		values[0], err = reader.get(ctx, key, ranges[0], 0)
	default:
		values, err = store.GetRanges(ctx, reader, key, ranges)
	}
	if err != nil {
		return nil, "", s.wrap(ctx, "GetRanges", key, err)
	}
	return values, reader.version.strong(), nil
}

func check(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return store.CheckKey(key)
}

func (s *Store) refuse(ctx context.Context, method, key string, err error) error {
	if err == nil {
		err = store.ErrReadOnly
	}
	return s.wrap(ctx, method, key, err)
}

// Set returns an error wrapping store.ErrReadOnly.
func (s *Store) Set(ctx context.Context, key string, _ []byte) error {
	return s.refuse(ctx, "Set", key, store.CheckKey(key))
}

// SetIfNotExists returns an error wrapping store.ErrReadOnly.
func (s *Store) SetIfNotExists(ctx context.Context, key string, _ []byte) error {
	return s.refuse(ctx, "SetIfNotExists", key, store.CheckKey(key))
}

// Create returns an error wrapping store.ErrReadOnly.
func (s *Store) Create(ctx context.Context, key string) (store.Writer, error) {
	return nil, s.refuse(ctx, "Create", key, store.CheckKey(key))
}

// Delete returns an error wrapping store.ErrReadOnly.
func (s *Store) Delete(ctx context.Context, key string) error {
	return s.refuse(ctx, "Delete", key, store.CheckKey(key))
}

// DeleteAll returns an error wrapping store.ErrReadOnly.
func (s *Store) DeleteAll(ctx context.Context, prefix string) error {
	return s.refuse(ctx, "DeleteAll", prefix, store.CheckPrefix(prefix))
}

// Move returns an error wrapping store.ErrReadOnly.
func (s *Store) Move(ctx context.Context, from, to string) error {
	return s.refuse(ctx, "Move", from, errors.Join(store.CheckKey(from), store.CheckKey(to)))
}

// List returns an error wrapping errors.ErrUnsupported.
func (s *Store) List(ctx context.Context, prefix string) ([]string, error) {
	return nil, s.wrap(ctx, "List", prefix, cannotList(prefix))
}

// ListDir returns an error wrapping errors.ErrUnsupported.
func (s *Store) ListDir(ctx context.Context, prefix string) (keys, prefixes []string, err error) {
	return nil, nil, s.wrap(ctx, "ListDir", prefix, cannotList(prefix))
}

func cannotList(prefix string) error {
	if err := store.CheckPrefix(prefix); err != nil {
		return err
	}
	return fmt.Errorf("HTTP cannot list keys; consolidated metadata names the members of groups: %w", errors.ErrUnsupported)
}
