package httpstore_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/quiver-gpu/quiver/zarr/store/httpstore"
	"github.com/quiver-gpu/quiver/zarr/store/storetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func ctx() context.Context { return context.Background() }

// files serves the values of a store below /data, as a server of files does: with ranges
// and ETags.
func files(s store.Store) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, below := strings.CutPrefix(r.URL.Path, "/data/")
		value, err := s.Get(r.Context(), key, store.Range{})
		if !below || err != nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256(value)))
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(value))
	})
}

// serve starts a server and opens the store of its /data.
func serve(t *testing.T, handler http.Handler, options httpstore.Options) *httpstore.Store {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	if options.Backoff == 0 {
		options.Backoff = time.Millisecond
	}
	s, err := httpstore.New(server.URL+"/data", options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// readOver reads over HTTP, and writes to the store that the server serves.
type readOver struct {
	*httpstore.Store
	to store.Store
}

func (s readOver) Set(ctx context.Context, key string, value []byte) error {
	return s.to.Set(ctx, key, value)
}
func (s readOver) Delete(ctx context.Context, key string) error { return s.to.Delete(ctx, key) }
func (s readOver) List(ctx context.Context, prefix string) ([]string, error) {
	return s.to.List(ctx, prefix)
}
func (s readOver) ListDir(ctx context.Context, prefix string) (keys, prefixes []string, err error) {
	return store.ListDir(ctx, s.to, prefix)
}
func (s readOver) DeleteAll(ctx context.Context, prefix string) error {
	return store.DeleteAll(ctx, s.to, prefix)
}
func (s readOver) Create(ctx context.Context, key string) (store.Writer, error) {
	return store.Create(ctx, s.to, key)
}
func (s readOver) SetIfNotExists(ctx context.Context, key string, value []byte) error {
	return store.SetIfNotExists(ctx, s.to, key, value)
}
func (s readOver) Move(ctx context.Context, from, to string) error {
	return store.Move(ctx, s.to, from, to)
}

// servers are kinds of servers, by what they do with a request of a server of files.
var servers = map[string]func(http.Handler) http.Handler{
	"net/http": func(h http.Handler) http.Handler { return h },
	"no ranges": edit(func(w *recorded, r *http.Request) {
		r.Header.Del("Range")
	}, nil),
	"no ranges and no lengths": edit(func(_ *recorded, r *http.Request) { r.Header.Del("Range") }, func(w *recorded, _ *http.Request) {
		w.chunked = true
	}),
	"no HEAD": func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodHead {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			h.ServeHTTP(w, r)
		})
	},
	"no ETag": edit(nil, func(w *recorded, _ *http.Request) { w.Header().Del("ETag") }),
	"weak ETag": edit(nil, func(w *recorded, _ *http.Request) {
		w.Header().Set("ETag", "W/"+w.Header().Get("ETag"))
	}),
	"416 without a length": edit(nil, func(w *recorded, _ *http.Request) {
		if w.Code == http.StatusRequestedRangeNotSatisfiable {
			w.Header().Del("Content-Range")
		}
	}),
	"416 for long suffixes": func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var n int
			if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=-%d", &n); err == nil {
				whole := httptest.NewRecorder()
				plain := r.Clone(r.Context())
				plain.Header.Del("Range")
				h.ServeHTTP(whole, plain)
				if whole.Code == http.StatusOK && n > whole.Body.Len() {
					w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
					return
				}
			}
			h.ServeHTTP(w, r)
		})
	},
	"lengths unknown in ranges":       edit(nil, hideLength),
	"at most 100 kB":                  edit(limit, nil),
	"at most 100 kB, lengths unknown": edit(limit, hideLength),
	"suffixes in parts": edit(nil, func(w *recorded, r *http.Request) {
		var first, last, total int
		n, _ := fmt.Sscanf(w.Header().Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &total)
		if n == 3 && last > first && strings.HasPrefix(r.Header.Get("Range"), "bytes=-") {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, first, total))
			w.Header().Set("Content-Length", "1")
			w.Body.Truncate(1)
		}
	}),
}

