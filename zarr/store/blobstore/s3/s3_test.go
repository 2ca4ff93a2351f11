package s3_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/internal/s3test"
	"github.com/quiver-gpu/quiver/zarr/store"
	_ "github.com/quiver-gpu/quiver/zarr/store/blobstore/s3"
	"github.com/quiver-gpu/quiver/zarr/store/storetest"
	"golang.org/x/sync/errgroup"
)

// serve starts an S3 server whose requests go through faults, and returns the URL of an
// empty bucket.
func serve(t *testing.T, faults func(http.Handler) http.Handler) string {
	s3test.SetCredentials(t)
	return s3test.Serve(t, faults)("some/prefix")
}

func open(t *testing.T, location string) store.Store {
	s, err := store.Open(context.Background(), location)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close(s)) })
	return s
}

func TestS3(t *testing.T) {
	storetest.Test(t, func(t *testing.T) store.Store { return open(t, serve(t, nil)) }, storetest.Options{Versions: true})
}

// failures are what servers and networks do for a time.
var failures = map[string]func(next http.Handler, w http.ResponseWriter, r *http.Request){
	"503 Slow Down": func(_ http.Handler, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `<Error><Code>SlowDown</Code></Error>`)
	},
	"reset": func(_ http.Handler, _ http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) },
	"a lost response": func(next http.Handler, _ http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	},
	"half a response": func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		recorded := httptest.NewRecorder()
		next.ServeHTTP(recorded, r)
		if recorded.Body.Len() < 2 {
			panic(http.ErrAbortHandler)
		}
		for field, values := range recorded.Header() {
			w.Header()[field] = values
		}
		w.Header().Set("Content-Length", fmt.Sprint(recorded.Body.Len()))
		w.WriteHeader(recorded.Code)
		_, _ = w.Write(recorded.Body.Bytes()[:recorded.Body.Len()/2])
		panic(http.ErrAbortHandler)
	},
	"slow": func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		time.Sleep(50 * time.Millisecond)
		next.ServeHTTP(w, r)
	},
}

// every lets every n-th request to all servers fail.
func every(n int64, fail func(next http.Handler, w http.ResponseWriter, r *http.Request)) func(http.Handler) http.Handler {
	var calls atomic.Int64
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1)%n == 0 {
				fail(next, w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

func TestS3PassesTheConformanceSuiteUnderFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("retries wait for seconds")
	}
	s3test.SetCredentials(t)
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of the time is waiting
			faults := every(20, fail)
			storetest.Test(t, func(t *testing.T) store.Store { return open(t, s3test.Serve(t, faults)("some/prefix")) }, storetest.Options{Interrupted: true})
		})
	}
}

// everyThird lets the first of three requests of each method and path fail.
func everyThird(fail func(next http.Handler, w http.ResponseWriter, r *http.Request)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		var mu sync.Mutex
		calls := map[string]int{}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			n := calls[r.Method+r.URL.Path]
			calls[r.Method+r.URL.Path]++
			mu.Unlock()
			if n%3 == 0 {
				fail(next, w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// A transfer that goes on after it broke off would mix the versions.
func TestAValueThatIsReplacedWhileItsTransferBreaksIsNotMixed(t *testing.T) {
	ctx := context.Background()
	for name, etags := range map[string]bool{"ETags": true, "no ETags": false} {
		t.Run(name, func(t *testing.T) {
			var s store.Store
			var reads atomic.Int64
			value := func(b byte) []byte { return bytes.Repeat([]byte{b}, 1<<20) }
			s = open(t, serve(t, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method != http.MethodGet {
						next.ServeHTTP(w, r)
						return
					}
					recorded := httptest.NewRecorder()
					next.ServeHTTP(recorded, r)
					if !etags {
						recorded.Header().Del("ETag")
					}
					for field, values := range recorded.Header() {
						w.Header()[field] = values
					}
					w.WriteHeader(recorded.Code)
					if reads.Add(1) > 1 {
						_, _ = w.Write(recorded.Body.Bytes())
						return
					}
					_, _ = w.Write(recorded.Body.Bytes()[:1<<19])
					w.(http.Flusher).Flush()
					assert.NoError(t, s.Set(ctx, "k", value('b')))
					panic(http.ErrAbortHandler)
				})
			}))
			require.NoError(t, s.Set(ctx, "k", value('a')))
			got, err := s.Get(ctx, "k", store.Range{})
			require.NoError(t, err)
			assert.True(t, bytes.Equal(value('b'), got))
			assert.GreaterOrEqual(t, reads.Load(), int64(2))
		})
	}
}

func TestTemporaryFailuresAreRetried(t *testing.T) {
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			ctx, s := context.Background(), open(t, serve(t, everyThird(fail)))
			value := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
			for i := range 3 {
				key := fmt.Sprintf("c/%d", i)
				require.NoError(t, s.Set(ctx, key, value))
				got, err := s.Get(ctx, key, store.Range{})
				require.NoError(t, err)
				assert.True(t, bytes.Equal(value, got))
				got, err = s.Get(ctx, key, store.Last(3))
				require.NoError(t, err)
				assert.Equal(t, "def", string(got))
			}
			keys, err := s.List(ctx, "")
			require.NoError(t, err)
			assert.Equal(t, []string{"c/0", "c/1", "c/2"}, keys)
		})
	}
}

func TestPermanentFailuresAreErrors(t *testing.T) {
	s := open(t, serve(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	}))
	_, err := s.Get(context.Background(), "k", store.Range{})
	require.Error(t, err)
	assert.NotErrorIs(t, err, store.ErrNotFound)
	assert.ErrorContains(t, err, "s3://tests")
	assert.Error(t, s.Set(context.Background(), "k", nil))
}

