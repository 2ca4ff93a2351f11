// The race detector would compile the clients of Azure and Google Cloud Storage again, and
// runs only quick tests, which skip servers.
//
//go:build !race

package blobstore_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/quiver-gpu/quiver/zarr/store"
	_ "github.com/quiver-gpu/quiver/zarr/store/blobstore/azure"
	_ "github.com/quiver-gpu/quiver/zarr/store/blobstore/gcs"
	_ "github.com/quiver-gpu/quiver/zarr/store/blobstore/s3"
	"github.com/quiver-gpu/quiver/zarr/store/storetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gocloud.dev/blob"
)

// root is the folder of the tree, below which interop/stores/install puts the servers.
const root = "../../.."

// kind is a kind of object store and its server.
type kind struct {
	file    string // that is started
	command func(t *testing.T, file, port, public string) *exec.Cmd
	// prepare makes the bucket "tests" and sets the environment of clients.
	prepare func(t *testing.T, server, proxy string)
	url     func(proxy, prefix string) string
}

// The account of Azurite is the same everywhere, and published.
const azuriteKey = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

var kinds = map[string]kind{
	"versitygw": {
		file: ".tools/bin/versitygw",
		command: func(t *testing.T, file, port, _ string) *exec.Cmd {
			data := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(data, "tests"), 0o777))
			cmd := exec.Command(file, "--port", "127.0.0.1:"+port, "posix", data)
			cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY=id", "ROOT_SECRET_KEY=secret")
			return cmd
		},
		prepare: func(t *testing.T, _, _ string) {
			t.Setenv("AWS_ACCESS_KEY_ID", "id")
			t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
			t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
		},
		url: func(proxy, prefix string) string {
			return "s3://tests/" + prefix + "?region=us-east-1&use_path_style=true&disable_https=true&endpoint=http://" + proxy
		},
	},
	"fake-gcs-server": {
		file: ".tools/bin/fake-gcs-server",
		command: func(_ *testing.T, file, port, public string) *exec.Cmd {
			return exec.Command(file, "-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", port, "-public-host", public)
		},
		prepare: func(t *testing.T, server, proxy string) {
			resp, err := http.Post("http://"+server+"/storage/v1/b?project=p", "application/json", strings.NewReader(`{"name":"tests"}`))
			require.NoError(t, err)
			resp.Body.Close()
			require.Equal(t, http.StatusOK, resp.StatusCode)
			t.Setenv("STORAGE_EMULATOR_HOST", proxy)
		},
		url: func(_, prefix string) string { return "gs://tests/" + prefix + "?anonymous=true" },
	},
	"azurite": {
		file: "interop/stores/node_modules/azurite/dist/src/blob/main.js",
		command: func(t *testing.T, file, port, _ string) *exec.Cmd {
			cmd := exec.Command("node", file, "--blobHost", "127.0.0.1", "--blobPort", port, "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent")
			cmd.Dir = t.TempDir()
			return cmd
		},
		prepare: func(t *testing.T, server, _ string) {
			t.Setenv("AZURE_STORAGE_ACCOUNT", "devstoreaccount1")
			t.Setenv("AZURE_STORAGE_KEY", azuriteKey)
			bucket, err := blob.OpenBucket(context.Background(), "azblob://tests?protocol=http&localemu=true&domain="+server)
			require.NoError(t, err)
			defer func() { require.NoError(t, bucket.Close()) }()
			var client *container.Client
			require.True(t, bucket.As(&client))
			_, err = client.Create(context.Background(), nil)
			require.NoError(t, err)
		},
		url: func(proxy, prefix string) string {
			return "azblob://tests/" + prefix + "?protocol=http&localemu=true&domain=" + proxy
		},
	},
}

// server is a running server, and the proxy between it and its clients.
type server struct {
	kind
	proxy string // host and port
	fault atomic.Pointer[fault]
}

// fault handles a request wrongly. good handles it well.
type fault func(good http.Handler, w http.ResponseWriter, r *http.Request)

// forEachServer starts each server and runs a test on it. Without the servers it skips the
// test, or fails if CI is set.
func forEachServer(t *testing.T, test func(t *testing.T, s *server)) {
	if testing.Short() {
		t.Skip("servers are slow")
	}
	for name, k := range kinds {
		t.Run(name, func(t *testing.T) {
			file, err := filepath.Abs(filepath.Join(root, k.file))
			require.NoError(t, err)
			if _, err := os.Stat(file); err != nil {
				if os.Getenv("CI") != "" {
					t.Fatalf("%v: run interop/stores/install", err)
				}
				t.Skipf("%v: make stores installs it", err)
			}
			test(t, start(t, k, file))
		})
	}
}

