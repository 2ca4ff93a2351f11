package codec_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress/blosc"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
)

// batchChain returns a chain for 1000 int32.
func batchChain(t *testing.T, list ...codec.Codec) *codec.Chain {
	t.Helper()
	chain, err := codec.List(list).Compile(codec.ChunkSpec{Type: element.Of(ndview.Int32), Shape: []int64{1000}, Fill: []byte{7, 0, 0, 0}})
	require.NoError(t, err)
	return chain
}

// batchValues returns first, first+step, ... on a device.
func batchValues(t *testing.T, dev arrowbuf.Device, n int, first, step int32) *ndview.NDBuffer {
	t.Helper()
	raw := make([]int32, n)
	for i := range raw {
		raw[i] = first + int32(i)*step
	}
	v, err := ndview.FromHost(dev, ndview.Int32, raw, int64(n))
	require.NoError(t, err)
	t.Cleanup(v.Release)
	return v
}

// encodeAll returns the encodings of a batch.
func encodeAll(t *testing.T, items []codec.EncodeItem, o codec.BatchOptions) [][]byte {
	t.Helper()
	var mu sync.Mutex
	seen, encodings := map[int]bool{}, make([][]byte, len(items))
	require.NoError(t, codec.EncodeBatch(items, o, func(i int, encoded []byte, err error) error {
		mu.Lock()
		defer mu.Unlock()
		if seen[i] {
			return fmt.Errorf("item %d comes again", i)
		}
		seen[i], encodings[i] = true, bytes.Clone(encoded)
		return err
	}))
	require.Len(t, seen, len(items))
	return encodings
}

// Chunks of different chains, one of fill values, one smaller than its chunk.
func TestABatchDecodesToWhatItEncoded(t *testing.T) {
	little := codec.Bytes{Endian: codec.Little}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		var items []codec.EncodeItem
		for _, list := range [][]codec.Codec{
			{little}, {codec.Bytes{Endian: codec.Big}}, {little, codec.Zstd{Level: 1}}, {little, codec.Zstd{Level: 3, Checksum: true}},
			{little, codec.LZ4{}}, {little, codec.LZ4{}, codec.Zstd{Level: 1}, codec.CRC32C{}}, {little, codec.Adler32{}, codec.Zstd{}},
			{codec.Delta{DType: "<i4"}, little, codec.Zstd{}}, {little, codec.Shuffle{ElementSize: 4}, codec.Zstd{Level: 1}},
			{little, codec.Shuffle{ElementSize: 400}, codec.LZ4{}}, {little, codec.CRC32C{Location: codec.Start}},
			{little, codec.Blosc{Compressor: blosc.Zstd, Level: 1, Shuffle: codec.BloscBytes}}, {little, codec.Blosc{Compressor: blosc.LZ4, Level: 5, Shuffle: codec.BloscBits}},
			{little, codec.Blosc{Compressor: blosc.BloscLZ, Level: 5}}, {little, codec.Blosc{Compressor: blosc.LZ4HC, Level: 5}},
			{little, codec.CRC32C{}, codec.LZ4{}}, {little, codec.Gzip{Level: 6}}, {little, codec.Shuffle{ElementSize: 4}, codec.Zlib{Level: 1}},
		} {
			chain := batchChain(t, list...)
			items = append(items,
				codec.EncodeItem{Chain: chain, Values: batchValues(t, dev, 1000, int32(len(items)), 3)},
				codec.EncodeItem{Chain: chain, Values: batchValues(t, dev, 1000, 7, 0)},
				codec.EncodeItem{Chain: chain, Values: batchValues(t, dev, 1000, 7, 0), KeepEmpty: true},
				codec.EncodeItem{Chain: chain, Values: batchValues(t, dev, 10, 1, 1)})
		}
		encodings := encodeAll(t, items, codec.BatchOptions{Jobs: 2})
		var back []codec.DecodeItem
		var want []byte
		for i, item := range items {
			enc := encodings[i]
			if i%4 == 1 {
				require.Nil(t, enc, "item %d equals the fill value", i)
				continue
			}
			require.NotNil(t, enc)
			s := codec.GetScratch()
			single := make([]byte, 4000)
			require.NoError(t, item.Chain.DecodeFixed(s, single, enc), "item %d", i)
			s.Release()
			back = append(back, codec.DecodeItem{Chain: item.Chain, Encoded: enc, At: int64(len(want))})
			raw := make([]byte, item.Values.(*ndview.NDBuffer).NBytes())
			require.NoError(t, item.Values.(*ndview.NDBuffer).CopyToHost(raw))
			raw = slices.Concat(raw, bytes.Repeat([]byte{7, 0, 0, 0}, (4000-len(raw))/4))
			require.Equal(t, raw, single, "item %d", i)
			want = append(want, raw...)
		}
		dst, err := dev.Alloc(int64(len(want)))
		require.NoError(t, err)
		defer dst.Release()
		errs, err := codec.DecodeBatch(dst, back, codec.BatchOptions{Jobs: 2})
		require.NoError(t, err)
		got := make([]byte, len(want))
		_, err = dst.CopyToHost(got, 0)
		require.NoError(t, err)
		for i := range errs {
			require.NoError(t, errs[i])
			require.Equal(t, want[4000*i:][:4000], got[4000*i:][:4000], "item %d", i)
		}
	})
}

