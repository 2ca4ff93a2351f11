package blosc_test

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/quiver-gpu/quiver/compress/blosc"
	"github.com/quiver-gpu/quiver/compress/shuffle"
	"github.com/quiver-gpu/quiver/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// recipe is that of testdata/make.py.
func recipe(n, typeSize int) []byte {
	out := make([]byte, n)
	for at := range out {
		i := uint64(at / typeSize)
		out[at] = byte((i/9 + i%3) >> (8 * (at % typeSize % 8)))
	}
	return out
}

//go:embed testdata/chunks.json
var golden []byte

func TestDecodeMatchesNumcodecs(t *testing.T) {
	var chunks []struct {
		Size, TypeSize int
		Name           string
		Chunk          []byte
	}
	require.NoError(t, json.Unmarshal(golden, &chunks))
	require.Greater(t, len(chunks), 200)
	for _, c := range chunks {
		name := fmt.Sprintf("%s, %d bytes of %d", c.Name, c.Size, c.TypeSize)
		size, err := blosc.DecodedSize(c.Chunk)
		require.NoError(t, err, name)
		require.EqualValues(t, c.Size, size, name)
		got, err := blosc.DecodeChunk(nil, c.Chunk, size)
		require.NoError(t, err, name)
		require.True(t, bytes.Equal(recipe(c.Size, c.TypeSize), got), name)
	}
}

// inputs returns data of n bytes that compresses well, badly, and with far matches.
func inputs(n int) map[string][]byte {
	random, text := make([]byte, n), make([]byte, n)
	r := rand.New(rand.NewPCG(uint64(n), 7))
	for i := range random {
		random[i] = byte(r.Uint32())
	}
	for i := range text {
		text[i] = byte(r.Uint32() % 4)
	}
	far := bytes.Repeat(random[:min(n, 20_000)], 1+n/max(min(n, 20_000), 1))[:n]
	return map[string][]byte{"random": random, "text": text, "zeros": make([]byte, n), "recipe": recipe(n, 4), "far": far}
}

func TestEncodingsRoundTrip(t *testing.T) {
	sizes := []int{0, 1, 11, 127, 128, 129, 1000, 4099, 70_000}
	if !testing.Short() {
		sizes = append(sizes, 300_001)
	}
	for _, n := range sizes {
		for what, src := range inputs(n) {
			for c := blosc.BloscLZ; c <= blosc.Zstd; c++ {
				for _, o := range []blosc.Options{
					{Level: 5, TypeSize: 1}, {Level: 0, TypeSize: 4}, {Level: 9, TypeSize: 1, Shuffle: blosc.BitShuffle},
					{Level: 1, TypeSize: 4, Shuffle: blosc.ByteShuffle}, {Level: 3, TypeSize: 8, Shuffle: blosc.BitShuffle},
					{Level: 2, TypeSize: 3, Shuffle: blosc.ByteShuffle, BlockSize: 700}, {Level: 5, TypeSize: 17, Shuffle: blosc.BitShuffle},
					{Level: 1, TypeSize: 1000, Shuffle: blosc.ByteShuffle}, {Level: 1, TypeSize: 2, Shuffle: blosc.BitShuffle, BlockSize: 1},
				} {
					o.Compressor = c
					if n > 10_000 && o.BlockSize == 1 || n > 100_000 && c == blosc.LZ4HC {
						continue // takes long
					}
					enc, err := blosc.EncodeChunk([]byte("before"), src, o)
					require.NoError(t, err)
					require.Equal(t, "before", string(enc[:6]))
					enc = enc[6:]
					require.LessOrEqual(t, len(enc), n+blosc.Overhead, "%s %+v", what, o)
					got, err := blosc.DecodeChunk(nil, enc, int64(n))
					require.NoError(t, err, "%s, %d bytes, %+v", what, n, o)
					require.True(t, bytes.Equal(src, got), "%s, %d bytes, %+v", what, n, o)
					if what == "zeros" && n > 1000 && o.Level > 0 && o.BlockSize == 0 {
						require.Less(t, len(enc), n/10, "%+v", o)
					}
				}
			}
		}
	}
}

