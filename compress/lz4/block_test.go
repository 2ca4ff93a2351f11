package lz4

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batchtest"
)

// encoders returns the encoders that this machine has.
func encoders() map[string]func(dst, src []byte, acceleration int) int {
	all := map[string]func(dst, src []byte, acceleration int) int{"Go": encodeGo}
	if lib := library(); lib != nil {
		all[lib.version] = lib.encode
	}
	return all
}

func TestBlocksRoundTripInEachImplementation(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	for name, encode := range encoders() {
		for _, n := range []int{1, 5, 12, 13, 64, 1000, 70_000, 300_000} {
			for _, src := range batchtest.Samples(r, n) {
				for _, acceleration := range []int{1, 5, 1000} {
					enc := make([]byte, Bound(int64(n)))
					size := encode(enc, src, acceleration)
					require.Positive(t, size, name)
					enc = enc[:size]
					got := make([]byte, n)
					m, err := decodeGo(got, enc)
					require.NoError(t, err, name)
					require.Equal(t, n, m, name)
					require.True(t, bytes.Equal(src, got), "%s: %d bytes", name, n)
					clear(got)
					require.NoError(t, DecodeBlock(got, enc), name)
					require.True(t, bytes.Equal(src, got), "%s: %d bytes", name, n)
					m, err = lz4.UncompressBlock(enc, got)
					require.NoError(t, err)
					require.Equal(t, n, m)
					require.True(t, bytes.Equal(src, got))
					require.Zero(t, encode(enc[:size-1], src, acceleration), "%s: a byte less room", name)
				}
			}
		}
	}
}

func TestBlocksOfOtherSizesAreErrors(t *testing.T) {
	src := bytes.Repeat([]byte("some text 1234567"), 40)
	enc := make([]byte, Bound(int64(len(src))))
	n, err := EncodeBlock(enc, src, 1)
	require.NoError(t, err)
	enc = enc[:n]
	for _, size := range []int{0, 1, len(src) - 1, len(src) + 1, 10 * len(src)} {
		assert.ErrorIs(t, DecodeBlock(make([]byte, size), enc), compress.ErrCorrupt, "%d bytes", size)
	}
	for i := range enc {
		assert.ErrorIs(t, DecodeBlock(make([]byte, len(src)), enc[:i]), compress.ErrCorrupt, "%d of %d bytes", i, n)
	}
	require.NoError(t, DecodeBlock(nil, []byte{0}))
}

func TestImplementationNamesTheLibrary(t *testing.T) {
	assert.Regexp(t, `^(Go|liblz4 1\.\d+\.\d+)$`, Implementation())
}

// FuzzDecodeBlock compares the library with the Go implementation. Each accepts some
// malformed blocks that the other does not.
func FuzzDecodeBlock(f *testing.F) {
	for _, src := range batchtest.Samples(rand.New(rand.NewPCG(1, 2)), 300) {
		enc := make([]byte, Bound(int64(len(src))))
		f.Add(enc[:encodeGo(enc, src, 1)], uint16(len(src)))
	}
	f.Fuzz(func(t *testing.T, src []byte, size uint16) {
		want, got := make([]byte, size), make([]byte, size)
		n, err := decodeGo(want, src)
		lib := library()
		if lib == nil || len(src) == 0 || size == 0 {
			return
		}
		if m, ok := lib.decode(got, src); ok && err == nil {
			require.True(t, bytes.Equal(want[:n], got[:m]))
		}
	})
}

func BenchmarkBlock(b *testing.B) {
	src := batchtest.Samples(rand.New(rand.NewPCG(1, 2)), 1<<20)
	for name, encode := range encoders() {
		for i, src := range src {
			enc := make([]byte, Bound(int64(len(src))))
			enc = enc[:encode(enc, src, 5)]
			run := func(what string, f func()) {
				b.Run(name+"/"+what+"/"+string(rune('a'+i)), func(b *testing.B) {
					b.SetBytes(int64(len(src)))
					for b.Loop() {
						f()
					}
				})
			}
			out := make([]byte, len(src))
			room := make([]byte, Bound(int64(len(src))))
			run("encode", func() { encode(room, src, 5) })
			if name == "Go" {
				run("decode", func() { _, _ = decodeGo(out, enc) })
			} else {
				run("decode", func() { library().decode(out, enc) })
			}
		}
	}
}