// More pieces than there are at a time, of several batches.
func TestBatchesShareHostPieces(t *testing.T) {
	dev := cudatest.NewDevice(t)
	const n, chunks = 1 << 20, 8 // 4 MiB each
	chain, err := codec.List{codec.Bytes{Endian: codec.Little}, codec.Shuffle{ElementSize: 4}}.Compile(codec.ChunkSpec{Type: element.Of(ndview.Int32), Shape: []int64{n}, Fill: make([]byte, 4)})
	require.NoError(t, err)
	var items []codec.EncodeItem
	for i := range chunks {
		items = append(items, codec.EncodeItem{Chain: chain, Values: batchValues(t, dev, n, int32(i), 3)})
	}
	var pieces codec.HostPieces
	defer pieces.Release()
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			assert.NoError(t, codec.EncodeBatch(items, codec.BatchOptions{Jobs: 2, Pieces: &pieces}, func(i int, encoded []byte, err error) error {
				// The first bytes of the elements i, i+3, ..., then the second ones.
				for _, at := range []int{0, 1, n - 1, n, 2*n - 1} {
					if element := uint32(i + at%n*3); err == nil && encoded[at] != byte(element>>(8*(at/n))) {
						err = fmt.Errorf("chunk %d: byte %d is %d", i, at, encoded[at])
					}
				}
				return err
			}))
		})
	}
	all.Wait()
}

func TestHostPiecesThatCannotBePinnedAreTheErrorOfTheBatch(t *testing.T) {
	drv := cudatest.Start(t, cudatest.Config{Fail: cudatest.FailFrom("cuMemHostRegister", 1, 2)}) // CUDA_ERROR_OUT_OF_MEMORY
	dev, err := drv.Device(0)
	require.NoError(t, err)
	const n = 8 << 20
	chain, err := codec.List{codec.Bytes{Endian: codec.Little}, codec.Shuffle{ElementSize: 4}}.Compile(codec.ChunkSpec{Type: element.Of(ndview.Int32), Shape: []int64{n / 8}, Fill: make([]byte, 4)})
	require.NoError(t, err)
	var items []codec.EncodeItem
	for i := range 8 {
		items = append(items, codec.EncodeItem{Chain: chain, Values: batchValues(t, dev, n/8, int32(i), 3)})
	}
	var pieces codec.HostPieces
	defer pieces.Release()
	err = codec.EncodeBatch(items, codec.BatchOptions{Pieces: &pieces}, func(int, []byte, error) error { return nil })
	require.ErrorIs(t, err, arrowbuf.ErrOutOfMemory)
}

