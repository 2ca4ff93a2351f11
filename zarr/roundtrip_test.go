package zarr_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// geometry is an array's shape and how it is cut.
type geometry struct{ shape, chunk, inner []int64 }

var geometries = []geometry{
	{[]int64{}, []int64{}, []int64{}},
	{[]int64{0}, []int64{4}, []int64{2}},
	{[]int64{1}, []int64{1}, []int64{1}},
	{[]int64{23}, []int64{6}, []int64{3}},
	{[]int64{24}, []int64{24}, []int64{4}},
	{[]int64{5}, []int64{8}, []int64{2}},
	{[]int64{3, 0}, []int64{2, 2}, []int64{1, 2}},
	{[]int64{7, 5}, []int64{4, 2}, []int64{2, 1}},
	{[]int64{6, 5}, []int64{2, 5}, []int64{1, 5}},
	{[]int64{4, 7, 3}, []int64{2, 4, 3}, []int64{1, 2, 3}},
	{[]int64{2, 1, 3, 2}, []int64{1, 1, 2, 2}, []int64{1, 1, 1, 1}},
}

var dtypes = []ndview.DType{ndview.Bool, ndview.Int8, ndview.Uint16, ndview.Float16, ndview.BFloat16, ndview.Int32,
	ndview.Float64, ndview.Complex64, ndview.Complex128, ndview.Datetime64("ms", 25), ndview.Timedelta64("D", 1), ndview.Bytes(3)}

// chains are codec lists for any type of elements: first is the codec that
// makes bytes of it.
func chains(first codec.Codec, g geometry) map[string]codec.List {
	reversed := make([]int, len(g.shape))
	for i := range reversed {
		reversed[i] = len(reversed) - 1 - i
	}
	turned := append(slices.Clone(reversed[min(1, len(reversed)):]), reversed[:min(1, len(reversed))]...)
	ones := slices.Repeat([]int64{1}, len(g.shape))
	shard := codec.Sharding{ChunkShape: g.inner, Codecs: codec.List{first, codec.Zstd{Level: 1}}}
	atStart := shard
	atStart.IndexLocation = codec.Start
	nested := codec.Sharding{ChunkShape: g.inner, IndexLocation: codec.Start, IndexCodecs: codec.List{codec.Bytes{Endian: codec.Big}},
		Codecs: codec.List{codec.Sharding{ChunkShape: ones, Codecs: codec.List{first, codec.CRC32C{}}}}}
	moved := shard
	moved.Codecs = codec.List{codec.Transpose{Order: reversed}, first, codec.Gzip{Level: 1}}
	return map[string]codec.List{
		"plain":               {first},
		"zstd":                {first, codec.Zstd{Level: 3, Checksum: true}},
		"gzip":                {first, codec.Gzip{Level: 6}},
		"crc32c":              {first, codec.CRC32C{}},
		"zstd, gzip, crc32c":  {first, codec.Zstd{Level: -5}, codec.Gzip{}, codec.CRC32C{}},
		"crc32c, zstd":        {first, codec.CRC32C{}, codec.Zstd{Level: 1}},
		"transpose":           {codec.Transpose{Order: reversed}, first},
		"transpose twice":     {codec.Transpose{Order: turned}, codec.Transpose{Order: reversed}, first, codec.Zstd{}},
		"sharded":             {shard},
		"index at the start":  {atStart},
		"nested shards":       {nested},
		"transpose in shards": {moved},
		"shards, then gzip":   {shard, codec.Gzip{Level: 1}},
	}
}

func TestArraysOfEveryTypeRoundTrip(t *testing.T) {
	for _, g := range geometries {
		for _, dtype := range dtypes {
			for _, endian := range []codec.Endian{codec.Little, codec.Big} {
				codecs := codec.List{codec.Bytes{Endian: endian}, codec.Zstd{Level: 1}}
				t.Run(fmt.Sprintf("%v %s %s", g.shape, dtype, endian), func(t *testing.T) {
					roundTrip(t, arrowbuf.CPU(), dtype, g, codecs)
				})
			}
		}
	}
}

func TestArraysOfEveryCodecRoundTrip(t *testing.T) {
	for _, g := range geometries {
		for name, codecs := range chains(codec.Bytes{Endian: codec.Little}, g) {
			t.Run(fmt.Sprintf("%v %s", g.shape, name), func(t *testing.T) {
				roundTrip(t, arrowbuf.CPU(), ndview.Int32, g, codecs)
			})
		}
	}
}

func TestDeviceArraysRoundTrip(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for _, g := range geometries {
			for name, codecs := range chains(codec.Bytes{Endian: codec.Little}, g) {
				t.Run(fmt.Sprintf("%v %s", g.shape, name), func(t *testing.T) {
					roundTrip(t, dev, ndview.Int32, g, codecs)
				})
			}
		}
	})
}