func start(t *testing.T, k kind, file string) *server {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String() // of the server, once this is closed
	require.NoError(t, listener.Close())
	s := &server{kind: k}
	forward := &httputil.ReverseProxy{
		// The signature of a request covers its Host.
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: address})
			r.Out.Host = r.In.Host
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := s.fault.Load(); f != nil {
			(*f)(forward, w, r)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	s.proxy = strings.TrimPrefix(proxy.URL, "http://")
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	cmd := k.command(t, file, port, s.proxy)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.WaitDelay = time.Second
	require.NoError(t, cmd.Start())
	exited := make(chan struct{})
	go func() { _ = cmd.Wait(); close(exited) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-exited
		if t.Failed() {
			t.Logf("%s wrote:\n%s", file, log.Bytes()[max(log.Len()-4000, 0):])
		}
	})
	require.Eventually(t, func() bool {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			err = connection.Close()
		}
		return err == nil
	}, 20*time.Second, 20*time.Millisecond, "the server does not listen")
	k.prepare(t, address, s.proxy)
	return s
}

// open opens a store by its URL, in a prefix of its own.
func (s *server) open(t *testing.T) store.Store {
	opened, err := store.Open(context.Background(), s.url(s.proxy, fmt.Sprintf("%x/a", prefixes.Add(1))))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close(opened)) })
	return opened
}

var prefixes atomic.Int64

func TestServersPassTheConformanceSuite(t *testing.T) {
	forEachServer(t, func(t *testing.T, s *server) {
		storetest.Test(t, s.open, storetest.Options{Versions: true})
	})
}

func TestRandomOperationsOnServersEqualThoseOnAMap(t *testing.T) {
	forEachServer(t, func(t *testing.T, s *server) {
		for seed := range uint64(3) {
			storetest.TestModel(t, s.open(t), seed, 100, storetest.Options{})
		}
	})
}

// everyThird lets the first of three requests of each method and URL fail.
func everyThird(f fault) *fault {
	var mu sync.Mutex
	calls := map[string]int{}
	every := fault(func(good http.Handler, w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		n := calls[r.Method+r.RequestURI]
		calls[r.Method+r.RequestURI]++
		mu.Unlock()
		if n%3 == 0 {
			f(good, w, r)
			return
		}
		good.ServeHTTP(w, r)
	})
	return &every
}

// Faults read the request to its end. Azure's client rewinds the body of a request when the
// response comes, and races with net/http if that still sends it.
var serverFaults = map[string]fault{
	"503": func(_ http.Handler, w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusServiceUnavailable)
	},
	"reset": func(_ http.Handler, _ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler)
	},
	"a lost response": func(good http.Handler, _ http.ResponseWriter, r *http.Request) {
		good.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	},
	"half a response": func(good http.Handler, w http.ResponseWriter, r *http.Request) {
		whole := httptest.NewRecorder()
		good.ServeHTTP(whole, r)
		if whole.Body.Len() < 2 {
			panic(http.ErrAbortHandler)
		}
		for field, values := range whole.Header() {
			w.Header()[field] = values
		}
		w.Header().Set("Content-Length", fmt.Sprint(whole.Body.Len()))
		w.WriteHeader(whole.Code)
		_, _ = w.Write(whole.Body.Bytes()[:whole.Body.Len()/2])
		panic(http.ErrAbortHandler)
	},
	"slow": func(good http.Handler, w http.ResponseWriter, r *http.Request) {
		time.Sleep(50 * time.Millisecond)
		good.ServeHTTP(w, r)
	},
}