func TestACorruptChunkLeavesTheOthersOfItsBatch(t *testing.T) {
	for name, list := range map[string][]codec.Codec{
		"zstd": {codec.Zstd{Level: 1, Checksum: true}}, "lz4": {codec.LZ4{}}, "checksum": {codec.Zstd{Level: 1}, codec.CRC32C{}},
		"checksum first": {codec.CRC32C{}, codec.Zstd{Level: 1}}, "plain": nil, "gzip": {codec.Gzip{Level: 1}}, "zlib": {codec.Zlib{Level: 1}},
	} {
		chain := batchChain(t, append([]codec.Codec{codec.Bytes{Endian: codec.Little}}, list...)...)
		cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
			items := make([]codec.EncodeItem, 5)
			for i := range items {
				items[i] = codec.EncodeItem{Chain: chain, Values: batchValues(t, dev, 1000, int32(1000*i), 7)}
			}
			encodings := encodeAll(t, items, codec.BatchOptions{})
			back := make([]codec.DecodeItem, len(items))
			for i := range items {
				back[i] = codec.DecodeItem{Chain: chain, Encoded: encodings[i], At: int64(4000 * i)}
			}
			back[1].Encoded = back[1].Encoded[:len(back[1].Encoded)-5]
			back[3].Encoded = append([]byte{1, 2, 3}, back[3].Encoded...)
			dst, err := dev.Alloc(20_000)
			require.NoError(t, err)
			defer dst.Release()
			lent := slices.Clone(back) // memory that the caller uses again when it may
			for i := range lent {
				lent[i].Encoded = bytes.Clone(back[i].Encoded)
			}
			copied := 0
			errs, err := codec.DecodeBatch(dst, lent, codec.BatchOptions{OnCopied: func() {
				copied++
				for _, item := range lent {
					clear(item.Encoded)
				}
			}})
			require.NoError(t, err)
			require.Equal(t, 1, copied)
			got := make([]byte, 20_000)
			_, err = dst.CopyToHost(got, 0)
			require.NoError(t, err)
			for i, item := range items {
				if i%2 == 1 {
					require.Error(t, errs[i], "%s: item %d", name, i)
					single := chain.DecodeFixed(new(codec.Scratch), make([]byte, 4000), back[i].Encoded)
					require.EqualError(t, errs[i], single.Error(), "the error is the host's")
					continue
				}
				require.NoError(t, errs[i], "%s: item %d", name, i)
				want := make([]byte, 4000)
				require.NoError(t, item.Values.(*ndview.NDBuffer).CopyToHost(want))
				require.Equal(t, want, got[4000*i:][:4000], "%s: item %d", name, i)
			}
		})
	}
}

// Several compressors may make a chunk larger than an input of a batch may be.
func TestAHugeCorruptChunkIsAnErrorOfItself(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 3 GiB of memory")
	}
	dev, err := cudatest.Start(t, cudatest.Config{MemoryBytes: 4 << 30}).Device(0)
	require.NoError(t, err)
	const n = 600 << 20
	z := codec.Zstd{Level: 1}
	chain, err := codec.List{codec.Bytes{}, z, z, z}.Compile(codec.ChunkSpec{Type: element.Of(ndview.Uint8), Shape: []int64{n}, Fill: []byte{1}})
	require.NoError(t, err)
	dst, err := dev.Alloc(n)
	require.NoError(t, err)
	defer dst.Release()
	errs, err := codec.DecodeBatch(dst, []codec.DecodeItem{{Chain: chain, Encoded: make([]byte, 100_000)}}, codec.BatchOptions{})
	require.NoError(t, err)
	require.ErrorContains(t, errs[0], "magic number")
}

