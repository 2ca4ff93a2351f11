package httpstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/quiver-gpu/quiver/zarr/store/httpstore"
	"github.com/quiver-gpu/quiver/zarr/store/storetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fault handles a request wrongly. good handles it well.
type fault func(good http.Handler, w http.ResponseWriter, r *http.Request)

func status(code int, header ...string) fault {
	return func(_ http.Handler, w http.ResponseWriter, _ *http.Request) {
		if header != nil {
			w.Header().Set(header[0], header[1])
		}
		w.WriteHeader(code)
	}
}

// half sends the header and half of the body, then ends as end does.
func half(end func(http.ResponseWriter, *http.Request)) fault {
	return func(good http.Handler, w http.ResponseWriter, r *http.Request) {
		whole := httptest.NewRecorder()
		good.ServeHTTP(whole, r)
		for field, values := range whole.Header() {
			w.Header()[field] = values
		}
		w.WriteHeader(whole.Code)
		_, _ = w.Write(whole.Body.Bytes()[:whole.Body.Len()/2])
		end(w, r)
	}
}

func reset(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// faults are what servers and networks do for a time.
var faults = map[string]fault{
	"429":                     status(http.StatusTooManyRequests),
	"500":                     status(http.StatusInternalServerError),
	"502":                     status(http.StatusBadGateway),
	"503":                     status(http.StatusServiceUnavailable),
	"503 with Retry-After":    status(http.StatusServiceUnavailable, "Retry-After", "0"),
	"504":                     status(http.StatusGatewayTimeout),
	"reset before the header": func(http.Handler, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	"reset in the body":       half(func(w http.ResponseWriter, r *http.Request) { w.(http.Flusher).Flush(); reset(w, r) }),
	"body ends early":         half(func(http.ResponseWriter, *http.Request) {}),
	"a lost response": func(good http.Handler, _ http.ResponseWriter, r *http.Request) {
		good.ServeHTTP(httptest.NewRecorder(), r)
		reset(nil, nil)
	},
	"hangs, then the body ends": half(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		time.Sleep(20 * time.Millisecond)
		reset(w, r)
	}),
}

// first lets the first n requests of each method and path fail.
func first(n int, f fault, good http.Handler) http.Handler {
	var mu sync.Mutex
	calls := map[string]int{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		calls[r.Method+r.URL.Path]++
		fails := calls[r.Method+r.URL.Path] <= n
		mu.Unlock()
		if fails {
			f(good, w, r)
			return
		}
		good.ServeHTTP(w, r)
	})
}

func TestFaultsForATimeAreRetried(t *testing.T) {
	value := bytes.Repeat([]byte("0123456789abcdef"), 1<<17) // 2 MiB
	inner := store.NewMemory()
	for i := range 5 {
		require.NoError(t, inner.Set(ctx(), fmt.Sprint("c/", i), value))
	}
	for name, f := range faults {
		for kind, server := range servers {
			if testing.Short() && kind != "net/http" {
				continue
			}
			if name == "body ends early" && kind == "no ranges and no lengths" {
				continue // no client can see that such a body ended early
			}
			t.Run(name+"/"+kind, func(t *testing.T) {
				s := serve(t, first(2, f, server(files(inner))), httpstore.Options{})
				got, err := s.Get(ctx(), "c/0", store.Range{})
				require.NoError(t, err)
				assert.True(t, bytes.Equal(value, got))
				got, err = s.Get(ctx(), "c/1", store.Last(3))
				require.NoError(t, err)
				assert.Equal(t, "def", string(got))
				got, err = s.Get(ctx(), "c/2", store.Between(17, 1<<20))
				require.NoError(t, err)
				assert.True(t, bytes.Equal(value[17:1<<20], got))
				n, err := s.Size(ctx(), "c/3")
				require.NoError(t, err)
				assert.EqualValues(t, len(value), n)
				many, err := s.GetRanges(ctx(), "c/4", []store.Range{store.Between(0, 2), store.Between(3<<19, 3<<19+2), store.Last(1)})
				require.NoError(t, err)
				assert.Equal(t, "01 01 f", string(bytes.Join(many, []byte(" "))))
			})
		}
	}
}

func TestHTTPStorePassesTheConformanceSuiteUnderFaults(t *testing.T) {
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			storetest.Test(t, func(t *testing.T) store.Store {
				inner := store.NewMemory()
				good := files(inner)
				return readOver{serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if calls.Add(1)%3 == 0 {
						f(good, w, r)
						return
					}
					good.ServeHTTP(w, r)
				}), httpstore.Options{Retries: 20}), inner}
			}, storetest.Options{Interrupted: true})
		})
	}
}

// A transfer that breaks off goes on from there, as often as it makes progress.
func TestBrokenTransfersAreResumed(t *testing.T) {
	value := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
	inner := store.NewMemory()
	require.NoError(t, inner.Set(ctx(), "k", value))
	var sent atomic.Int64
	good := files(inner)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		whole := httptest.NewRecorder()
		good.ServeHTTP(whole, r)
		for field, values := range whole.Header() {
			w.Header()[field] = values
		}
		w.WriteHeader(whole.Code)
		part := whole.Body.Bytes()[:min(whole.Body.Len(), 100_000)]
		sent.Add(int64(len(part)))
		_, _ = w.Write(part)
	})
	s := serve(t, handler, httpstore.Options{Retries: 1})
	got, err := s.Get(ctx(), "k", store.Range{})
	require.NoError(t, err)
	assert.True(t, bytes.Equal(value, got))
	assert.EqualValues(t, len(value), sent.Load(), "no byte is sent twice")
}