// zstdBlocks encodes each block of 256 KiB of float32 as c-blosc does, shuffled and at a
// level of its own, and returns the sizes of their frames.
func zstdBlocks(t *testing.T, src []byte, level int) (sizes []int) {
	const block = 256 << 10
	for at := 0; at < len(src); at += block {
		part := make([]byte, min(block, len(src)-at))
		require.NoError(t, shuffle.Bytes(part, src[at:at+len(part)], 4))
		out, err := zstd.EncodeFrame(nil, part, zstd.EncodeOptions{Level: level})
		require.NoError(t, err)
		sizes = append(sizes, len(out))
	}
	return sizes
}

func TestZstdTakesAHighLevelOnlyWhereItPays(t *testing.T) {
	const n = 5 << 18
	noise, far := make([]byte, n), make([]byte, n)
	r := rand.New(rand.NewPCG(3, 4))
	for at := 0; at < n; at += 4 {
		binary.LittleEndian.PutUint32(noise[at:], 0x41000000|r.Uint32()>>12<<3)
		binary.LittleEndian.PutUint32(far[at:], uint32(at/4)+r.Uint32N(3))
	}
	for _, c := range []struct {
		name string
		src  []byte
		fast bool
	}{{"noise", noise, true}, {"numbers that grow", far, false}} {
		fast, high := zstdBlocks(t, c.src, 1), zstdBlocks(t, c.src, blosc.ZstdLevel(5))
		require.Equal(t, c.fast, fast[0]*100 <= high[0]*101, "%s: %v, %v", c.name, fast, high)
		want := blosc.Overhead + min(fast[0], high[0]) + 5*(4+4) // headers: of the chunk, and of each block
		for i := 1; i < len(fast); i++ {
			if c.fast {
				want += fast[i]
			} else {
				want += high[i]
			}
		}
		got, err := blosc.EncodeChunk(nil, c.src, blosc.Options{Compressor: blosc.Zstd, Level: 5, Shuffle: blosc.ByteShuffle, TypeSize: 4})
		require.NoError(t, err)
		assert.Len(t, got, want, c.name)
		back, err := blosc.DecodeChunk(nil, got, n)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(c.src, back), c.name)
	}
}

func TestRangesOfChunksAreThoseOfTheWhole(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 12))
	for _, n := range []int{0, 1, 1000, 40_003} {
		for what, data := range inputs(n) {
			for compressor := blosc.BloscLZ; compressor <= blosc.Zstd; compressor++ {
				for _, mode := range []blosc.Shuffle{blosc.NoShuffle, blosc.ByteShuffle, blosc.BitShuffle} {
					chunk, err := blosc.EncodeChunk(nil, data, blosc.Options{Compressor: compressor, Level: 5, Shuffle: mode, TypeSize: 4, BlockSize: 4096})
					require.NoError(t, err)
					name := fmt.Sprintf("%s, %s, shuffle %d, %d bytes", what, compressor, mode, n)
					for range 10 {
						from := random.IntN(n + 1)
						dst := make([]byte, random.IntN(n-from+1))
						require.NoError(t, blosc.DecodeRange(dst, chunk, int64(from), int64(n)), name)
						require.True(t, bytes.Equal(data[from:from+len(dst)], dst), "%s: %d from %d", name, len(dst), from)
					}
					one := []byte{0}
					require.ErrorIs(t, blosc.DecodeRange(one, chunk, 0, int64(n)+1), blosc.ErrCorrupt, name)
					require.ErrorContains(t, blosc.DecodeRange(one, chunk, int64(n), int64(n)), "1 bytes from", name)
					require.ErrorContains(t, blosc.DecodeRange(one, chunk, -1, int64(n)), "from -1", name)
					require.ErrorIs(t, blosc.DecodeRange(one, chunk[:len(chunk)-1], 0, int64(n)), blosc.ErrCorrupt, name)
				}
			}
		}
	}
}