// roundTrip writes an array whose elements are random, some chunks being all
// fill values, opens it anew and compares everything that reads.
func roundTrip(t *testing.T, dev arrowbuf.Device, dtype ndview.DType, g geometry, codecs codec.List) {
	t.Helper()
	shape := g.shape
	s := store.NewMemory()
	meta := &zarr.ArrayMetadata{Shape: shape, DataType: element.Of(dtype), ChunkShape: g.chunk, Codecs: codecs,
		FillValue: bytes.Repeat([]byte{1}, int(dtype.Size()))}
	a, err := zarr.Create(ctx, s, "group/array", meta)
	require.NoError(t, err)
	want := randomElements(shape, g.chunk, meta.FillValue)
	v := onDevice(t, dev, dtype, want, shape)
	require.NoError(t, a.Write(ctx, v, 3))

	a, err = zarr.Open(ctx, s, "group/array")
	require.NoError(t, err)
	got, err := a.Read(ctx, ndview.PrototypeOn(dev), 3)
	require.NoError(t, err)
	defer got.Release()
	assert.Equal(t, shape, got.Shape())
	assert.Equal(t, dev, got.(*ndview.NDBuffer).Device())
	assert.Equal(t, want, bytesOf(t, got))
	if len(shape) == 0 {
		return
	}
	row := int64(len(want)) / max(shape[0], 1)
	for start := range shape[0] + 1 {
		for stop := start; stop <= shape[0]; stop += 2 {
			rows, err := a.ReadRows(ctx, ndview.PrototypeOn(dev), start, stop, 2)
			require.NoError(t, err)
			assert.True(t, bytes.Equal(want[start*row:stop*row], bytesOf(t, rows)), "rows %d to %d", start, stop)
			rows.Release()
		}
	}
}

// randomElements are in C order. The first chunk, and what lies on a plane, has
// fill values only.
func randomElements(shape, chunk []int64, fill []byte) []byte {
	random := rand.New(rand.NewPCG(1, uint64(len(shape))))
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	out := make([]byte, 0, n*int64(len(fill)))
	for i := range n {
		empty, rest := true, i
		for axis := len(shape) - 1; axis >= 0; axis-- {
			empty = empty && rest%shape[axis] < chunk[axis]
			rest /= shape[axis]
		}
		for _, b := range fill {
			if !empty {
				b = byte(random.Uint32() % 3)
			}
			out = append(out, b)
		}
	}
	return out
}

func onDevice(t *testing.T, dev arrowbuf.Device, dtype ndview.DType, raw []byte, shape []int64) *ndview.NDBuffer {
	t.Helper()
	nd, err := ndview.Empty(dev, dtype, shape...)
	require.NoError(t, err)
	t.Cleanup(nd.Release)
	require.NoError(t, nd.CopyFromHost(raw))
	return nd
}

func bytesOf(t *testing.T, v element.Values) []byte {
	t.Helper()
	nd := v.(*ndview.NDBuffer)
	raw := make([]byte, nd.NBytes())
	require.NoError(t, nd.CopyToHost(raw))
	return raw
}

func TestArraysOfStringsRoundTrip(t *testing.T) {
	for _, g := range geometries {
		for name, codecs := range chains(codec.VLenUTF8{}, g) {
			t.Run(fmt.Sprintf("%v %s", g.shape, name), func(t *testing.T) { roundTripStrings(t, g, codecs) })
		}
	}
}

func roundTripStrings(t *testing.T, g geometry, codecs codec.List) {
	t.Helper()
	s := store.NewMemory()
	a, err := zarr.Create(ctx, s, "", &zarr.ArrayMetadata{Shape: g.shape, DataType: element.String, ChunkShape: g.chunk,
		Codecs: codecs, FillValue: []byte("né")})
	require.NoError(t, err)
	want := []string{}
	for i, e := range randomElements(g.shape, g.chunk, []byte{1}) {
		want = append(want, []string{"", "né", fmt.Sprint("string ", i)}[e])
	}
	v, err := element.Strings(want, g.shape...)
	require.NoError(t, err)
	// The same strings with offsets of 64 bits that do not begin at 0.
	narrow, _ := v.Offsets()
	moved := make([]int64, len(narrow))
	for i, o := range narrow {
		moved[i] = int64(o) + 5
	}
	wide, err := element.NewVLen(moved, append([]byte("12345"), v.Data()...), g.shape...)
	require.NoError(t, err)

	for _, v := range []*element.VLen{v, wide} {
		require.NoError(t, a.Write(ctx, v, 2))
		assert.Equal(t, want, readAs(t, a, want))
		if len(g.shape) > 0 && g.shape[0] > 2 {
			rows, err := a.ReadRows(ctx, ndview.Prototype{}, 1, 3, 1)
			require.NoError(t, err)
			row := int64(len(want)) / g.shape[0]
			got := []string{}
			for _, e := range rows.(*element.VLen).Elements() {
				got = append(got, string(e))
			}
			assert.Equal(t, want[row:3*row], got)
		}
	}
}

func TestViewsAreWrittenLikeTheirElements(t *testing.T) {
	s := store.NewMemory()
	raw := randomElements([]int64{6, 4}, []int64{1, 1}, []byte{0, 0})
	whole := onDevice(t, arrowbuf.CPU(), ndview.Int16, raw, []int64{6, 4})
	moved, err := whole.Transpose()
	require.NoError(t, err)
	defer moved.Release()
	part, err := moved.Slice(1, 1, 5)
	require.NoError(t, err)
	defer part.Release()
	a, err := zarr.Create(ctx, s, "a", &zarr.ArrayMetadata{Shape: []int64{4, 4}, DataType: element.Of(ndview.Int16),
		ChunkShape: []int64{3, 2}, Codecs: zarr.DefaultCodecs(element.Of(ndview.Int16))})
	require.NoError(t, err)
	require.NoError(t, a.Write(ctx, part, 1))
	got, err := a.Read(ctx, ndview.Prototype{}, 1)
	require.NoError(t, err)
	defer got.Release()
	assert.Equal(t, bytesOf(t, part), bytesOf(t, got))
}