func TestFaultsThatStayAreErrors(t *testing.T) {
	var requests atomic.Int64
	for name, f := range faults {
		for _, retries := range []int{-1, 2} {
			t.Run(fmt.Sprint(name, retries), func(t *testing.T) {
				requests.Store(0)
				inner := store.NewMemory()
				require.NoError(t, inner.Set(ctx(), "k", []byte("0")))
				s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					requests.Add(1)
					f(files(inner), w, r)
				}), httpstore.Options{Retries: retries})
				_, err := s.Get(ctx(), "k", store.Range{})
				require.Error(t, err)
				assert.NotErrorIs(t, err, store.ErrNotFound)
				assert.ErrorContains(t, err, `key "k"`)
				assert.EqualValues(t, max(retries, 0)+1, requests.Load())
			})
		}
	}
}

func TestPermanentFailuresAreNotRetried(t *testing.T) {
	for _, code := range []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusGone, http.StatusTeapot, http.StatusNoContent, http.StatusNotImplemented} {
		var requests atomic.Int64
		s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			requests.Add(1)
			w.WriteHeader(code)
		}), httpstore.Options{})
		_, err := s.Get(ctx(), "k", store.Range{})
		require.Error(t, err)
		assert.Equal(t, code == http.StatusNotFound || code == http.StatusGone, errors.Is(err, store.ErrNotFound), code)
		assert.EqualValues(t, 1, requests.Load(), code)
	}
}

// A response that contradicts the request or itself is an error, not wrong bytes.
func TestMalformedResponsesAreErrors(t *testing.T) {
	for name, c := range map[string]struct {
		contentRange string
		body         int
	}{
		"no Content-Range":             {"", 10},
		"no unit":                      {"10-19/100", 10},
		"another unit":                 {"items 10-19/100", 10},
		"begins later":                 {"bytes 11-19/100", 9},
		"ends before it begins":        {"bytes 10-5/100", 0},
		"beyond the total":             {"bytes 10-19/15", 10},
		"empty":                        {"bytes 10-9/100", 0},
		"earlier bytes alone":          {"bytes 0-9/100", 10},
		"negative":                     {"bytes -1-9/100", 10},
		"overflow":                     {"bytes 10-9223372036854775807/*", 10},
		"larger than any number":       {"bytes 10-99999999999999999999/*", 10},
		"multipart, without the field": {"multipart/byteranges", 10},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Range", c.contentRange)
				w.WriteHeader(http.StatusPartialContent)
				_, _ = w.Write(make([]byte, c.body))
			}), httpstore.Options{})
			_, err := s.Get(ctx(), "k", store.Between(10, 20))
			require.Error(t, err)
			assert.ErrorContains(t, err, "content range")
			_, err = s.Get(ctx(), "k", store.Range{})
			assert.ErrorContains(t, err, "unexpected status", "a part was not asked for")
		})
	}
	liar := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Range", "bytes 0-4611686018427387903/4611686018427387904")
		w.WriteHeader(http.StatusPartialContent)
		_, _ = io.WriteString(w, "few")
	}), httpstore.Options{Retries: -1})
	_, err := liar.Get(ctx(), "k", store.Between(0, 1<<62))
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF, "no memory is allocated for a claim")
}

func TestAContextEndsWaitsAndSlowTransfers(t *testing.T) {
	slow := func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	inner := store.NewMemory()
	require.NoError(t, inner.Set(ctx(), "k", []byte(strings.Repeat("0123456789", 1000))))
	for name, f := range map[string]fault{
		"waiting for Retry-After": status(http.StatusServiceUnavailable, "Retry-After", "3600"),
		"waiting for a header":    func(_ http.Handler, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"waiting for a body":      half(slow),
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				f(files(inner), w, r)
			}), httpstore.Options{})
			for method, do := range map[string]func(context.Context) error{
				"Get": func(ctx context.Context) error { _, err := s.Get(ctx, "k", store.Range{}); return err },
				"GetRanges": func(ctx context.Context) error {
					_, err := s.GetRanges(ctx, "k", []store.Range{store.Last(20)})
					return err
				},
			} {
				limited, cancel := context.WithTimeout(ctx(), 50*time.Millisecond)
				start := time.Now()
				assert.ErrorIs(t, do(limited), context.DeadlineExceeded, method)
				assert.Less(t, time.Since(start), 5*time.Second)
				cancel()
			}
		})
	}
}

func TestRetryAfterIsWaitedFor(t *testing.T) {
	inner := store.NewMemory()
	require.NoError(t, inner.Set(ctx(), "k", []byte("v")))
	s := serve(t, first(1, status(http.StatusTooManyRequests, "Retry-After", "1"), files(inner)), httpstore.Options{})
	start := time.Now()
	_, err := s.Get(ctx(), "k", store.Range{})
	require.NoError(t, err)
	assert.GreaterOrEqual(t, time.Since(start), time.Second)
}