// Encoding is on the device up to the first step without kernels, and decoding from the
// last one on.
func TestStatsSayWhereEachStepRan(t *testing.T) {
	device := cudatest.NewDevice(t)
	little := codec.Bytes{Endian: codec.Little}
	for _, c := range []struct {
		list             []codec.Codec
		encoded, decoded map[string]codec.Engine
	}{
		{[]codec.Codec{little}, map[string]codec.Engine{"bytes": codec.OnHost}, map[string]codec.Engine{"bytes": codec.OnDevice}},
		{[]codec.Codec{codec.Bytes{Endian: codec.Big}}, map[string]codec.Engine{"bytes": codec.OnDevice}, map[string]codec.Engine{"bytes": codec.OnDevice}},
		{
			[]codec.Codec{little, codec.Zstd{Level: 1}},
			map[string]codec.Engine{"bytes": codec.OnDevice, "zstd": codec.OnDevice}, map[string]codec.Engine{"bytes": codec.OnDevice, "zstd": codec.OnDevice},
		},
		{
			[]codec.Codec{little, codec.LZ4{}, codec.Adler32{}},
			map[string]codec.Engine{"bytes": codec.OnDevice, "numcodecs.lz4": codec.OnDevice, "numcodecs.adler32": codec.OnHost},
			map[string]codec.Engine{"bytes": codec.OnDevice, "numcodecs.lz4": codec.OnDevice, "numcodecs.adler32": codec.OnHost},
		},
		{
			[]codec.Codec{codec.Bytes{Endian: codec.Big}, codec.Adler32{}, codec.LZ4{}},
			map[string]codec.Engine{"bytes": codec.OnDevice, "numcodecs.lz4": codec.OnHost, "numcodecs.adler32": codec.OnHost},
			map[string]codec.Engine{"bytes": codec.OnDevice, "numcodecs.lz4": codec.OnHost, "numcodecs.adler32": codec.OnHost},
		},
		{
			[]codec.Codec{little, codec.Shuffle{ElementSize: 4}, codec.Zstd{Level: 1}, codec.CRC32C{}},
			map[string]codec.Engine{"bytes": codec.OnDevice, "numcodecs.shuffle": codec.OnDevice, "zstd": codec.OnDevice, "crc32c": codec.OnDevice},
			map[string]codec.Engine{"bytes": codec.OnDevice, "numcodecs.shuffle": codec.OnDevice, "zstd": codec.OnDevice, "crc32c": codec.OnDevice},
		},
		{
			[]codec.Codec{little, codec.Shuffle{ElementSize: 400}, codec.Zstd{Level: 1}},
			map[string]codec.Engine{"bytes": codec.OnHost, "numcodecs.shuffle": codec.OnHost, "zstd": codec.OnHost},
			map[string]codec.Engine{"bytes": codec.OnDevice, "numcodecs.shuffle": codec.OnHost, "zstd": codec.OnHost},
		},
		{
			[]codec.Codec{little, codec.Blosc{Compressor: blosc.Zstd, Level: 1, Shuffle: codec.BloscBytes}},
			map[string]codec.Engine{"bytes": codec.OnDevice, "blosc": codec.OnDevice}, map[string]codec.Engine{"bytes": codec.OnDevice, "blosc": codec.OnDevice},
		},
		{
			[]codec.Codec{little, codec.Blosc{Compressor: blosc.LZ4HC, Level: 1, Shuffle: codec.BloscBytes}},
			map[string]codec.Engine{"bytes": codec.OnHost, "blosc": codec.OnHost}, map[string]codec.Engine{"bytes": codec.OnDevice, "blosc": codec.OnDevice},
		},
		{
			[]codec.Codec{little, codec.Blosc{Compressor: blosc.BloscLZ, Level: 1, Shuffle: codec.BloscBytes}},
			map[string]codec.Engine{"bytes": codec.OnHost, "blosc": codec.OnHost}, map[string]codec.Engine{"bytes": codec.OnDevice, "blosc": codec.OnHost},
		},
		{
			[]codec.Codec{little, codec.Shuffle{ElementSize: 4}, codec.Gzip{Level: 1}},
			map[string]codec.Engine{"bytes": codec.OnDevice, "numcodecs.shuffle": codec.OnDevice, "gzip": codec.OnHost},
			map[string]codec.Engine{"bytes": codec.OnDevice, "numcodecs.shuffle": codec.OnDevice, "gzip": codec.OnDevice},
		},
		{
			[]codec.Codec{codec.Delta{DType: "<i4"}, little, codec.Zstd{Level: 1}},
			map[string]codec.Engine{"bytes": codec.OnHost, "zstd": codec.OnHost}, map[string]codec.Engine{"bytes": codec.OnHost, "zstd": codec.OnHost},
		},
	} {
		chain, encoding, decoding := batchChain(t, c.list...), new(codec.Stats), new(codec.Stats)
		var items []codec.EncodeItem
		for i := range 3 {
			items = append(items, codec.EncodeItem{Chain: chain, Values: batchValues(t, device, 1000, int32(i), 2), Stats: encoding})
		}
		encodings := encodeAll(t, items, codec.BatchOptions{})
		dst, err := device.Alloc(12_000)
		require.NoError(t, err)
		var back []codec.DecodeItem
		for i := range items {
			back = append(back, codec.DecodeItem{Chain: chain, Encoded: encodings[i], At: int64(4000 * i), Stats: decoding})
		}
		_, err = codec.DecodeBatch(dst, back, codec.BatchOptions{})
		require.NoError(t, err)
		dst.Release()
		for decode, want := range map[bool]map[string]codec.Engine{false: c.encoded, true: c.decoded} {
			stats := encoding
			if decode {
				stats = decoding
			}
			got := map[string]codec.Engine{}
			for _, n := range stats.Counts() {
				got[n.Codec] = n.Engine
				assert.Equal(t, decode, n.Decode)
				assert.EqualValues(t, 3, n.Chunks, n.Codec)
			}
			assert.Equal(t, want, got, "%v, decoded: %v", c.list, decode)
		}
	}
}

