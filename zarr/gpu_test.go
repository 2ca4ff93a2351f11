package zarr_test

import (
	"path/filepath"
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

// The tests of this file assert what zarr-python's tests with the marker "gpu" assert.
// The rows about GpuMemoryStore are tests of package store, on a store of device memory.

// TestGPUPrototypeMakesDeviceBuffers is test_gpu_buffer_prototype and test_nd_array_like.
func TestGPUPrototypeMakesDeviceBuffers(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		to := zarr.PrototypeOn(dev)
		empty, err := to.Buffer(0)
		require.NoError(t, err)
		defer empty.Release()
		assert.Equal(t, arrowbuf.Device(dev), empty.Device())
		assert.Zero(t, empty.Len())
		pair, err := to.NDBuffer(ndview.Int64, 1, 2)
		require.NoError(t, err)
		defer pair.Release()
		assert.Equal(t, arrowbuf.Device(dev), pair.Device())
		assert.Equal(t, []int64{1, 2}, pair.Shape())
		_, err = pair.Item()
		assert.Error(t, err, "two elements are no scalar")
		one, err := pair.Slice(1, 0, 1)
		require.NoError(t, err)
		defer one.Release()
		require.NoError(t, one.Fill(5))
		item, err := one.Item()
		require.NoError(t, err)
		assert.Equal(t, "5", item.String())
	})
}

// TestGPUEmptyArraysHaveTheAskedLayout is test_empty.
func TestGPUEmptyArraysHaveTheAskedLayout(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for _, shape := range [][]int64{{1, 2}, {10, 20}} {
			for _, dtype := range []ndview.DType{ndview.Int8, ndview.Int64} {
				for _, order := range []ndview.Order{ndview.OrderC, ndview.OrderF} {
					a, err := ndview.New(dev, dtype, shape, ndview.Options{Order: order})
					require.NoError(t, err)
					assert.Equal(t, shape, a.Shape())
					assert.Equal(t, dtype, a.DType())
					if order == ndview.OrderF {
						assert.True(t, a.Flags().FContiguous)
					} else {
						assert.True(t, a.Flags().CContiguous)
					}
					a.Release()
				}
			}
		}
	})
}

// roundTripOnDevice writes random numbers from a device to a part of an array, and reads
// the part to the device.
func roundTripOnDevice(t *testing.T, dev *cudabuf.Device, a *zarr.Array, dtype ndview.DType, part zarr.Selection) {
	t.Helper()
	v, err := a.View(part)
	require.NoError(t, err)
	raw := make([]byte, size(v.Shape())*dtype.Size())
	for i := range raw {
		raw[i] = byte(i*7 + 1)
	}
	src := onDevice(t, dev, dtype, raw, v.Shape())
	require.NoError(t, v.Write(ctx, src, 2))
	got, err := v.Read(ctx, zarr.PrototypeOn(dev), 2)
	require.NoError(t, err)
	defer got.Release()
	nd := got.(*ndview.NDBuffer)
	assert.Equal(t, arrowbuf.Device(dev), nd.Device())
	equal, err := nd.Equal(src)
	require.NoError(t, err)
	assert.True(t, equal)
	onHost, err := v.Read(ctx, zarr.Prototype{}, 1)
	require.NoError(t, err)
	defer onHost.Release()
	assert.Equal(t, raw, bytesOf(t, onHost), "the host sees the same elements")
}

func uint16s(shape, chunk []int64, codecs codec.List) *zarr.ArrayMetadata {
	return &zarr.ArrayMetadata{Shape: shape, ChunkShape: chunk, DataType: element.Of(ndview.Uint16), Codecs: codecs}
}

// TestGPUSelectionsUseThePrototype is test_async_array_gpu_prototype.
func TestGPUSelectionsUseThePrototype(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		a := create(t, store.NewMemory(), "a", uint16s([]int64{9, 9}, []int64{5, 5}, nil))
		roundTripOnDevice(t, dev, a, ndview.Uint16, zarr.Select(zarr.Span(1, 4), zarr.Span(3, 6)))
		roundTripOnDevice(t, dev, a, ndview.Uint16, zarr.Select(zarr.List(8, 0, 4), zarr.SpanStep(0, 9, 2)))
		roundTripOnDevice(t, dev, a, ndview.Uint16, zarr.Points([]int64{8, 0, 4}, []int64{1, 2, 3}))
	})
}

func hostCodecs() codec.List {
	return codec.List{codec.Transpose{Order: []int{1, 0}}, codec.Bytes{Endian: codec.Little},
		codec.Blosc{Level: 5, Shuffle: codec.BloscBytes, TypeSize: 2}, codec.CRC32C{}, codec.Gzip{Level: 1}, codec.Zstd{}}
}

// TestGPUCodecsUseThePrototype is test_codecs_use_of_gpu_prototype.
func TestGPUCodecsUseThePrototype(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		a := create(t, store.NewMemory(), "a", uint16s([]int64{10, 10}, []int64{5, 5}, hostCodecs()))
		roundTripOnDevice(t, dev, a, ndview.Uint16, zarr.Selection{})
		roundTripOnDevice(t, dev, a, ndview.Uint16, zarr.Select(zarr.Span(2, 9), zarr.Span(0, 7)))
	})
}

// TestGPUShardsUseThePrototype is test_sharding_use_of_gpu_prototype.
func TestGPUShardsUseThePrototype(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		shards := codec.List{codec.Sharding{ChunkShape: []int64{5, 5}, Codecs: hostCodecs()}}
		a := create(t, store.NewMemory(), "a", uint16s([]int64{10, 10}, []int64{10, 10}, shards))
		roundTripOnDevice(t, dev, a, ndview.Uint16, zarr.Selection{})
		roundTripOnDevice(t, dev, a, ndview.Uint16, zarr.Select(zarr.Span(2, 9), zarr.Span(0, 7)))
	})
}

// TestGPUBasic is test_gpu_basic: stores by Zarr formats.
func TestGPUBasic(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		zip, err := store.OpenZip(filepath.Join(t.TempDir(), "a.zip"), store.ZipCreate)
		require.NoError(t, err)
		defer func() { require.NoError(t, store.Close(zip)) }()
		for name, s := range map[string]store.Store{"local": store.NewLocal(t.TempDir()), "memory": store.NewMemory(), "zip": zip} {
			for format, path := range map[int]string{0: "default", 2: "v2", 3: "v3"} {
				meta := &zarr.ArrayMetadata{Shape: []int64{100, 100}, ChunkShape: []int64{10, 10}, DataType: element.Of(ndview.Float64),
					Codecs: zarr.DefaultCodecs(element.Of(ndview.Float64))}
				meta.Format = format
				a, err := zarr.OpenMode(ctx, s, path, zarr.ModeCreate, meta)
				require.NoError(t, err, "%s %d", name, format)
				roundTripOnDevice(t, dev, a, ndview.Float64, zarr.Select(zarr.Span(0, 10), zarr.Span(0, 10)))
			}
		}
	})
}
