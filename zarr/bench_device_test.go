package zarr_test

import (
	"bytes"
	"context"
	"os"
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
	"github.com/stretchr/testify/require"
)

// arraysVariable names a folder of Zarr arrays for BenchmarkReadToDevice.
const arraysVariable = "QUIVER_BENCH_ARRAYS"

// BenchmarkReadToDevice reads each array of a folder to the GPU, from the page cache.
// Without a GPU it reads a small array to a simulated one.
func BenchmarkReadToDevice(b *testing.B) {
	folder := os.Getenv(arraysVariable)
	if folder == "" || !cudatest.OnGPU() {
		dev := cudatest.NewDevice(b)
		s := store.NewMemory()
		a, err := zarr.Create(ctx, s, "a", ints([]int64{1 << 20}, []int64{1 << 18}, codec.Zstd{Level: 1}))
		require.NoError(b, err)
		raw := make([]int32, 1<<20)
		for i := range raw {
			raw[i] = int32(i / 5)
		}
		nd, err := ndview.FromHost(arrowbuf.CPU(), ndview.Int32, raw, 1<<20)
		require.NoError(b, err)
		defer nd.Release()
		require.NoError(b, a.Write(ctx, nd, 0))
		b.Run("simulated", func(b *testing.B) { benchmarkReadToDevice(b, a, dev) })
		return
	}
	driver, err := cudabuf.Open()
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, driver.Close()) })
	dev, err := driver.Device(0)
	require.NoError(b, err)
	names, err := filepath.Glob(filepath.Join(folder, "*"))
	require.NoError(b, err)
	for _, name := range names {
		a, err := zarr.Open(ctx, store.NewLocal(folder), filepath.Base(name))
		require.NoError(b, err)
		b.Run("cuda/"+filepath.Base(name), func(b *testing.B) { benchmarkReadToDevice(b, a, dev) })
	}
}

func benchmarkReadToDevice(b *testing.B, a *zarr.Array, dev arrowbuf.Device) {
	want, err := a.Read(ctx, zarr.PrototypeOn(arrowbuf.CPU()), 0)
	require.NoError(b, err)
	defer want.Release()
	got, err := a.Read(ctx, zarr.PrototypeOn(dev), 0)
	require.NoError(b, err)
	raw := bytesOf(b, got)
	require.True(b, bytes.Equal(bytesOf(b, want), raw), "values on the device")
	b.SetBytes(int64(len(raw)))
	got.Release()
	for b.Loop() {
		v, err := a.Read(ctx, zarr.PrototypeOn(dev), 0)
		if err != nil {
			b.Fatal(err)
		}
		if err := dev.Synchronize(); err != nil {
			b.Fatal(err)
		}
		v.Release()
	}
}

// dropping stores nothing, so that only the work of arrays is measured.
type dropping struct{ store.Store }

func (dropping) Set(context.Context, string, []byte) error { return nil }

// BenchmarkWriteFromDevice encodes an array of a GPU in chunks that are boxes of it, of
// 64 KiB and of 1 MiB.
func BenchmarkWriteFromDevice(b *testing.B) {
	name, n := "simulated", int64(512)
	var dev arrowbuf.Device
	if cudatest.OnGPU() {
		driver, err := cudabuf.Open()
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, driver.Close()) })
		dev, err = driver.Device(0)
		require.NoError(b, err)
		name, n = "cuda", 16384
	} else {
		dev = cudatest.NewDevice(b)
	}
	raw := make([]float32, n*n)
	for i := range raw {
		raw[i] = float32(i/7%1000) / 8
	}
	v, err := ndview.FromHost(dev, ndview.Float32, raw, n, n)
	require.NoError(b, err)
	defer v.Release()
	for kib, side := range map[string]int64{"64k": 128, "1m": 512} {
		b.Run(name+"/"+kib, func(b *testing.B) {
			meta := &zarr.ArrayMetadata{
				Shape: []int64{n, n}, DataType: element.Of(ndview.Float32), ChunkShape: []int64{side, side},
				Codecs: codec.List{codec.Bytes{Endian: codec.Little}, codec.Shuffle{ElementSize: 4}, codec.Zstd{Level: 1}},
			}
			a, err := zarr.New(dropping{store.NewMemory()}, "a", meta)
			require.NoError(b, err)
			require.NoError(b, a.Write(ctx, v, 0))
			b.SetBytes(n * n * 4)
			for b.Loop() {
				if err := a.Write(ctx, v, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