// Kernels refuse bytes after a Blosc chunk, so the host decodes the chunk again from its
// checksum on.
func TestAChunkThatTheHostDecodesCountsOnce(t *testing.T) {
	device := cudatest.NewDevice(t)
	list := codec.List{codec.Bytes{Endian: codec.Little}, codec.Blosc{Compressor: blosc.LZ4, Level: 5}, codec.CRC32C{}, codec.Adler32{}}
	chain := batchChain(t, list...)
	raw := bytes.Repeat([]byte{1, 2, 3, 4}, 1000)
	chunk, err := blosc.EncodeChunk(nil, raw, blosc.Options{Compressor: blosc.LZ4, Level: 5, TypeSize: 4})
	require.NoError(t, err)
	chunk = append(chunk, 0)
	for _, c := range list[2:] {
		chunk, err = c.(codec.BytesCodec).Encode(nil, chunk)
		require.NoError(t, err)
	}
	dst, err := device.Alloc(4000)
	require.NoError(t, err)
	defer dst.Release()
	stats := new(codec.Stats)
	errs, err := codec.DecodeBatch(dst, []codec.DecodeItem{{Chain: chain, Encoded: chunk, Stats: stats}}, codec.BatchOptions{})
	require.NoError(t, err)
	require.NoError(t, errs[0])
	got := make([]byte, 4000)
	_, err = dst.CopyToHost(got, 0)
	require.NoError(t, err)
	require.Equal(t, raw, got)
	require.Len(t, stats.Counts(), len(list))
	for _, n := range stats.Counts() {
		assert.Equal(t, codec.OnHost, n.Engine, n.Codec)
		assert.EqualValues(t, 1, n.Chunks, n.Codec)
	}
}

// maskedZstd and maskedBlosc are codecs that embed ones with kernels, and change their bytes.
type (
	maskedZstd struct {
		codec.Zstd
		mask []byte // makes the type no key of a map
	}
	maskedBlosc struct{ codec.Blosc }
)

func (c maskedZstd) Encode(dst, src []byte) ([]byte, error) {
	out, err := c.Zstd.Encode(nil, src)
	return append(dst, mask(out)...), err
}

func (c maskedZstd) Decode(dst, src []byte, limit int64) ([]byte, error) {
	return c.Zstd.Decode(dst, mask(src), limit)
}

func (c maskedBlosc) Encode(dst, src []byte) ([]byte, error) {
	out, err := c.Blosc.Encode(nil, src)
	return append(dst, mask(out)...), err
}

func (c maskedBlosc) Decode(dst, src []byte, limit int64) ([]byte, error) {
	return c.Blosc.Decode(dst, mask(src), limit)
}

func mask(b []byte) []byte {
	out := bytes.Clone(b)
	for i := range out {
		out[i] ^= 0x55
	}
	return out
}

