package arrowzarr_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
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

// s3URL starts an S3 server and returns a function that makes URLs of an empty bucket.
func s3URL(t *testing.T, through func(http.Handler) http.Handler) func(path string) string {
	backend := s3mem.New()
	require.NoError(t, backend.CreateBucket("tests"))
	handler := gofakes3.New(backend).Server()
	if through != nil {
		handler = through(handler)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	return func(path string) string {
		return "s3://tests/" + path + "?region=us-east-1&use_path_style=true&disable_https=true&endpoint=" + server.URL
	}
}

func TestObjectsFoldersAndPatternsOfStoresAreInputs(t *testing.T) {
	at := s3URL(t, nil)
	fill(t, at("some/prefix"), map[string][]byte{
		"a.parquet": tabletest.Numbers(0, 2).Parquet(t), "b.arrow": tabletest.Numbers(2, 2).File(t), "c.arrows": tabletest.Numbers(4, 2).Stream(t),
		"k=7/d.arrow": tabletest.Numbers(6, 1).File(t), "k=x/e.arrow": tabletest.Numbers(7, 1).File(t), "_SUCCESS": nil,
	})
	for input, want := range map[string][]string{
		"some/prefix/a.parquet": {"0", "1"}, "some/prefix/b.arrow": {"2", "3"}, "some/prefix/c.arrows": {"4", "5"},
		"some/prefix/[ab].*": {"0", "1", "2", "3"}, "some/prefix/*.arrow": {"2", "3"}, "some/prefix/k=7": {"6"},
	} {
		assert.Equal(t, want, rowTexts(t, 1, at(input)), input)
	}
	assert.Equal(t, []string{"6 7", "7 x"}, rowTexts(t, 2, at("some/prefix/k=*")))
	assert.Equal(t, []string{"6 7", "7 x"}, rowTexts(t, 2, at("**/*[de].arrow")))
	facts := describe1(t, at("some/prefix/a.parquet"))
	assert.Contains(t, facts.Fingerprint, "s3://tests/some/prefix/a.parquet")
	assert.NotContains(t, facts.Fingerprint, "endpoint")
	fill(t, at("some/prefix"), map[string][]byte{"a.parquet": tabletest.Numbers(5, 2).Parquet(t)})
	assert.NotEqual(t, facts.Fingerprint, describe1(t, at("some/prefix/a.parquet")).Fingerprint)
	for _, missing := range []string{"some/prefix/none", "some/prefix/*.none"} {
		_, err := arrowzarr.DescribeSource(at(missing))
		require.ErrorContains(t, err, "s3://tests/"+missing+" does not exist")
		assert.NotContains(t, err.Error(), "endpoint=")
	}
}

func TestObjectsConvert(t *testing.T) {
	at := s3URL(t, nil)
	columns := tabletest.Numbers(0, 801)
	fill(t, at(""), map[string][]byte{"a.arrow": columns.File(t), "a.arrows": columns.Stream(t)})
	for _, name := range []string{"a.arrow", "a.arrows"} {
		output, report := convertFile(t, at(name), arrowzarr.Options{})
		assert.EqualValues(t, 801, report.Rows)
		verified, err := arrowzarr.Verify(t.Context(), at(name), output, arrowzarr.Options{})
		require.NoError(t, err)
		assert.Empty(t, verified.Difference)
	}
	contents, err := arrowzarr.Inspect(t.Context(), at("a.arrow"), arrowzarr.InspectOptions{})
	require.NoError(t, err)
	assert.EqualValues(t, 801, contents.Rows)
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
	root := folderOf(t, map[string][]byte{"a.arrow": columns.File(t), "with space.arrows": columns.Stream(t), "a.parquet": columns.Parquet(t)})
	url, requests, _ := fileServer(t, root, nil)
	for _, name := range []string{"a.arrow", "with%20space.arrows", "a.parquet"} {
		before := requests.Load()
		var rows int64
		require.NoError(t, arrowzarr.ReadSource([]string{url + "/" + name}, []int{0}, 0, -1, func(b arrow.RecordBatch) {
			rows += b.NumRows()
			require.Equal(t, fmt.Sprint(rows-1), b.Column(0).ValueStr(int(b.NumRows())-1))
		}))
		assert.EqualValues(t, n, rows)
		assert.Less(t, requests.Load()-before, int64(60), name)
	}
	_, err := arrowzarr.DescribeSource(url + "/none.arrow")
	require.ErrorContains(t, err, "none.arrow does not exist")
	_, err = arrowzarr.DescribeSource(url)
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
	root := folderOf(t, map[string][]byte{"a.arrow": in.File(t), "a.arrows": in.Stream(t)})
	url, _, sent := fileServer(t, root, nil)
	for _, name := range []string{"a.arrow", "a.arrows"} {
		before := sent.Load()
		require.NoError(t, arrowzarr.ReadSource([]string{url + "/" + name}, []int{0}, 1_900_000, 1_950_000, func(arrow.RecordBatch) {}))
		assert.Less(t, sent.Load()-before, int64(8<<20), name) // of 32 MB
	}
}

func TestObjectsThatChangeMeanwhileAreErrors(t *testing.T) {
	batches := append(tabletest.Numbers(0, 1_000_000).Batches, tabletest.Numbers(0, 2_000_000).Batches...)
	content := tabletest.Table{Schema: batches[0].Schema(), Batches: batches}.Stream(t)
	read := func(url string, change func()) error {
		changed := false
		return arrowzarr.ReadSource([]string{url}, []int{0}, 0, -1, func(arrow.RecordBatch) {
			if !changed {
				changed = true
				change()
			}
		})
	}
	t.Run("S3", func(t *testing.T) {
		var changed atomic.Bool
		at := s3URL(t, func(next http.Handler) http.Handler { // the server does not know If-Match
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
		at := s3URL(t, nil)
		fill(t, at(""), map[string][]byte{"a": content})
		err := read(at("a"), func() { fill(t, at(""), map[string][]byte{"a": append(content, 0)}) })
		require.ErrorIs(t, err, store.ErrChanged)
	})
	t.Run("HTTP", func(t *testing.T) {
		root := folderOf(t, map[string][]byte{"a": content})
		url, _, _ := fileServer(t, root, nil)
		err := read(url+"/a", func() {
			require.NoError(t, os.Chtimes(filepath.Join(root, "a"), time.Time{}, time.Unix(1e9, 0)))
		})
		require.ErrorIs(t, err, store.ErrChanged)
	})
}

func TestServersWithoutRangesServeWholeFiles(t *testing.T) {
	root := folderOf(t, map[string][]byte{"a.parquet": tabletest.Numbers(0, 100_000).Parquet(t)})
	url, requests, _ := fileServer(t, root, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del("Range")
			next.ServeHTTP(w, r)
		})
	})
	assert.EqualValues(t, 100_000, describe1(t, url+"/a.parquet").Count)
	assert.Less(t, requests.Load(), int64(8))
}

func TestURLsOfUnknownSchemesAreRefused(t *testing.T) {
	_, err := arrowzarr.DescribeSource("ftp://user:secret@host/a.arrow?key=hidden")
	require.ErrorIs(t, err, errors.ErrUnsupported)
	assert.NotContains(t, err.Error(), "secret")
	assert.NotContains(t, err.Error(), "hidden")
	output := path.Join(t.TempDir(), "out.zarr")
	_, err = arrowzarr.Convert(context.Background(), "ftp://user:secret@host/a.arrow?key=hidden", output, arrowzarr.Options{})
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "secret")
}