func TestACancelledWriteLeavesNothing(t *testing.T) {
	var parts atomic.Int64
	s := open(t, serve(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("uploads") || r.URL.Query().Has("uploadId") {
				parts.Add(1)
			}
			if r.Method == http.MethodPut {
				_, _ = io.CopyN(io.Discard, r.Body, 1000)
				time.Sleep(time.Second) // longer than the client waits
				return
			}
			next.ServeHTTP(w, r)
		})
	}))
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	err := s.Set(ctx, "c/0", make([]byte, 40<<20))
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	keys, err := s.List(context.Background(), "")
	require.NoError(t, err)
	assert.Empty(t, keys)
	assert.Zero(t, parts.Load(), "no multipart upload was begun")
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	const together, times = 64, 4
	var mu sync.Mutex
	connections := map[string]bool{}
	var inside sync.WaitGroup
	waiting := 0 // requests for which the others of the round wait
	s := open(t, serve(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			connections[r.RemoteAddr] = true
			if waiting > 0 { // no request that is repeated
				waiting--
				inside.Done()
			}
			mu.Unlock()
			inside.Wait() // all are open at the same time
			next.ServeHTTP(w, r)
		})
	}))
	for range times {
		mu.Lock()
		waiting = together
		inside.Add(together)
		mu.Unlock()
		var all sync.WaitGroup
		for i := range together {
			all.Go(func() { assert.NoError(t, s.Set(context.Background(), fmt.Sprint(i), []byte("value"))) })
		}
		all.Wait()
	}
	// A connection may be returned after the next request has begun.
	assert.Less(t, len(connections), 2*together)
}

// Objects that were written without a checksum are read without a line in a log for each.
func TestReadingObjectsWithoutChecksumsIsQuiet(t *testing.T) {
	s3test.SetCredentials(t)
	location := s3test.Serve(t, nil)("")
	u, err := url.Parse(location)
	require.NoError(t, err)
	put, err := http.NewRequestWithContext(t.Context(), http.MethodPut, u.Query().Get("endpoint")+"/tests/k", strings.NewReader("value"))
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(put)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)

	before := os.Stderr
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	os.Stderr = log // where the client logs
	defer func() { os.Stderr = before }()
	value, err := open(t, location).Get(t.Context(), "k", store.Range{})
	os.Stderr = before
	require.NoError(t, err)
	assert.Equal(t, "value", string(value))
	require.NoError(t, log.Close())
	logged, err := os.ReadFile(log.Name())
	require.NoError(t, err)
	assert.Empty(t, string(logged))
}

func TestObjectsAreEncryptedAsTheURLSays(t *testing.T) {
	var mu sync.Mutex
	var methods, keys []string
	location := serve(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut {
				mu.Lock()
				methods, keys = append(methods, r.Header.Get("X-Amz-Server-Side-Encryption")), append(keys, r.Header.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"))
				mu.Unlock()
			}
			next.ServeHTTP(w, r)
		})
	})
	for _, query := range []string{"", "&ssetype=aes256", "&ssetype=aws:kms&kmskeyid=some-key"} {
		require.NoError(t, open(t, location+query).Set(t.Context(), "k", []byte("value")))
	}
	require.NoError(t, store.SetIfNotExists(t.Context(), open(t, location+"&ssetype=AES256"), "other", []byte("value")))
	assert.Equal(t, []string{"", "AES256", "aws:kms", "AES256"}, methods)
	assert.Equal(t, []string{"", "", "some-key", ""}, keys)
	_, err := store.Open(t.Context(), location+"&ssetype=none")
	assert.ErrorContains(t, err, "ssetype")
}

func TestListsOfManyPagesThatBreakOffAreComplete(t *testing.T) {
	if testing.Short() {
		t.Skip("stores thousands of objects")
	}
	var lists atomic.Int64
	s := open(t, serve(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("list-type") && lists.Add(1)%2 == 1 {
				failures["half a response"](next, w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	}))
	const n = 2500
	want := make([]string, n)
	var group errgroup.Group
	group.SetLimit(8)
	for i := range want {
		want[i] = fmt.Sprintf("a/%04d", i)
		group.Go(func() error { return s.Set(context.Background(), want[i], []byte("value")) })
	}
	require.NoError(t, group.Wait())
	keys, err := s.List(context.Background(), "")
	require.NoError(t, err)
	assert.Equal(t, want, keys)
	keys, prefixes, err := store.ListDir(context.Background(), s, "a")
	require.NoError(t, err)
	assert.Len(t, keys, n)
	assert.Empty(t, prefixes)
	assert.EqualValues(t, 12, lists.Load(), "each of three pages, twice, in two lists")
}

func TestRangesOfTwoVersionsHaveNone(t *testing.T) {
	ctx := context.Background()
	var s store.Store
	var reads atomic.Int64
	s = open(t, serve(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && reads.Add(1) == 2 {
				assert.NoError(t, s.Set(ctx, "k", bytes.Repeat([]byte("b"), 8<<20)))
			}
			next.ServeHTTP(w, r)
		})
	}))
	require.NoError(t, s.Set(ctx, "k", bytes.Repeat([]byte("a"), 8<<20)))
	ranges := []store.Range{store.Between(0, 1), store.Between(4<<20, 4<<20+1)} // too far apart for one request
	_, version, err := store.GetRangesVersion(ctx, s, "k", ranges)
	require.NoError(t, err)
	assert.Empty(t, version, "one request saw the object before it was replaced, one after")
	_, version, err = store.GetRangesVersion(ctx, s, "k", ranges)
	require.NoError(t, err)
	assert.NotEmpty(t, version)
}