func TestDevicesUseNoKernelsForCodecsThatEmbedTheirs(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, c := range []codec.BytesCodec{maskedZstd{mask: []byte{0x55}}, maskedBlosc{codec.Blosc{Compressor: blosc.LZ4, Level: 5, Shuffle: codec.BloscBytes}}} {
			chain := batchChain(t, codec.Bytes{Endian: codec.Little}, codec.Shuffle{ElementSize: 4}, c)
			v := batchValues(t, dev, 1000, 1, 3)
			encoded := encodeAll(t, []codec.EncodeItem{{Chain: chain, Values: v}}, codec.BatchOptions{})[0]
			shuffled, err := c.Decode(nil, encoded, 4000)
			require.NoError(t, err)
			require.Len(t, shuffled, 4000)
			dst, err := dev.Alloc(4000)
			require.NoError(t, err)
			defer dst.Release()
			errs, err := codec.DecodeBatch(dst, []codec.DecodeItem{{Chain: chain, Encoded: encoded}}, codec.BatchOptions{})
			require.NoError(t, err)
			require.NoError(t, errs[0])
			got, want := make([]byte, 4000), make([]byte, 4000)
			_, err = dst.CopyToHost(got, 0)
			require.NoError(t, err)
			require.NoError(t, v.CopyToHost(want))
			require.Equal(t, want, got)
		}
	})
}

func TestDevicesEncodeWithTheErrorOfTheHost(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		items := []codec.EncodeItem{{Chain: batchChain(t, codec.Bytes{Endian: codec.Little}, codec.Shuffle{ElementSize: 7}), Values: batchValues(t, dev, 1000, 1, 1)}}
		require.NoError(t, codec.EncodeBatch(items, codec.BatchOptions{}, func(_ int, encoded []byte, err error) error {
			assert.Nil(t, encoded)
			assert.EqualError(t, err, `codec "numcodecs.shuffle": 4000 bytes are not a multiple of 7`)
			return nil
		}))
	})
}

func TestABatchRefusesItemsThatAreNotValid(t *testing.T) {
	chain := batchChain(t, codec.Bytes{Endian: codec.Little})
	dst, err := arrowbuf.CPU().Alloc(4000)
	require.NoError(t, err)
	defer dst.Release()
	_, err = codec.DecodeBatch(dst, []codec.DecodeItem{{Chain: chain, At: 1}}, codec.BatchOptions{})
	assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
	_, err = codec.DecodeBatch(dst, []codec.DecodeItem{{}}, codec.BatchOptions{})
	assert.ErrorContains(t, err, "item 0: nil chain")
	use := func(int, []byte, error) error { return errors.New("use is called") }
	err = codec.EncodeBatch([]codec.EncodeItem{{Values: batchValues(t, arrowbuf.CPU(), 1, 0, 0)}}, codec.BatchOptions{}, use)
	assert.ErrorContains(t, err, "item 0: nil chain")
	err = codec.EncodeBatch([]codec.EncodeItem{{Chain: chain}}, codec.BatchOptions{}, use)
	assert.ErrorContains(t, err, "item 0: ")
	assert.ErrorContains(t, codec.EncodeBatch(nil, codec.BatchOptions{}, nil), "nil function")
}

func TestABatchEndsWithTheFirstErrorOfItsUser(t *testing.T) {
	failure := errors.New("disk full")
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		chain := batchChain(t, codec.Bytes{Endian: codec.Big}, codec.CRC32C{})
		var items []codec.EncodeItem
		for i := range 100 {
			items = append(items, codec.EncodeItem{Chain: chain, Values: batchValues(t, dev, 1000, int32(i), 1)})
		}
		var calls atomic.Int64
		encoded := 0
		err := codec.EncodeBatch(items, codec.BatchOptions{Jobs: 1, OnEncoded: func() { encoded++ }}, func(int, []byte, error) error {
			if calls.Add(1) == 3 {
				return failure
			}
			return nil
		})
		require.ErrorIs(t, err, failure)
		assert.Less(t, calls.Load(), int64(10))
		assert.Equal(t, 1, encoded)
	})
}