func TestRangesNeedOnlyTheirBlocks(t *testing.T) {
	data := recipe(16_384, 4)
	chunk, err := blosc.EncodeChunk(nil, data, blosc.Options{Compressor: blosc.LZ4, Level: 5, Shuffle: blosc.ByteShuffle, TypeSize: 4, BlockSize: 4096})
	require.NoError(t, err)
	const third = 2
	binary.LittleEndian.PutUint32(chunk[16+4*third:], uint32(len(chunk)+1)) // where the block begins
	for block := range 4 {
		dst := make([]byte, 10)
		err := blosc.DecodeRange(dst, chunk, int64(4096*block+50), int64(len(data)))
		if block == third {
			require.ErrorIs(t, err, blosc.ErrCorrupt)
			require.ErrorContains(t, err, "block 2")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, data[4096*block+50:][:10], dst)
	}
	require.ErrorIs(t, blosc.DecodeRange(make([]byte, 4097), chunk, 4096, int64(len(data))), blosc.ErrCorrupt, "into the block")
}

func TestDecodeReusesMemory(t *testing.T) {
	src := recipe(5000, 4)
	enc, err := blosc.EncodeChunk(nil, src, blosc.Options{Compressor: blosc.LZ4, Level: 5, Shuffle: blosc.ByteShuffle, TypeSize: 4})
	require.NoError(t, err)
	dst := make([]byte, 10, 5000)
	got, err := blosc.DecodeChunk(dst, enc, 5000)
	require.NoError(t, err)
	assert.Same(t, &dst[0], &got[0])
	assert.Equal(t, src, got)
}

func TestTruncatedAndLongerChunksAreErrors(t *testing.T) {
	for c := blosc.BloscLZ; c <= blosc.Zstd; c++ {
		enc, err := blosc.EncodeChunk(nil, recipe(3000, 4), blosc.Options{Compressor: c, Level: 5, Shuffle: blosc.BitShuffle, TypeSize: 4, BlockSize: 1024})
		require.NoError(t, err)
		for n := range enc {
			_, err := blosc.DecodeChunk(nil, enc[:n], 3000)
			require.ErrorIs(t, err, blosc.ErrCorrupt, "%s: %d of %d bytes", c, n, len(enc))
			if n >= 16 { // a header that agrees
				short := bytes.Clone(enc[:n])
				binary.LittleEndian.PutUint32(short[12:], uint32(n))
				_, err = blosc.DecodeChunk(nil, short, 3000)
				require.Error(t, err, "%s: %d of %d bytes", c, n, len(enc))
			}
		}
		_, err = blosc.DecodeChunk(nil, append(enc, 0), 3000)
		require.ErrorIs(t, err, blosc.ErrCorrupt)
	}
}

func TestDecodeAllocatesNoMoreThanTheLimit(t *testing.T) {
	claims := []byte{2, 1, 0x21, 4, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0x7f, 24, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0}
	size, err := blosc.DecodedSize(claims)
	require.NoError(t, err)
	require.EqualValues(t, 1<<31-1, size)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = blosc.DecodeChunk(nil, claims, 1<<20)
	runtime.ReadMemStats(&after)
	require.ErrorContains(t, err, "1048576")
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
}

func TestInvalidHeadersAreErrors(t *testing.T) {
	good, err := blosc.EncodeChunk(nil, recipe(3000, 4), blosc.Options{Compressor: blosc.LZ4, Level: 5, Shuffle: blosc.ByteShuffle, TypeSize: 4})
	require.NoError(t, err)
	for name, change := range map[string]func(b []byte){
		"version 0":         func(b []byte) { b[0] = 0 },
		"reserved flag":     func(b []byte) { b[2] |= 8 },
		"format 5":          func(b []byte) { b[2] = 5 << 5 },
		"typesize 0":        func(b []byte) { b[3] = 0 },
		"other typesize":    func(b []byte) { b[3] = 7 },
		"size 2^32 - 1":     func(b []byte) { copy(b[4:], "\xff\xff\xff\xff") },
		"smaller size":      func(b []byte) { b[4]-- },
		"blocksize 0":       func(b []byte) { copy(b[8:], "\x00\x00\x00\x00") },
		"blocksize 1":       func(b []byte) { copy(b[8:], "\x01\x00\x00\x00") },
		"blocksize > size":  func(b []byte) { copy(b[8:], "\xff\xff\xff\x7f") },
		"block outside":     func(b []byte) { copy(b[16:], "\xff\xff\xff\xff") },
		"block at the end":  func(b []byte) { binary.LittleEndian.PutUint32(b[16:], uint32(len(b))) },
		"stored":            func(b []byte) { b[2] |= 2 },
		"other compression": func(b []byte) { b[2] = b[2]&31 | 3<<5 },
	} {
		bad := bytes.Clone(good)
		change(bad)
		_, err := blosc.DecodeChunk(nil, bad, 1<<20)
		assert.ErrorIs(t, err, blosc.ErrCorrupt, name)
	}
	good[0] = 5
	_, err = blosc.DecodeChunk(nil, good, 3000)
	assert.ErrorIs(t, err, errors.ErrUnsupported, "Blosc 2")
}

