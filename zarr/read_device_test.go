package zarr_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress/blosc"
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

// deviceArrays are arrays whose chunks a GPU encodes and decodes, some of them only in
// part, larger than what the host does for it: in place, by way of their own buffers, in
// shards, with chunks that are not stored.
func deviceArrays() map[string]*zarr.ArrayMetadata {
	zstd, crc := codec.Zstd{Level: 1}, codec.Zstd{Level: 3, Checksum: true}
	inShards := ints([]int64{1000, 700}, []int64{400, 400})
	inShards.Codecs = codec.List{codec.Sharding{ChunkShape: []int64{100, 80}, Codecs: codec.List{codec.Bytes{Endian: codec.Little}, crc}, IndexCodecs: codec.List{codec.Bytes{Endian: codec.Little}, codec.CRC32C{}}}}
	of := func(dtype ndview.DType, shape, chunk []int64, codecs ...codec.Codec) *zarr.ArrayMetadata {
		return &zarr.ArrayMetadata{Shape: shape, DataType: element.Of(dtype), ChunkShape: chunk, Codecs: codecs}
	}
	little, big := codec.Bytes{Endian: codec.Little}, codec.Bytes{Endian: codec.Big}
	return map[string]*zarr.ArrayMetadata{
		"big endian":            of(ndview.Float64, []int64{500, 700}, []int64{128, 300}, big, zstd),
		"big endian plain":      of(ndview.Complex64, []int64{500, 700}, []int64{128, 700}, big),
		"transposed":            of(ndview.Int16, []int64{40, 100, 300}, []int64{7, 30, 100}, codec.Transpose{Order: []int{2, 0, 1}}, little, zstd),
		"transposed plain":      of(ndview.Int16, []int64{1000, 700}, []int64{300, 128}, codec.Transpose{Order: []int{1, 0}}, little),
		"transposed big endian": of(ndview.Uint32, []int64{1000, 700}, []int64{300, 128}, codec.Transpose{Order: []int{1, 0}}, big, codec.LZ4{}),
		"bools":                 of(ndview.Bool, []int64{1100, 1000}, []int64{128, 1000}, codec.Bytes{}, zstd),
		"bytes":                 of(ndview.Uint8, []int64{1_100_000}, []int64{100_001}, codec.Bytes{}, zstd),
		"shuffle":               of(ndview.Int32, []int64{1000, 700}, []int64{100, 700}, little, codec.Shuffle{ElementSize: 4}, zstd),
		"checksum":              of(ndview.Int32, []int64{1000, 700}, []int64{100, 700}, little, zstd, codec.CRC32C{}),
		"checksum alone":        of(ndview.Int32, []int64{1000, 700}, []int64{100, 700}, little, codec.CRC32C{Location: codec.Start}),
		"host after device":     of(ndview.Int32, []int64{1000, 700}, []int64{100, 700}, little, zstd, codec.Adler32{}),
		"device after host":     of(ndview.Int32, []int64{1000, 700}, []int64{100, 700}, little, codec.Adler32{}, zstd),
		"host":                  of(ndview.Int32, []int64{1000, 700}, []int64{100, 700}, codec.Delta{DType: "<i4"}, little, zstd),
		"gzip":                  of(ndview.Int32, []int64{1000, 700}, []int64{100, 700}, little, codec.Gzip{Level: 1}),
		"blosc":                 of(ndview.Int32, []int64{1000, 700}, []int64{100, 700}, little, codec.Blosc{Compressor: blosc.Zstd, Level: 1, Shuffle: codec.BloscBytes}),
		"blosc in shards": of(ndview.Float64, []int64{500, 700}, []int64{200, 400}, codec.Sharding{ChunkShape: []int64{50, 80},
			Codecs: codec.List{little, codec.Blosc{Compressor: blosc.LZ4, Level: 5, Shuffle: codec.BloscBits}}, IndexLocation: codec.Start}),
		"rows":          ints([]int64{400_000}, []int64{30_000}, zstd),
		"planes":        ints([]int64{30, 100, 100}, []int64{4, 100, 100}, crc),
		"boxes":         ints([]int64{1000, 700}, []int64{128, 300}, zstd),
		"lz4":           ints([]int64{1000, 700}, []int64{100, 700}, codec.LZ4{Acceleration: 1}),
		"shards":        inShards,
		"plain":         ints([]int64{1000, 700}, []int64{300, 700}),
		"plain shards":  sharded([]int64{1000, 700}, []int64{400, 400}, []int64{100, 80}),
		"one big chunk": ints([]int64{600, 600}, []int64{1000, 1000}, zstd),
	}
}

// smoothValues returns values of which the last third is the fill value, so that some
// chunks are not stored.
func smoothValues(t *testing.T, a *zarr.Array) *ndview.NDBuffer {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	raw := make([]int32, size(a.Shape()))
	for i := range raw[:len(raw)*2/3] {
		raw[i] = int32(i/7 + r.IntN(3))
	}
	dtype, _ := a.Metadata().DataType.DType()
	all, err := values(t, ndview.Int32, raw, a.Shape()...).AsType(dtype, ndview.OrderC, ndview.CastUnsafe)
	require.NoError(t, err)
	t.Cleanup(all.Release)
	return all
}

// writeSmooth writes smoothValues.
func writeSmooth(t *testing.T, a *zarr.Array) {
	t.Helper()
	require.NoError(t, a.Write(t.Context(), smoothValues(t, a), 0))
}