func TestFaultsBetweenClientsAndServersAreRetried(t *testing.T) {
	forEachServer(t, func(t *testing.T, server *server) {
		for name, f := range serverFaults {
			t.Run(name, func(t *testing.T) {
				server.fault.Store(everyThird(f))
				defer server.fault.Store(nil)
				ctx, s := context.Background(), server.open(t)
				value := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
				require.NoError(t, s.Set(ctx, "c/0", value))
				got, err := s.Get(ctx, "c/0", store.Range{})
				require.NoError(t, err)
				assert.True(t, bytes.Equal(value, got))
				got, err = s.Get(ctx, "c/0", store.Last(3))
				require.NoError(t, err)
				assert.Equal(t, "def", string(got))
				many, err := store.GetRanges(ctx, s, "c/0", []store.Range{store.Between(17, 19), store.Between(1, 3)})
				require.NoError(t, err)
				assert.Equal(t, "12 12", string(bytes.Join(many, []byte(" "))))
				keys, err := s.List(ctx, "")
				require.NoError(t, err)
				assert.Equal(t, []string{"c/0"}, keys)
				require.NoError(t, s.Delete(ctx, "c/0"))
				_, err = s.Get(ctx, "c/0", store.Range{})
				assert.ErrorIs(t, err, store.ErrNotFound)
			})
		}
	})
}

// Every twentieth request meets one fault after the other.
func TestServersPassTheConformanceSuiteUnderFaults(t *testing.T) {
	names := slices.Sorted(maps.Keys(serverFaults))
	forEachServer(t, func(t *testing.T, server *server) {
		var calls atomic.Int64
		mixed := fault(func(good http.Handler, w http.ResponseWriter, r *http.Request) {
			n := int(calls.Add(1))
			if n%20 == 0 {
				serverFaults[names[n/20%len(names)]](good, w, r)
				return
			}
			good.ServeHTTP(w, r)
		})
		server.fault.Store(&mixed)
		defer server.fault.Store(nil)
		storetest.Test(t, server.open, storetest.Options{Interrupted: true})
	})
}

// A client repeats a put whose response was lost. The repetition is refused, because the
// first put succeeded; the caller has created the value nevertheless.
func TestConditionalSetOnServersSucceedsOnceUnderFaults(t *testing.T) {
	forEachServer(t, func(t *testing.T, server *server) {
		for _, name := range []string{"a lost response", "half a response", "slow"} {
			f := serverFaults[name]
			t.Run(name, func(t *testing.T) {
				server.fault.Store(everyThird(f))
				defer server.fault.Store(nil)
				ctx, s := context.Background(), server.open(t)
				require.NoError(t, store.SetIfNotExists(ctx, s, "alone", []byte("same")))
				err := store.SetIfNotExists(ctx, s, "alone", []byte("same"))
				require.ErrorIs(t, err, store.ErrExists, "an equal value of another call is another value")
				errs := make([]error, 4)
				var group sync.WaitGroup
				for i := range errs {
					group.Go(func() { errs[i] = store.SetIfNotExists(ctx, s, "lock", []byte(fmt.Sprint(i))) })
				}
				group.Wait()
				got, err := s.Get(ctx, "lock", store.Range{})
				require.NoError(t, err)
				for i, err := range errs {
					if string(got) == fmt.Sprint(i) {
						assert.NoError(t, err, "the call that created the value")
					} else {
						assert.ErrorIs(t, err, store.ErrExists)
					}
				}
			})
		}
	})
}

func TestACancelledWriteLeavesNothingOnServers(t *testing.T) {
	forEachServer(t, func(t *testing.T, server *server) {
		var parts, puts atomic.Int64
		cancelled := make(chan struct{})
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		stuck := fault(func(good http.Handler, w http.ResponseWriter, r *http.Request) {
			query := r.URL.Query()
			if query.Has("uploads") || query.Has("uploadId") || query.Get("comp") == "block" || query.Get("uploadType") == "resumable" {
				parts.Add(1) // a multipart upload of S3, Azure or Google Cloud Storage
			}
			if r.Method == http.MethodPut || r.Method == http.MethodPost {
				puts.Add(1)
				_, _ = io.CopyN(io.Discard, r.Body, 1000)
				cancel()
				<-cancelled
				return
			}
			good.ServeHTTP(w, r)
		})
		server.fault.Store(&stuck)
		s := server.open(t)
		assert.ErrorIs(t, s.Set(ctx, "c/0", make([]byte, 40<<20)), context.Canceled)
		close(cancelled)
		server.fault.Store(nil)
		keys, err := s.List(context.Background(), "")
		require.NoError(t, err)
		assert.Empty(t, keys)
		assert.NotZero(t, puts.Load())
		assert.Zero(t, parts.Load(), "no multipart upload was begun")
	})
}