// limit makes a range shorter.
func limit(_ *recorded, r *http.Request) {
	var from, to int
	if n, _ := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to); from >= 0 && (n == 2 && to-from >= 100_000 || n == 1) {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", from, from+99_999))
	}
}

// hideLength removes the length of a value that is not empty from a Content-Range.
func hideLength(w *recorded, _ *http.Request) {
	if bounds, total, _ := strings.Cut(w.Header().Get("Content-Range"), "/"); total > "0" && w.Code == http.StatusPartialContent {
		w.Header().Set("Content-Range", bounds+"/*")
	}
}

// recorded is a response that may be changed before it is sent.
type recorded struct {
	*httptest.ResponseRecorder
	chunked bool
}

func edit(before, after func(*recorded, *http.Request)) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			response := &recorded{ResponseRecorder: httptest.NewRecorder()}
			if before != nil {
				before(response, r)
			}
			h.ServeHTTP(response, r)
			if after != nil {
				after(response, r)
			}
			for field, values := range response.Header() {
				w.Header()[field] = values
			}
			if response.chunked {
				w.Header().Del("Content-Length")
			}
			w.WriteHeader(response.Code)
			if response.chunked {
				w.(http.Flusher).Flush()
			}
			_, _ = w.Write(response.Body.Bytes())
		})
	}
}

func TestHTTPStorePassesTheConformanceSuite(t *testing.T) {
	for name, kind := range servers {
		t.Run(name, func(t *testing.T) {
			storetest.Test(t, func(t *testing.T) store.Store {
				inner := store.NewMemory()
				return readOver{serve(t, kind(files(inner)), httpstore.Options{}), inner}
			}, storetest.Options{})
		})
	}
}

func TestHTTPStoreIsReadOnlyAndCannotList(t *testing.T) {
	values := map[string]string{"zarr.json": "{}", "a/c/0": "0123456789", "a/c/1": "", "a/b+c d": "plus", "a%2fb/+?#&=~é": "odd"}
	inner := store.NewMemory()
	for key, value := range values {
		require.NoError(t, inner.Set(ctx(), key, []byte(value)))
	}
	for name, kind := range servers {
		t.Run(name, func(t *testing.T) {
			storetest.TestReadOnly(t, values, func(t *testing.T) store.Store {
				return serve(t, kind(files(inner)), httpstore.Options{})
			}, false)
		})
	}
	s := serve(t, files(inner), httpstore.Options{})
	assert.ErrorIs(t, store.Move(ctx(), s, "a", "b"), store.ErrReadOnly)
	assert.ErrorIs(t, store.DeleteAll(ctx(), s, "a"), store.ErrReadOnly)
	_, err := store.Create(ctx(), s, "a")
	assert.ErrorIs(t, err, store.ErrReadOnly)
	_, err = s.List(ctx(), "a")
	assert.ErrorIs(t, err, errors.ErrUnsupported)
	assert.ErrorContains(t, err, "HTTP cannot list keys")
	_, _, err = store.ListDir(ctx(), s, "")
	assert.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = store.TotalSize(ctx(), s, "")
	assert.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = s.List(ctx(), "a//b")
	assert.ErrorIs(t, err, store.ErrInvalidKey)
}

func TestRequestsAreEscapedAndPlain(t *testing.T) {
	var got []string
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		got = append(got, r.RequestURI, r.Header.Get("Accept-Encoding"), r.Header.Get("X-Key"), user+password)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader("x"))
	}), httpstore.Options{})
	location := strings.Replace(s.String(), "http://", "http://me:pw@", 1)
	s, err := httpstore.New(location+"/a%2Fb+c/?token=t%2Bs", httpstore.Options{Header: http.Header{"x-key": {"v"}}})
	require.NoError(t, err)
	_, err = s.Get(ctx(), "d+e f/ü%?#", store.Range{})
	require.NoError(t, err)
	assert.Equal(t, []string{"/data/a%2Fb+c/d%2Be%20f/%C3%BC%25%3F%23?token=t%2Bs", "identity", "v", "mepw"}, got)
}

