package gzip

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLibraryAndGoDecodeWhatEitherEncodes(t *testing.T) {
	if library() == nil {
		t.Skip("this machine has no libdeflate")
	}
	assert.Equal(t, "libdeflate", Implementation())
	for _, src := range [][]byte{{}, []byte("text text text"), make([]byte, 70_000), bytes.Repeat([]byte("0123456789abcdef"), 10_000)} {
		for level := range 10 {
			one, err := EncodeMember([]byte("kept"), src, level)
			require.NoError(t, err)
			require.Equal(t, "kept", string(one[:4]), "the encoding is appended")
			one = one[4:]
			zlib, err := EncodeZlib(nil, src, level)
			require.NoError(t, err)
			oneGo, err := gzipEncoder.encodeGo(nil, src, level)
			require.NoError(t, err)
			zlibGo, err := zlibEncoder.encodeGo(nil, src, level)
			require.NoError(t, err)
			for _, c := range []struct {
				format
				enc, want []byte
			}{
				{gzipFormat, one, src},
				{gzipFormat, oneGo, src},
				{gzipFormat, bytes.Repeat(one, 3), bytes.Repeat(src, 3)},
				{gzipFormat, slices.Concat(oneGo, one), bytes.Repeat(src, 2)},
				{zlibFormat, zlib, src},
				{zlibFormat, zlibGo, src},
			} {
				limit := len(c.want)
				dst := make([]byte, limit)
				n, ok := library().decode(c.library(library()), dst, c.enc, c.several)
				require.True(t, ok)
				require.True(t, bytes.Equal(c.want, dst[:n]))
				got, err := c.decodeGo(make([]byte, limit), c.enc, int64(limit), false)
				require.NoError(t, err)
				require.True(t, bytes.Equal(c.want, got))
				if limit > 0 {
					_, ok = library().decode(c.library(library()), dst[:limit-1], c.enc, c.several)
					require.False(t, ok, "a byte less room")
				}
				_, ok = library().decode(c.library(library()), dst, append(bytes.Clone(c.enc), 0), c.several)
				require.False(t, ok, "a byte after the end")
				_, ok = library().decode(c.library(library()), dst, c.enc[:len(c.enc)-1], c.several)
				require.False(t, ok, "a byte less")
			}
		}
	}
}

// FuzzLibrary compares the library with the Go implementation.
func FuzzLibrary(f *testing.F) {
	for level := range 3 {
		one, err := EncodeMember(nil, []byte("some text, some more text"), level)
		require.NoError(f, err)
		zlib, err := EncodeZlib(nil, make([]byte, 300), level)
		require.NoError(f, err)
		f.Add(one, uint16(25), false)
		f.Add(append(one, one...), uint16(50), false)
		f.Add(zlib, uint16(300), true)
	}
	f.Fuzz(func(t *testing.T, src []byte, limit uint16, zlib bool) {
		lib, format := library(), gzipFormat
		if zlib {
			format = zlibFormat
		}
		if lib == nil {
			return
		}
		got := make([]byte, limit)
		n, ok := lib.decode(format.library(lib), got, src, format.several)
		want, err := format.decodeGo(make([]byte, limit), src, int64(limit), false)
		if ok {
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, got[:n]))
		}
	})
}
