package inputs_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/sourcetest"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
	"github.com/quiver-gpu/quiver/internal/s3test"
	"github.com/quiver-gpu/quiver/zarr/store"
	_ "github.com/quiver-gpu/quiver/zarr/store/blobstore/s3"
	_ "github.com/quiver-gpu/quiver/zarr/store/httpstore"
)

// fill writes values to the store of a URL.
func fill(t *testing.T, location string, files map[string][]byte) {
	t.Helper()
	s, err := store.Open(t.Context(), location)
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close(s)) }()
	for key, content := range files {
		require.NoError(t, s.Set(t.Context(), key, content))
	}
}

func TestObjectsFoldersAndPatternsOfStoresAreInputs(t *testing.T) {
	s3test.SetCredentials(t)
	at := s3test.Serve(t, nil)
	fill(t, at("some/prefix"), map[string][]byte{
		"a.parquet": tabletest.Numbers(0, 2).Parquet(t), "b.arrow": tabletest.Numbers(2, 2).File(t), "c.arrows": tabletest.Numbers(4, 2).Stream(t),
		"k=7/d.arrow": tabletest.Numbers(6, 1).File(t), "k=x/e.arrow": tabletest.Numbers(7, 1).File(t), "_SUCCESS": nil,
	})
	for input, want := range map[string][]string{
		"some/prefix/a.parquet": {"0", "1"}, "some/prefix/b.arrow": {"2", "3"}, "some/prefix/c.arrows": {"4", "5"},
		"some/prefix/[ab].*": {"0", "1", "2", "3"}, "some/prefix/*.arrow": {"2", "3"}, "some/prefix/k=7": {"6"},
	} {
		assert.Equal(t, want, sourcetest.Rows(t, inputsOf(at(input))), input)
	}
	assert.Equal(t, []string{"6 7", "7 x"}, sourcetest.Rows(t, inputsOf(at("some/prefix/k=*"))))
	assert.Equal(t, []string{"6 7", "7 x"}, sourcetest.Rows(t, inputsOf(at("**/*[de].arrow"))))
	first := sourcetest.Info(t, inputsOf(at("some/prefix/a.parquet"))).Fingerprint
	assert.Contains(t, first, "s3://tests/some/prefix/a.parquet")
	assert.NotContains(t, first, "endpoint")
	fill(t, at("some/prefix"), map[string][]byte{"a.parquet": tabletest.Numbers(5, 2).Parquet(t)})
	assert.NotEqual(t, first, sourcetest.Info(t, inputsOf(at("some/prefix/a.parquet"))).Fingerprint)
	for _, missing := range []string{"some/prefix/none", "some/prefix/*.none"} {
		_, err := sourcetest.Count(inputsOf(at(missing)))
		require.ErrorContains(t, err, "s3://tests/"+missing+" does not exist")
		assert.NotContains(t, err.Error(), "endpoint=")
	}
}