func TestErrorsShowNoCredentials(t *testing.T) {
	s := serve(t, http.NotFoundHandler(), httpstore.Options{})
	host := strings.TrimPrefix(s.String(), "http://")
	refusing := httptest.NewServer(http.NotFoundHandler())
	refusing.Close()
	for _, location := range []string{
		"http://me:secret@" + host + "?token=secret",
		"http://me:secret@" + strings.TrimPrefix(refusing.URL, "http://") + "/?token=secret",
		"http://me:secret@[::1/?token=secret", "http://me:secret@/a?token=secret", "https://me:secret@host/a#secret",
	} {
		opened, err := store.Open(ctx(), location)
		if err == nil {
			_, err = store.Size(ctx(), opened, "k")
			require.Error(t, err)
			assert.NotContains(t, err.Error(), "secret")
			_, err = opened.Get(ctx(), "k", store.Last(3))
			assert.NotContains(t, fmt.Sprint(opened), "secret")
		}
		require.Error(t, err, location)
		assert.NotContains(t, err.Error(), "secret")
		_, err = httpstore.New(location, httpstore.Options{})
		assert.NotContains(t, fmt.Sprint(err), "secret")
	}
	redirecting := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/data/k?token=secret", http.StatusFound)
	}), httpstore.Options{})
	_, err := redirecting.Get(ctx(), "k", store.Range{})
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "secret")
}

func TestMalformedLocationsAndOptionsAreErrors(t *testing.T) {
	for location, want := range map[string]string{
		"ftp://host/a": "want http or https", "http:///a": "without a host", "http://host/#a": "fragment", "http://host:port/": "port", "": "scheme",
	} {
		_, err := httpstore.New(location, httpstore.Options{})
		assert.ErrorContains(t, err, want, location)
	}
	_, err := httpstore.New("http://host", httpstore.Options{Backoff: -1})
	assert.ErrorContains(t, err, "negative Backoff")
}

func TestForbiddenIsMissingOnRequest(t *testing.T) {
	forbidden := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	_, err := serve(t, forbidden, httpstore.Options{}).Get(ctx(), "k", store.Range{})
	assert.ErrorIs(t, err, fs.ErrPermission)
	assert.NotErrorIs(t, err, store.ErrNotFound)
	_, err = serve(t, forbidden, httpstore.Options{ForbiddenIsMissing: true}).Get(ctx(), "k", store.Range{})
	assert.ErrorIs(t, err, store.ErrNotFound)
}

// changing serves a value that is replaced after n requests.
type changing struct {
	mu       sync.Mutex
	requests int
	after    int
	values   [2]string
	identify func(w http.ResponseWriter, version int) time.Time
	ignore   bool // preconditions
}

func (c *changing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	version := 0
	if c.requests >= c.after {
		version = 1
	}
	c.requests++
	c.mu.Unlock()
	if c.ignore {
		r.Header.Del("If-Match")
		r.Header.Del("If-Unmodified-Since")
	}
	http.ServeContent(w, r, "", c.identify(w, version), strings.NewReader(c.values[version]))
}

