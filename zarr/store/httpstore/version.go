package httpstore

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/quiver-gpu/quiver/zarr/store"
)

// version is the version of a value that the first response of a read had. It is safe for
// concurrent use.
type version struct {
	mu       sync.Mutex
	known    bool
	etag     string
	modified string
	recent   bool  // modified just before the response, so that the ETag may not tell
	total    int64 // the length of the value, -1 if it is unknown
}

// require asks the server to refuse another version. The comparison of If-Match is strong,
// so that a weak ETag would never match.
func (v *version) require(req *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.etag != "" && !strings.HasPrefix(v.etag, "W/"):
		req.Header.Set("If-Match", v.etag)
	case v.modified != "":
		req.Header.Set("If-Unmodified-Since", v.modified)
	}
}

// strong returns the ETag if it differs whenever the bytes do, or an empty string. Some servers
// make it of the length and the time of modification, in seconds. So it does not count within
// two of them.
func (v *version) strong() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.recent || strings.HasPrefix(v.etag, "W/") {
		return ""
	}
	return v.etag
}

// isRecent reports whether a value was modified less than two seconds before a response, or at
// a time that cannot be told.
func isRecent(header http.Header) bool {
	modified, err := http.ParseTime(header.Get("Last-Modified"))
	if err != nil {
		return header.Get("Last-Modified") != "" // an ETag alone is not made of a time
	}
	date, err := http.ParseTime(header.Get("Date"))
	return err != nil || date.Sub(modified) < 2*time.Second
}

// check returns an error wrapping store.ErrChanged if a response has another version than
// the first. Caches on the way may ignore what require asks for.
func (v *version) check(resp *http.Response, total int64) error {
	etag, modified := resp.Header.Get("ETag"), resp.Header.Get("Last-Modified")
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.known {
		v.known, v.etag, v.modified, v.total = true, etag, modified, total
		v.recent = isRecent(resp.Header)
		return nil
	}
	differ := func(what string, was, is any) error {
		return permanent(fmt.Errorf("%s %v, was %v: %w", what, is, was, store.ErrChanged))
	}
	switch {
	case v.etag != etag:
		return differ("ETag", v.etag, etag)
	case v.etag == "" && v.modified != modified:
		return differ("Last-Modified", v.modified, modified)
	case v.total >= 0 && total >= 0 && v.total != total:
		return differ("length", v.total, total)
	}
	v.total = max(v.total, total)
	return nil
}

// identified reports whether a later response can be compared with the first.
func (v *version) identified() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.etag != "" || v.modified != ""
}

// value is one version of a value.
type value struct {
	reader rangesReader
	key    string
	size   int64
}

// OpenValue returns the present version of a value. If the server sends neither ETag nor
// Last-Modified, only another length is noticed.
func (s *Store) OpenValue(ctx context.Context, key string) (store.Value, error) {
	v := &value{reader: rangesReader{Store: s, store: s}, key: key}
	err := check(ctx, key)
	if err == nil {
		v.size, err = s.size(ctx, key, &v.reader.version)
	}
	if err != nil {
		return nil, s.wrap(ctx, "OpenValue", key, err)
	}
	return v, nil
}

func (v *value) Size() int64 { return v.size }

func (v *value) Version() string {
	version := &v.reader.version
	version.mu.Lock()
	defer version.mu.Unlock()
	if version.etag != "" {
		return version.etag
	}
	return version.modified
}

func (v *value) Read(ctx context.Context, r store.Range) ([]byte, error) {
	part, err := v.reader.Get(ctx, v.key, r)
	if err != nil {
		return nil, v.reader.store.wrap(ctx, "Value.Read", v.key, err)
	}
	return part, nil
}

// maxWhole is the longest value that is read whole, once, for several ranges of it, from a
// server that ignores ranges.
const maxWhole = 64 << 20

// rangesReader is the store that store.GetRanges reads several ranges of one value from.
type rangesReader struct {
	store.Store // without the GetRanges of *Store
	store       *Store
	version     version

	mu    sync.Mutex
	whole []byte // the value, if the server ignores ranges
	read  bool   // whether whole is it
}

// Get reads a range. Until the server is known to serve ranges, requests run one by one:
// after a whole value, no other is needed.
func (r *rangesReader) Get(ctx context.Context, key string, wanted store.Range) ([]byte, error) {
	if r.store.ranges.Load() {
		return r.get(ctx, key, wanted, 0)
	}
	r.mu.Lock()
	if r.store.ranges.Load() { // another request found out meanwhile
		r.mu.Unlock()
		return r.get(ctx, key, wanted, 0)
	}
	defer r.mu.Unlock()
	if r.read {
		return r.slice(wanted)
	}
	return r.get(ctx, key, wanted, maxWhole)
}

func (r *rangesReader) get(ctx context.Context, key string, wanted store.Range, wholeUpTo int64) ([]byte, error) {
	t, err := r.store.transfer(ctx, key, wanted, &r.version, wholeUpTo)
	if err != nil {
		return nil, err
	}
	if !t.ignored {
		return t.value, nil
	}
	r.whole, r.read = t.value, true
	return r.slice(wanted)
}

func (r *rangesReader) slice(wanted store.Range) ([]byte, error) {
	start, end, err := wanted.Resolve(int64(len(r.whole)))
	if err != nil {
		return nil, err
	}
	return r.whole[start:end:end], nil
}
