package zstd

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// steps returns n bytes that compress to about half their size.
func steps(n int, seed uint64) []byte {
	random := rand.New(rand.NewPCG(seed, 3))
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(i/1000 + random.IntN(16))
	}
	return out
}

// anyFrame returns a frame as other encoders write them.
func anyFrame(t *testing.T, src []byte, o ...zstd.EOption) []byte {
	t.Helper()
	e, err := zstd.NewWriter(nil, append(o, zstd.WithEncoderConcurrency(1), zstd.WithZeroFrames(true))...)
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	return e.EncodeAll(src, nil)
}

func TestRangesOfFramesAreThoseOfTheWhole(t *testing.T) {
	for _, n := range []int{0, 1, 1000, 128<<10 + 1, 700_001} {
		data := steps(n, uint64(n))
		var streamed bytes.Buffer // a frame without its size
		w, err := zstd.NewWriter(&streamed, zstd.WithEncoderCRC(false), zstd.WithZeroFrames(true))
		require.NoError(t, err)
		_, err = w.Write(data)
		require.NoError(t, err)
		require.NoError(t, w.Flush())
		require.NoError(t, w.Close())
		own, err := EncodeFrame(nil, data, EncodeOptions{Level: 1})
		require.NoError(t, err)
		frames := map[string][]byte{
			"own":           own,
			"checksum":      anyFrame(t, data, zstd.WithEncoderCRC(true)),
			"window":        anyFrame(t, data, zstd.WithEncoderCRC(false), zstd.WithWindowSize(zstd.MinWindowSize)),
			"unknown size":  streamed.Bytes(),
			"two":           append(anyFrame(t, data[:n/3], zstd.WithEncoderCRC(false)), anyFrame(t, data[n/3:], zstd.WithEncoderCRC(false))...),
			"skipped first": append([]byte{0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9}, own...),
		}
		random := rand.New(rand.NewPCG(5, uint64(n)))
		for name, frame := range frames {
			for range 20 {
				from := random.IntN(n + 1)
				dst := make([]byte, random.IntN(n-from+1))
				require.NoError(t, DecodeRange(dst, frame, int64(from), int64(n)), "%s of %d bytes", name, n)
				require.True(t, bytes.Equal(data[from:from+len(dst)], dst), "%s: %d of %d bytes from %d", name, len(dst), n, from)
			}
			one := []byte{0}
			for _, other := range []int64{int64(n) + 1, int64(n) - 1} {
				if other > 0 {
					assert.Error(t, DecodeRange(one, frame, 0, other), "%s: %d bytes are not %d", name, n, other)
				}
			}
			assert.ErrorContains(t, DecodeRange(one, frame, int64(n), int64(n)), fmt.Sprintf("of %d", n), name)
			for _, from := range []int64{-1, math.MaxInt64} {
				assert.ErrorContains(t, DecodeRange(one, frame, from, int64(n)), "1 bytes from", name)
			}
		}
	}
}

func TestDamageOfFramesIsFoundInTheRange(t *testing.T) {
	const n = 700_000
	data := steps(n, 1)
	frame, err := EncodeFrame(nil, data, EncodeOptions{Level: 1})
	require.NoError(t, err)
	dst := make([]byte, 1000)
	short := frame[:len(frame)*2/3]
	assert.ErrorIs(t, DecodeRange(dst, short, n-1000, n), compress.ErrCorrupt)
	assert.ErrorIs(t, DecodeRange(dst, nil, 0, n), compress.ErrCorrupt)

	// Damage of the last block, of any kind that is found.
	damaged, err := slices.Clone(frame), error(nil)
	for at := len(frame) - 1; err == nil; at-- {
		damaged[at] ^= 0xff
		_, err = DecodeFrames(nil, damaged, n)
	}
	assert.ErrorIs(t, DecodeRange(dst, damaged, n-1000, n), compress.ErrCorrupt)
	if err := DecodeRange(dst, damaged, 0, n); library() != nil {
		require.NoError(t, err, "of the first block")
		assert.True(t, bytes.Equal(data[:1000], dst))
	} else {
		assert.ErrorIs(t, err, compress.ErrCorrupt, "Go decodes frames whole")
	}
}

func TestRangesAreSafeForConcurrentUse(t *testing.T) {
	const n = 300_000
	var wait sync.WaitGroup
	for g := range 4 {
		wait.Go(func() {
			data := steps(n, uint64(g))
			frame, err := EncodeFrame(nil, data, EncodeOptions{Level: 1})
			assert.NoError(t, err)
			dst := make([]byte, 1000)
			for from := 0; from+len(dst) <= n; from += 20_000 {
				assert.NoError(t, DecodeRange(dst, frame, int64(from), n))
				assert.True(t, bytes.Equal(data[from:from+len(dst)], dst))
				whole, err := DecodeFrames(nil, frame, n) // between the ranges
				assert.NoError(t, err)
				assert.True(t, bytes.Equal(data, whole))
			}
		})
	}
	wait.Wait()
}

func BenchmarkDecodeRange(b *testing.B) {
	const n = 1 << 20
	frame, err := EncodeFrame(nil, steps(n, 1), EncodeOptions{Level: 1})
	require.NoError(b, err)
	dst := make([]byte, 400)
	for _, end := range []int64{n / 8, n / 2, n} {
		b.Run(fmt.Sprint(end), func(b *testing.B) {
			for b.Loop() {
				require.NoError(b, DecodeRange(dst, frame, end-400, n))
			}
		})
	}
}