// fileServer serves a folder, and counts requests and bytes.
func fileServer(t *testing.T, folder string, change func(http.Handler) http.Handler) (url string, requests, sent *atomic.Int64) {
	requests, sent = new(atomic.Int64), new(atomic.Int64)
	handler := http.FileServer(http.Dir(folder))
	if change != nil {
		handler = change(handler)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		handler.ServeHTTP(&countingResponse{w, sent}, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, requests, sent
}

type countingResponse struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (c *countingResponse) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return c.ResponseWriter.Write(p)
}

func TestFilesAreReadOverHTTP(t *testing.T) {
	n := 3_000_000
	if testing.Short() {
		n = 300_000
	}
	columns := tabletest.Numbers(0, n)
	root := sourcetest.WriteFiles(t, map[string][]byte{"a.arrow": columns.File(t), "with space.arrows": columns.Stream(t), "a.parquet": columns.Parquet(t)})
	url, requests, _ := fileServer(t, root, nil)
	for _, name := range []string{"a.arrow", "with%20space.arrows", "a.parquet"} {
		before := requests.Load()
		var rows int64
		require.NoError(t, sourcetest.Read(inputsOf(url+"/"+name), []int{0}, source.WholeInput, func(b arrow.RecordBatch) {
			rows += b.NumRows()
			require.Equal(t, fmt.Sprint(rows-1), b.Column(0).ValueStr(int(b.NumRows())-1))
		}))
		assert.EqualValues(t, n, rows)
		assert.Less(t, requests.Load()-before, int64(60), name)
	}
	_, err := sourcetest.Count(inputsOf(url + "/none.arrow"))
	require.ErrorContains(t, err, "none.arrow does not exist")
	_, err = sourcetest.Count(inputsOf(url))
	require.ErrorContains(t, err, "expected the URL of a file")
}

// Selected columns and skipped rows are not transferred.
func TestOnlyWhatIsNeededIsTransferred(t *testing.T) {
	var batches [][]arrow.Array
	for b := range 40 {
		part := tabletest.Numbers(b*50_000, 50_000).Column(0)[0]
		batches = append(batches, []arrow.Array{part, part})
	}
	i64 := arrow.PrimitiveTypes.Int64
	in := tabletest.New([]arrow.Field{{Name: "a", Type: i64}, {Name: "b", Type: i64}}, batches...)
	root := sourcetest.WriteFiles(t, map[string][]byte{"a.arrow": in.File(t), "a.arrows": in.Stream(t)})
	url, _, sent := fileServer(t, root, nil)
	for _, name := range []string{"a.arrow", "a.arrows"} {
		before := sent.Load()
		require.NoError(t, sourcetest.Read(inputsOf(url+"/"+name), []int{0}, source.RowRange{From: 1_900_000, To: 1_950_000}, func(arrow.RecordBatch) {}))
		assert.Less(t, sent.Load()-before, int64(8<<20), name) // of 32 MB
	}
}

func TestObjectsThatChangeMeanwhileAreErrors(t *testing.T) {
	batches := append(tabletest.Numbers(0, 1_000_000).Batches, tabletest.Numbers(0, 2_000_000).Batches...)
	content := tabletest.Table{Schema: batches[0].Schema(), Batches: batches}.Stream(t)
	read := func(url string, change func()) error {
		changed := false
		return sourcetest.Read(inputsOf(url), []int{0}, source.WholeInput, func(arrow.RecordBatch) {
			if !changed {
				changed = true
				change()
			}
		})
	}
	t.Run("S3", func(t *testing.T) {
		var changed atomic.Bool
		s3test.SetCredentials(t)
		at := s3test.Serve(t, func(next http.Handler) http.Handler { // the server does not know If-Match
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet && changed.Load() && r.Header.Get("If-Match") != "" {
					w.WriteHeader(http.StatusPreconditionFailed)
					_, _ = w.Write([]byte("<Error><Code>PreconditionFailed</Code></Error>"))
					return
				}
				next.ServeHTTP(w, r)
			})
		})
		fill(t, at(""), map[string][]byte{"a": content})
		require.ErrorIs(t, read(at("a"), func() { changed.Store(true) }), store.ErrChanged)
	})
	t.Run("S3, another length", func(t *testing.T) {
		s3test.SetCredentials(t)
		at := s3test.Serve(t, nil)
		fill(t, at(""), map[string][]byte{"a": content})
		err := read(at("a"), func() { fill(t, at(""), map[string][]byte{"a": append(content, 0)}) })
		require.ErrorIs(t, err, store.ErrChanged)
	})
	t.Run("HTTP", func(t *testing.T) {
		root := sourcetest.WriteFiles(t, map[string][]byte{"a": content})
		url, _, _ := fileServer(t, root, nil)
		err := read(url+"/a", func() {
			require.NoError(t, os.Chtimes(filepath.Join(root, "a"), time.Time{}, time.Unix(1e9, 0)))
		})
		require.ErrorIs(t, err, store.ErrChanged)
	})
}

func TestServersWithoutRangesServeWholeFiles(t *testing.T) {
	root := sourcetest.WriteFiles(t, map[string][]byte{"a.parquet": tabletest.Numbers(0, 100_000).Parquet(t)})
	url, requests, _ := fileServer(t, root, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del("Range")
			next.ServeHTTP(w, r)
		})
	})
	counts, err := sourcetest.Count(inputsOf(url + "/a.parquet"))
	require.NoError(t, err)
	assert.EqualValues(t, 100_000, counts.Rows)
	assert.Less(t, requests.Load(), int64(8))
}

func TestURLsOfUnknownSchemesAreRefused(t *testing.T) {
	_, err := sourcetest.Count(inputsOf("ftp://user:secret@host/a.arrow?key=hidden"))
	require.ErrorIs(t, err, errors.ErrUnsupported)
	assert.NotContains(t, err.Error(), "secret")
	assert.NotContains(t, err.Error(), "hidden")
}
