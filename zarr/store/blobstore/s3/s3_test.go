package s3_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/quiver-gpu/quiver/zarr/store"
	_ "github.com/quiver-gpu/quiver/zarr/store/blobstore/s3"
	"github.com/quiver-gpu/quiver/zarr/store/storetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// serve starts an S3 server whose requests go through faults, and returns the URL of an
// empty bucket.
func serve(t *testing.T, faults func(http.Handler) http.Handler) string {
	backend := s3mem.New()
	require.NoError(t, backend.CreateBucket("tests"))
	handler := gofakes3.New(backend).Server()
	if faults != nil {
		handler = faults(handler)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	return "s3://tests/some/prefix?region=us-east-1&use_path_style=true&disable_https=true&endpoint=" + server.URL
}

func open(t *testing.T, location string) store.Store {
	s, err := store.Open(context.Background(), location)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close(s)) })
	return s
}

func TestS3(t *testing.T) {
	storetest.Test(t, func(t *testing.T) store.Store { return open(t, serve(t, nil)) }, storetest.Options{})
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

func TestTemporaryFailuresAreRetried(t *testing.T) {
	for name, fail := range map[string]func(next http.Handler, w http.ResponseWriter, r *http.Request){
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
			w.Header().Set("Content-Length", fmt.Sprint(recorded.Body.Len()))
			w.WriteHeader(recorded.Code)
			_, _ = w.Write(recorded.Body.Bytes()[:recorded.Body.Len()/2])
			panic(http.ErrAbortHandler)
		},
	} {
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
