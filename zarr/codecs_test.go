package zarr_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress/blosc"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNewArraysHaveCompleteCodecs(t *testing.T) {
	ctx, s := context.Background(), store.NewMemory()
	created := create(t, s, "a", ints([]int64{8}, []int64{4}, codec.Blosc{Compressor: blosc.LZ4, Level: 5}))
	raw, err := s.Get(ctx, "a/zarr.json", store.Range{})
	require.NoError(t, err)
	assert.Contains(t, string(raw), `"shuffle": "shuffle"`)
	assert.Contains(t, string(raw), `"typesize": 4`)
	last := created.Metadata().Codecs[len(created.Metadata().Codecs)-1]
	assert.Equal(t, codec.Blosc{Compressor: blosc.LZ4, Level: 5, Shuffle: codec.BloscBytes, TypeSize: 4}, last)
}

// An array-to-array codec before a shard applies to the whole shard, which is then
// neither read nor written by inner chunks.
func TestShardsAfterArrayCodecsRoundTrip(t *testing.T) {
	for name, first := range map[string]codec.Codec{
		"delta":   codec.Delta{DType: "<i4"},
		"reshape": codec.Reshape{Shape: []codec.ReshapeExtent{{Size: -1}}},
		"scale":   codec.ScaleOffset{Offset: json.RawMessage("-3"), Scale: json.RawMessage("2")},
	} {
		meta := ints([]int64{8}, []int64{4})
		meta.Codecs = codec.List{first, codec.Sharding{ChunkShape: []int64{2}, Codecs: codec.List{codec.Bytes{Endian: codec.Little}}}}
		a := create(t, store.NewMemory(), name, meta)
		want := []int32{0, 0, 3, 4, 5, -6, 7, 7}
		require.NoError(t, a.Write(context.Background(), values(t, ndview.Int32, want, 8), 2))
		assert.Equal(t, want, readAs(t, a, want), name)
	}
}

// The bytes of a chunk on a device cross to the host once, however many codecs there are.
func TestChunksOfADeviceCrossToTheHostOnce(t *testing.T) {
	dev, copies := countCopiesToHost(t)
	meta := ints([]int64{1000}, []int64{1000})
	meta.Codecs = codec.List{codec.Bytes{Endian: codec.Little}, codec.Zstd{Level: 1}, codec.Gzip{Level: 1}, codec.CRC32C{}}
	a := create(t, store.NewMemory(), "a", meta)
	a.WriteEmptyChunks = true // the comparison with the fill value copies its result
	v, err := ndview.FromSlice(dev, make([]int32, 1000))
	own(t, v, err)
	copies()
	require.NoError(t, a.WriteChunk(t.Context(), []int64{0}, v))
	assert.EqualValues(t, 1, copies())
}

// Host codecs encode elements that lie on a device, and decode to a device.
func TestHostCodecsEncodeElementsOfDevices(t *testing.T) {
	lists := map[string]codec.List{
		"blosc":     {codec.Bytes{Endian: codec.Little}, codec.Blosc{Compressor: blosc.Zstd, Level: 3}},
		"delta":     {codec.Delta{DType: "<i4"}, codec.Bytes{Endian: codec.Big}, codec.LZ4{}},
		"transpose": {codec.Transpose{Order: []int{1, 0}}, codec.Reshape{Shape: []codec.ReshapeExtent{{Size: -1}}}, codec.Bytes{Endian: codec.Little}},
		"cast":      {codec.CastValue{Type: element.Of(ndview.Float64)}, codec.Bytes{Endian: codec.Little}, codec.Zstd{}},
		"packbits":  {codec.PackBits{}, codec.CRC32{}},
		"v2 zstd":   {codec.Bytes{Endian: codec.Little}, codec.Zstd{Level: 1}},
		"v2 delta":  {codec.Delta{DType: "<i4"}, codec.Bytes{Endian: codec.Little}, codec.Blosc{Compressor: blosc.LZ4, Level: 5}},
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		want := make([]int32, 35)
		for i := range want {
			want[i] = int32(i*i - 20)
		}
		v, err := ndview.FromHost(dev, ndview.Int32, want, 7, 5)
		own(t, v, err)
		for name, list := range lists {
			meta := ints([]int64{7, 5}, []int64{4, 3})
			meta.Codecs = list
			if strings.HasPrefix(name, "v2") {
				meta.Format = 2
			}
			a := create(t, store.NewMemory(), name, meta)
			require.NoError(t, a.Write(t.Context(), v, 2), name)
			got, err := a.Read(t.Context(), zarr.PrototypeOn(dev), 2)
			require.NoError(t, err, name)
			nd := got.(*ndview.NDBuffer)
			assert.Equal(t, dev, nd.Device(), name)
			assert.Equal(t, want, host[int32](t, nd), name)
			nd.Release()
		}
	})
}

// Zarr leaves open what is stored outside of the array.
func TestAFillValueWithoutAnEncodingPadsNoChunk(t *testing.T) {
	of := element.Of(ndview.Float32)
	filter := codec.FixedScaleOffset{Offset: "5", Scale: "10", DType: "<f4", AsType: "|u1"} // 0 would be -50
	for name, list := range map[string]codec.List{
		"chunks": {filter, codec.Bytes{}},
		"shards": {codec.Sharding{ChunkShape: []int64{2, 2}, Codecs: codec.List{filter, codec.Bytes{}}}},
	} {
		t.Run(name, func(t *testing.T) {
			a := create(t, store.NewMemory(), "a", &zarr.ArrayMetadata{Shape: []int64{3, 5}, ChunkShape: []int64{2, 4}, DataType: of, Codecs: list})
			want := make([]float32, 15)
			for i := range want {
				want[i] = float32(6 + i)
			}
			require.NoError(t, a.Write(ctx, values(t, ndview.Float32, want, 3, 5), 1))
			assert.Equal(t, want, readAs(t, a, want))
			b := create(t, store.NewMemory(), "b", a.Metadata())
			require.NoError(t, b.Set(ctx, zarr.Select(zarr.List(2, 0, 1), zarr.All), values(t, ndview.Float32, slices.Concat(want[10:], want[:10]), 3, 5), 1))
			assert.Equal(t, want, readAs(t, b, want))
			shape, err := b.Append(ctx, values(t, ndview.Float32, want[:5], 1, 5), 0, 1)
			require.NoError(t, err)
			assert.Equal(t, []int64{4, 5}, shape)
			assert.Equal(t, slices.Concat(want, want[:5]), readAs(t, b, want))

			c := create(t, store.NewMemory(), "c", a.Metadata())
			err = c.Set(ctx, zarr.Select(zarr.At(0), zarr.At(0)), float32(7), 1)
			assert.ErrorContains(t, err, "not in the range", "elements of the array that would be lost")
		})
	}
}