func TestInvalidOptionsAreErrors(t *testing.T) {
	for _, o := range []blosc.Options{
		{}, {TypeSize: -1}, {TypeSize: 1, Level: 10}, {TypeSize: 1, Level: -1}, {TypeSize: 1, Shuffle: 3},
		{TypeSize: 1, Compressor: 6}, {TypeSize: 1, BlockSize: -1},
	} {
		_, err := blosc.EncodeChunk(nil, make([]byte, 1000), o)
		assert.Error(t, err, "%+v", o)
	}
	_, err := blosc.ParseCompressor("lzo")
	assert.ErrorContains(t, err, "lzo")
	for c := blosc.BloscLZ; c <= blosc.Zstd; c++ {
		back, err := blosc.ParseCompressor(c.String())
		require.NoError(t, err)
		assert.Equal(t, c, back)
	}
}

func FuzzDecode(f *testing.F) {
	for c := blosc.BloscLZ; c <= blosc.Zstd; c++ {
		for _, s := range []blosc.Shuffle{blosc.NoShuffle, blosc.ByteShuffle, blosc.BitShuffle} {
			enc, err := blosc.EncodeChunk(nil, recipe(1500, 4), blosc.Options{Compressor: c, Level: 1, Shuffle: s, TypeSize: 4, BlockSize: 1024})
			require.NoError(f, err)
			f.Add(enc)
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		const limit = 1 << 16
		if len(src) >= 16 { // lets the fuzzer change lengths
			binary.LittleEndian.PutUint32(src[12:], uint32(len(src)))
		}
		got, err := blosc.DecodeChunk(nil, src, limit)
		if size, _ := blosc.DecodedSize(src); size <= limit {
			part := make([]byte, size/2)
			if rangeErr := blosc.DecodeRange(part, src, size-int64(len(part)), size); err == nil {
				require.NoError(t, rangeErr)
				require.True(t, bytes.Equal(got[len(got)-len(part):], part))
			}
		}
		if err != nil {
			return
		}
		if len(got) > limit {
			t.Fatalf("decoded %d bytes", len(got))
		}
		enc, err := blosc.EncodeChunk(nil, got, blosc.Options{Compressor: blosc.BloscLZ, Level: 5, Shuffle: blosc.ByteShuffle, TypeSize: max(int(src[3]), 1)})
		require.NoError(t, err)
		back, err := blosc.DecodeChunk(nil, enc, limit)
		require.NoError(t, err)
		require.True(t, bytes.Equal(got, back))
	})
}

func Example() {
	src := make([]byte, 4000) // 1000 numbers of 4 bytes
	for i := range 1000 {
		binary.LittleEndian.PutUint32(src[4*i:], uint32(i))
	}
	chunk, err := blosc.EncodeChunk(nil, src, blosc.Options{Compressor: blosc.LZ4, Level: 5, Shuffle: blosc.ByteShuffle, TypeSize: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	back, err := blosc.DecodeChunk(nil, chunk, int64(len(src)))
	fmt.Println(len(chunk) < 1500, bytes.Equal(src, back), err)
	// Output: true true <nil>
}
