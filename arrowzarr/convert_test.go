package arrowzarr_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

var (
	none  = arrowzarr.Codec{Name: "none"}
	gzip  = arrowzarr.Codec{Name: "gzip", Level: 6}
	zstd1 = arrowzarr.Codec{Name: "zstd", Level: 1}
	fast  = arrowzarr.Codec{Name: "zstd", Level: -5}
)

// encodings are ways in which the same table can come.
var encodings = map[string]func(table, testing.TB) []byte{
	"file":        func(t table, tb testing.TB) []byte { return t.file(tb) },
	"stream":      func(t table, tb testing.TB) []byte { return t.stream(tb) },
	"LZ4 file":    func(t table, tb testing.TB) []byte { return t.file(tb, ipc.WithLZ4()) },
	"zstd stream": func(t table, tb testing.TB) []byte { return t.stream(tb, ipc.WithZstd()) },
}

// conversions are ways to cut, to encode and to miss values. They are chosen,
// not crossed: files are what the tests spend their time with.
var conversions = []struct {
	name         string
	lengths      []int     // of the batches
	nulls        []float64 // shares, in turn
	chunk, shard int64
	codec        arrowzarr.Codec
	from         string
}{
	{"one chunk", []int{25}, []float64{0}, 0, 0, zstd1, "file"},
	{"one chunk with nulls", []int{25}, []float64{0.3}, 0, 0, none, "stream"},
	{"one chunk of nulls", []int{25}, []float64{1}, 0, 0, gzip, "LZ4 file"},
	{"one chunk of many batches", []int{3, 1, 11, 0, 20, 5}, []float64{0}, 0, 0, none, "file"},
	{"one chunk of batches with and without nulls", []int{9, 16, 0, 1, 10}, []float64{0, 0.4, 0}, 0, 0, fast, "zstd stream"},
	{"chunks of 1 row", []int{2, 0, 1}, []float64{0, 0, 0.5}, 1, 0, none, "stream"},
	{"chunks of 1 row in shards", []int{5, 8}, []float64{0.3}, 1, 4, zstd1, "file"},
	{"chunks of 7 rows", []int{3, 8, 1, 4}, []float64{0}, 7, 0, gzip, "zstd stream"},
	{"chunks of 7 rows with nulls", []int{3, 8, 0, 5}, []float64{0.4}, 7, 0, none, "file"},
	{"chunks of 7 rows with nulls in the last", []int{15, 5}, []float64{0, 0.5}, 7, 0, none, "LZ4 file"},
	{"chunks of 7 rows of nulls", []int{10, 6}, []float64{1}, 7, 0, zstd1, "stream"},
	{"chunks of 7 rows that are batches", []int{7, 7}, []float64{0}, 7, 0, none, "file"},
	{"chunks of 7 rows in shards", []int{9, 30, 1, 50}, []float64{0}, 7, 21, zstd1, "file"},
	{"chunks of 7 rows in shards with nulls", []int{9, 30, 1, 50}, []float64{0, 0.3}, 7, 21, none, "stream"},
	{"chunks of 7 rows in shards of nulls", []int{40}, []float64{1}, 7, 14, gzip, "file"},
	{"a chunk that is a shard", []int{10, 10}, []float64{0.2}, 7, 7, fast, "zstd stream"},
	{"chunks longer than the input", []int{10, 3}, []float64{0.2}, 1000, 2000, zstd1, "file"},
	{"a batch of no rows", []int{0}, []float64{0}, 0, 0, zstd1, "file"},
	{"no batches", nil, nil, 0, 0, zstd1, "stream"},
	{"no batches for shards", nil, nil, 7, 21, none, "file"},
}

// Every supported type comes out value by value, on every device; the metadata
// is the same byte by byte.
func TestEveryTypeConvertsOnEveryDevice(t *testing.T) {
	for seed, c := range conversions {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			want := sampleTable(uint64(seed), c.lengths, c.nulls...)
			input := inputFile(t, encodings[c.from](want, t))
			options := arrowzarr.Options{Codec: c.codec, ChunkRows: c.chunk, ShardRows: c.shard}
			onCPU, report := convertFile(t, input, options)
			requireTable(t, want, onCPU)
			assert.Equal(t, want.rows(), report.Rows)
			assert.Equal(t, len(supported), report.Columns)
			assert.Equal(t, c.codec.String(), report.Codec)
			assert.Equal(t, "cpu", report.Device)
			cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
				options := options
				options.Device = dev
				onDevice, report := convertFile(t, input, options)
				requireTable(t, want, onDevice)
				assert.Equal(t, "cuda:0", report.Device)
				require.Equal(t, documents(t, onCPU), documents(t, onDevice))
			})
		})
	}
}

func TestJobsDoNotChangeTheOutput(t *testing.T) {
	want := sampleTable(77, []int{40, 3, 60}, 0.2)
	input := inputFile(t, want.file(t))
	for _, jobs := range []int{1, 2, 8} {
		output, _ := convertFile(t, input, arrowzarr.Options{ChunkRows: 15, ShardRows: 30, Jobs: jobs})
		requireTable(t, want, output)
	}
}

func TestColumnsAreThoseThatWereChosen(t *testing.T) {
	whole := sampleTable(5, []int{10, 10}, 0.5)
	chosen := []string{whole.schema.Field(30).Name, whole.schema.Field(2).Name, whole.schema.Field(15).Name}
	for name, encode := range encodings {
		t.Run(name, func(t *testing.T) {
			output, report := convert(t, encode(whole, t), arrowzarr.Options{Columns: chosen})
			assert.Equal(t, 3, report.Columns)
			// In the order of the input, however they were asked for.
			requireTable(t, whole.choose(2, 15, 30), output)
		})
	}
}
