package zarr_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress/blosc"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPartsOfEncodedChunksAreThoseOfTheWhole(t *testing.T) {
	big := codec.Bytes{Endian: codec.Big}
	little := codec.Bytes{Endian: codec.Little}
	lists := map[string]codec.List{
		"zstd":          {little, codec.Zstd{Level: 1}},
		"checksums":     {little, codec.Zstd{Level: 1, Checksum: true}, codec.CRC32C{}},
		"zstd, crc32c":  {little, codec.Zstd{Level: 1}, codec.CRC32C{}},
		"big endian":    {big, codec.Zstd{Level: 1}},
		"blosc":         {big, codec.Blosc{Compressor: blosc.Zstd, Level: 1, BlockSize: 4096}},
		"twice":         {little, codec.Blosc{Compressor: blosc.LZ4, Level: 1, BlockSize: 4096}, codec.Zstd{}},
		"transposed":    {codec.Transpose{Order: []int{1, 0}}, little, codec.Zstd{Level: 1}},
		"delta":         {codec.Delta{DType: "<i4"}, little, codec.Zstd{Level: 1}},
		"gzip":          {little, codec.Gzip{Level: 1}},
		"shuffled zstd": {little, codec.Shuffle{ElementSize: 4}, codec.Zstd{Level: 1}},
	}
	shape, chunk := []int64{70, 1500}, []int64{40, 1000} // chunks of 160 KB
	inner := []int64{20, 1000}
	data := counting(t, arrowbuf.CPU(), 0, 7, shape...)
	want := create(t, store.NewMemory(), "a", ints(shape, chunk))
	require.NoError(t, want.Write(ctx, data, 2))
	for name, codecs := range lists {
		for _, shards := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, shards %t", name, shards), func(t *testing.T) {
				random := rand.New(rand.NewPCG(21, 22))
				meta := ints(shape, chunk)
				meta.Codecs = codecs
				if shards {
					meta.Codecs = codec.List{codec.Sharding{ChunkShape: inner, Codecs: codecs}}
				}
				s := store.NewLocal(t.TempDir())
				a := create(t, s, "a", meta)
				require.NoError(t, a.Write(ctx, data, 2))
				age(t, s, time.Now().Add(-time.Hour)) // files have versions
				for round := range 24 {
					if round == 12 {
						a.ChunkCache = 300_000 // one chunk, and parts of others
					}
					selection := randomSelection(random, shape)
					if round%2 == 0 {
						at := random.Int64N(shape[0])
						selection = zarr.Select(zarr.Span(at, min(at+1+random.Int64N(5), shape[0])), zarr.Span(random.Int64N(700), 700+random.Int64N(800)))
					}
					expected, err := want.Get(ctx, selection, zarr.Prototype{}, 1)
					require.NoError(t, err)
					got, err := a.Get(ctx, selection, zarr.Prototype{}, 2)
					require.NoError(t, err)
					require.Equal(t, bytesOf(t, expected), bytesOf(t, got))
					expected.Release()
					got.Release()
				}
			})
		}
	}
}

// decoded returns the bytes that a codec has decoded since the last call.
func decoded(a *zarr.Array, name string) (n int64) {
	for _, c := range a.Stats.Counts() {
		if c.Codec == name && c.Decode {
			n += c.Bytes
		}
	}
	a.Stats = new(codec.Stats)
	return n
}

func TestPartsOfChunksAreDecodedAlone(t *testing.T) {
	const rows, columns, row = 1000, 100, 400 // bytes of a row
	for _, c := range []codec.Codec{codec.Zstd{Level: 1}, codec.Blosc{Compressor: blosc.LZ4, Level: 5, BlockSize: 8192}, codec.Gzip{Level: 1}} {
		t.Run(c.Name(), func(t *testing.T) {
			s := store.NewLocal(t.TempDir())
			a := create(t, s, "a", ints([]int64{rows, columns}, []int64{rows, columns}, c))
			require.NoError(t, a.Write(ctx, counting(t, arrowbuf.CPU(), 0, 1, rows, columns), 1))
			age(t, s, time.Now().Add(-time.Hour))
			a.Stats = new(codec.Stats)
			get := func(keys ...zarr.Key) []int32 {
				v, err := a.Get(ctx, zarr.Select(keys...), zarr.Prototype{}, 1)
				require.NoError(t, err)
				defer v.Release()
				return host[int32](t, v.(*ndview.NDBuffer))
			}
			ranges := c.Name() != "gzip" // whose checksum is of the whole
			expect := func(want int64, what string) {
				t.Helper()
				if !ranges && want > 0 {
					want = rows * row
				}
				assert.Equal(t, want, decoded(a, c.Name()), what)
			}
			assert.Equal(t, int32(500*columns+3), get(zarr.At(500), zarr.Span(3, 5))[0])
			expect(2*4, "two elements of a row")
			assert.Equal(t, int32(11*columns+3), get(zarr.Span(10, 12), zarr.Span(3, 5))[2])
			expect(2*row, "parts of two rows")
			assert.Equal(t, int32(900*columns+1), get(zarr.List(900, 800), zarr.List(1, 0))[0])
			expect(101*row, "the rows around a list")
			get()
			expect(rows*row, "the whole")

			a.ChunkCache = 1 << 20
			assert.Equal(t, int32(5), get(zarr.At(0), zarr.Span(5, 6))[0])
			expect(128<<10, "the first read")
			get(zarr.At(50), zarr.Span(5, 6))
			expect(0, "within what was decoded")
			assert.Equal(t, int32(999*columns+5), get(zarr.At(999), zarr.Span(5, 6))[0])
			if ranges {
				expect(rows*row, "beyond it, all is decoded")
			}
			get(zarr.At(700), zarr.Span(5, 6))
			expect(0, "all is cached")
		})
	}
}