func TestAValueThatChangesWhileItIsReadIsErrChanged(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 3<<16)
	etag := func(w http.ResponseWriter, version int) time.Time {
		w.Header().Set("ETag", fmt.Sprintf(`"v%d"`, version))
		return time.Time{}
	}
	weak := func(w http.ResponseWriter, version int) time.Time {
		w.Header().Set("ETag", fmt.Sprintf(`W/"v%d"`, version))
		return time.Time{}
	}
	modified := func(_ http.ResponseWriter, version int) time.Time { return time.Unix(1e9+int64(version), 0) }
	nothing := func(http.ResponseWriter, int) time.Time { return time.Time{} }
	ranges := []store.Range{store.Between(0, 10), store.Between(2<<20, 2<<20+10), store.Last(5)}
	for name, c := range map[string]*changing{
		"ETag":                             {values: [2]string{long, strings.ToUpper(long)}, identify: etag},
		"ETag and ignored preconditions":   {values: [2]string{long, strings.ToUpper(long)}, identify: etag, ignore: true},
		"weak ETag":                        {values: [2]string{long, strings.ToUpper(long)}, identify: weak, ignore: true},
		"Last-Modified":                    {values: [2]string{long, strings.ToUpper(long)}, identify: modified},
		"Last-Modified and ignored":        {values: [2]string{long, strings.ToUpper(long)}, identify: modified, ignore: true},
		"another length, nothing else":     {values: [2]string{long, long + "x"}, identify: nothing},
		"ETag and a value that is shorter": {values: [2]string{long, "short"}, identify: etag},
	} {
		t.Run(name, func(t *testing.T) {
			for after := 1; after < 3; after++ {
				server := &changing{after: after, values: c.values, identify: c.identify, ignore: c.ignore}
				s := serve(t, server, httpstore.Options{})
				_, err := s.GetRanges(ctx(), "k", ranges)
				require.ErrorIs(t, err, store.ErrChanged)
				got, err := s.GetRanges(ctx(), "k", ranges)
				require.NoError(t, err, "reading again gets the new value")
				for i, r := range ranges {
					start, end, err := r.Resolve(int64(len(c.values[1])))
					require.NoError(t, err)
					assert.Equal(t, c.values[1][start:end], string(got[i]), r)
				}
			}
		})
	}
}

func TestNearbyRangesAreOneRequest(t *testing.T) {
	inner := store.NewMemory()
	require.NoError(t, inner.Set(ctx(), "k", make([]byte, 5<<20)))
	var requests []string
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.Header.Get("Range"))
		files(inner).ServeHTTP(w, r)
	}), httpstore.Options{})
	_, err := store.GetRanges(ctx(), s, "k", []store.Range{store.Between(20, 30), store.Between(0, 10), store.Between(4<<20, 4<<20+1)})
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"bytes=0-29", "bytes=4194304-4194304"}, requests)
}

func TestAServerWithoutRangesSendsNoMoreThanNeeded(t *testing.T) {
	value := bytes.Repeat([]byte("0123456789abcdef"), 1<<20) // 16 MiB
	var mu sync.Mutex
	requests, sent := 0, 0
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		requests++
		mu.Unlock()
		w.Header().Set("Content-Length", fmt.Sprint(len(value)))
		for off := 0; off < len(value); off += 1 << 16 {
			n, err := w.Write(value[off : off+1<<16])
			mu.Lock()
			sent += n
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}), httpstore.Options{})
	for _, get := range []func(r store.Range) ([]byte, error){
		func(r store.Range) ([]byte, error) { return s.Get(ctx(), "k", r) },
		func(r store.Range) ([]byte, error) {
			values, err := s.GetRanges(ctx(), "k", []store.Range{r})
			return bytes.Join(values, nil), err
		},
	} {
		got, err := get(store.Between(16, 26))
		require.NoError(t, err)
		assert.Equal(t, "0123456789", string(got))
		assert.Equal(t, 1, requests)
		mu.Lock()
		assert.Less(t, sent, len(value), "the rest is not read")
		requests, sent = 0, 0
		mu.Unlock()
	}
	ranges := []store.Range{store.Last(3), store.Between(1, 3), store.Between(9<<20, 9<<20+2), store.From(16<<20 - 1)}
	many, err := s.GetRanges(ctx(), "k", ranges)
	require.NoError(t, err)
	assert.Equal(t, "def 12 01 f", fmt.Sprintf("%s %s %s %s", many[0], many[1], many[2], many[3]))
	assert.Equal(t, 1, requests, "the value is read whole, once")
}

func TestCompressedResponsesAreErrors(t *testing.T) {
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write([]byte("?"))
	}), httpstore.Options{})
	_, err := s.Get(ctx(), "k", store.Range{})
	assert.ErrorContains(t, err, `content encoding "gzip"`)
}