func TestDevicesReadWhatTheHostReads(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for name, meta := range deviceArrays() {
			t.Run(name, func(t *testing.T) {
				a := create(t, store.NewMemory(), "a", meta)
				writeSmooth(t, a)
				want, err := a.Read(t.Context(), zarr.PrototypeOn(arrowbuf.CPU()), 0)
				require.NoError(t, err)
				defer want.Release()
				got, err := a.Read(t.Context(), zarr.PrototypeOn(dev), 0)
				require.NoError(t, err)
				defer got.Release()
				require.True(t, bytes.Equal(bytesOf(t, want), bytesOf(t, got)))

				rows := a.Shape()[0]
				for _, span := range [][2]int64{{1, rows}, {rows / 5, rows - 1}, {rows / 2, rows/2 + 1}} {
					want, err := a.ReadRows(t.Context(), zarr.PrototypeOn(arrowbuf.CPU()), span[0], span[1], 0)
					require.NoError(t, err)
					got, err := a.ReadRows(t.Context(), zarr.PrototypeOn(dev), span[0], span[1], 0)
					require.NoError(t, err)
					require.True(t, bytes.Equal(bytesOf(t, want), bytesOf(t, got)), "rows %v", span)
					want.Release()
					got.Release()
				}
			})
		}
	})
}

// TestDevicesDecodeChunks counts launches of arrays that need no other kernels: the
// comparison above would also pass if the host decoded everything.
func TestDevicesDecodeChunks(t *testing.T) {
	for name, c := range map[string]struct {
		codec    codec.Codec
		launches int64
	}{"zstd": {codec.Zstd{Level: 1}, 7}, "lz4": {codec.LZ4{Acceleration: 1}, 6}, "gzip": {codec.Gzip{Level: 1}, 2}, "adler32": {codec.Adler32{}, 0}} {
		var launches atomic.Int64
		drv := cudatest.Start(t, cudatest.Config{Fail: func(call string, _ int) cudabuf.Result {
			if strings.Contains(call, "LaunchKernel") {
				launches.Add(1)
			}
			return 0
		}})
		dev, err := drv.Device(0)
		require.NoError(t, err)
		a := create(t, store.NewMemory(), "a", ints([]int64{400_000}, []int64{40_000}, c.codec))
		raw := make([]int32, 400_000)
		for i := range raw {
			raw[i] = int32(i/3 + 1)
		}
		require.NoError(t, a.Write(t.Context(), values(t, ndview.Int32, raw, 400_000), 0))
		launches.Store(0)
		got, err := a.Read(t.Context(), zarr.PrototypeOn(dev), 1)
		require.NoError(t, err)
		got.Release()
		assert.Equal(t, c.launches, launches.Load(), name)
	}
}

func TestACorruptChunkIsTheSameErrorOnEveryDevice(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for name, meta := range deviceArrays() {
			mem := store.NewMemory()
			a := create(t, mem, "a", meta)
			writeSmooth(t, a)
			var key string
			for _, k := range keysOf(t, mem) {
				if strings.HasPrefix(k, "a/c/") && !strings.Contains(k, "zarr.json") {
					key = k
				}
			}
			raw, err := mem.Get(t.Context(), key, store.Range{})
			require.NoError(t, err)
			raw = bytes.Clone(raw)
			if strings.Contains(name, "plain") {
				raw = raw[:len(raw)-1]
			}
			for i := 4; i < min(len(raw)/2, 60); i++ {
				raw[i] ^= 0x5A
			}
			require.NoError(t, mem.Set(t.Context(), key, raw))
			read := func(dev arrowbuf.Device) error {
				v, err := a.Read(t.Context(), zarr.PrototypeOn(dev), 1)
				if err == nil {
					v.Release()
				}
				return err
			}
			want := read(arrowbuf.CPU())
			require.Error(t, want, name)
			require.EqualError(t, read(dev), want.Error(), name)
		}
	})
}

// TestDevicesReadFillValues reads an array without any chunk.
func TestDevicesReadFillValues(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		meta := ints([]int64{700, 700}, []int64{100, 300}, codec.Zstd{Level: 1})
		meta.FillValue = []byte{1, 2, 3, 4}
		a := create(t, store.NewMemory(), "a", meta)
		got, err := a.Read(t.Context(), zarr.PrototypeOn(dev), 0)
		require.NoError(t, err)
		defer got.Release()
		require.Equal(t, bytes.Repeat([]byte{1, 2, 3, 4}, 700*700), bytesOf(t, got))
	})
}

// Kernels refuse bytes after a stream, which the host then decodes.
func TestBytesAfterStreamsAreIgnoredOnEveryDevice(t *testing.T) {
	numbers := make([]int32, 5000)
	for i := range numbers {
		numbers[i] = int32(i * i)
	}
	for _, c := range []codec.Codec{codec.Gzip{Level: 1}, codec.Zlib{Level: 1}, codec.Blosc{Compressor: blosc.LZ4, Level: 5}, codec.Blosc{Compressor: blosc.Zstd, Level: 1}} {
		s := store.NewMemory()
		a := create(t, s, "a", ints([]int64{5000}, []int64{1000}, c))
		require.NoError(t, a.Write(ctx, values(t, ndview.Int32, numbers, 5000), 1))
		for i := range 5 {
			key := fmt.Sprintf("a/c/%d", i)
			chunk, err := s.Get(ctx, key, store.Range{})
			require.NoError(t, err)
			require.NoError(t, s.Set(ctx, key, append(slices.Clone(chunk), make([]byte, 7*i)...)))
		}
		cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
			v, err := a.Read(ctx, zarr.PrototypeOn(dev), 1)
			require.NoError(t, err, c.Name())
			defer v.Release()
			raw, err := binary.Append(nil, binary.LittleEndian, numbers)
			require.NoError(t, err)
			assert.Equal(t, raw, bytesOf(t, v), c.Name())
		})
	}
}