func TestGroupsAndArraysOpenAndReadOverHTTP(t *testing.T) {
	for _, format := range []int{2, 3} {
		t.Run(fmt.Sprint("Zarr v", format), func(t *testing.T) {
			inner := store.NewMemory()
			root, err := zarr.CreateGroup(ctx(), inner, "h.zarr", &zarr.GroupMetadata{Format: format})
			require.NoError(t, err)
			meta := &zarr.ArrayMetadata{Shape: []int64{10}, DataType: element.Of(ndview.Int32), ChunkShape: []int64{4}}
			if format == 3 { // the index of a shard is a suffix, its chunks are ranges
				meta.Codecs = codec.List{codec.Sharding{ChunkShape: []int64{2}, Codecs: zarr.DefaultCodecs(meta.DataType)}}
			}
			written, err := root.CreateArray(ctx(), "sub/a", meta)
			require.NoError(t, err)
			numbers := []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
			in, err := ndview.FromHost(arrowbuf.CPU(), ndview.Int32, numbers, 10)
			require.NoError(t, err)
			defer in.Release()
			require.NoError(t, written.Write(ctx(), in, 0))
			s := serve(t, files(inner), httpstore.Options{})
			a, err := zarr.Open(ctx(), s, "h.zarr/sub/a")
			require.NoError(t, err)
			for _, rows := range [][2]int64{{0, 10}, {3, 9}} {
				out, err := a.ReadRows(ctx(), zarr.Prototype{}, rows[0], rows[1], 0)
				require.NoError(t, err)
				got, err := ndview.ToHost[int32](out.(*ndview.NDBuffer))
				require.NoError(t, err)
				assert.Equal(t, numbers[rows[0]:rows[1]], got)
				out.Release()
			}
			_, err = a.Info(ctx())
			assert.ErrorIs(t, err, errors.ErrUnsupported)
			group, err := zarr.OpenGroup(ctx(), s, "h.zarr")
			require.NoError(t, err)
			_, err = group.Children(ctx())
			assert.ErrorIs(t, err, errors.ErrUnsupported)
			assert.ErrorContains(t, err, "consolidated metadata")
			a, err = group.OpenArray(ctx(), "sub/a")
			require.NoError(t, err)
			assert.Equal(t, []int64{10}, a.Shape())
			require.NoError(t, root.Consolidate(ctx()))
			group, err = zarr.OpenGroup(ctx(), s, "h.zarr")
			require.NoError(t, err)
			children, err := group.Children(ctx())
			require.NoError(t, err)
			require.Len(t, children, 1)
			assert.Equal(t, "sub", children[0].Name)
		})
	}
}

// Bytes of other versions may have a weak ETag, and one of a time in seconds.
func TestOnlyETagsThatTellVersionsApartAreVersions(t *testing.T) {
	now := time.Now().UTC()
	for name, c := range map[string]struct {
		etag     string
		modified time.Time
		version  string
	}{
		"strong":                 {`"a"`, now.Add(-time.Hour), `"a"`},
		"of an unknown time":     {`"a"`, time.Time{}, `"a"`},
		"weak":                   {`W/"a"`, now.Add(-time.Hour), ""},
		"modified a moment ago":  {`"a"`, now, ""},
		"no ETag":                {"", now.Add(-time.Hour), ""},
		"modified in the future": {`"a"`, now.Add(time.Hour), ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if c.etag != "" {
					w.Header().Set("ETag", c.etag)
				}
				http.ServeContent(w, r, "k", c.modified, strings.NewReader("0123456789"))
			}), httpstore.Options{})
			for _, ranges := range [][]store.Range{{store.Last(3)}, {store.Between(1, 2), store.Between(4, 6)}} {
				_, version, err := store.GetRangesVersion(ctx(), s, "k", ranges)
				require.NoError(t, err)
				assert.Equal(t, c.version, version)
			}
		})
	}
}
