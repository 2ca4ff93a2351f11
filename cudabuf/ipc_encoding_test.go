package cudabuf_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/cudabuf"
)

func exampleHandle() cudabuf.MemHandle {
	h := cudabuf.MemHandle{Region: cudabuf.Region{Device: cudabuf.UUID{1, 2, 15: 3}, AllocationSize: 2 << 20, Length: 1000}}
	copy(h.Handle[:], pattern(64))
	return h
}

func TestMarshalPyArrowWritesSizeAndHandle(t *testing.T) {
	h := exampleHandle()
	encoded, err := h.MarshalPyArrow()
	require.NoError(t, err)
	assert.Equal(t, append(binary.NativeEndian.AppendUint64(nil, 1000), h.Handle[:]...), encoded)
	back, err := cudabuf.ParsePyArrow(encoded)
	require.NoError(t, err)
	assert.Equal(t, cudabuf.MemHandle{Handle: h.Handle, Region: cudabuf.Region{Length: 1000}}, back)

	encoded, err = cudabuf.MemHandle{}.MarshalPyArrow()
	require.NoError(t, err)
	assert.Equal(t, make([]byte, 8), encoded)
	back, err = cudabuf.ParsePyArrow(encoded)
	require.NoError(t, err)
	assert.Equal(t, cudabuf.MemHandle{}, back)
}

func TestMarshalPyArrowRefusesOffset(t *testing.T) {
	h := exampleHandle()
	h.Offset = 8
	_, err := h.MarshalPyArrow()
	assert.ErrorIs(t, err, cudabuf.ErrNotShareable)
}

func TestParsePyArrowRefusesOtherBytes(t *testing.T) {
	full := func(size int64) []byte {
		return append(binary.NativeEndian.AppendUint64(nil, uint64(size)), pattern(64)...)
	}
	for name, b := range map[string][]byte{
		"nothing":              nil,
		"short":                full(1)[:71],
		"long":                 append(full(1), 0),
		"a handle alone":       pattern(64),
		"size without handle":  full(1)[:8],
		"handle without size":  full(0),
		"negative size":        full(-1),
		"negative, no handle":  full(-1)[:8],
		"the least of numbers": full(math.MinInt64),
	} {
		_, err := cudabuf.ParsePyArrow(b)
		assert.ErrorIs(t, err, cudabuf.ErrMalformedHandle, name)
	}
}

func TestMemHandleBinaryRoundTrip(t *testing.T) {
	h := exampleHandle()
	h.Offset = 512
	encoded, err := h.MarshalBinary()
	require.NoError(t, err)
	assert.Len(t, encoded, 105)
	var back cudabuf.MemHandle
	require.NoError(t, back.UnmarshalBinary(encoded))
	assert.Equal(t, h, back)

	h.Length = -1
	_, err = h.MarshalBinary()
	assert.Error(t, err)
	at := func(i int, v byte) []byte { b := bytes.Clone(encoded); b[i] = v; return b }
	for name, b := range map[string][]byte{
		"nothing":                nil,
		"short":                  encoded[:104],
		"long":                   append(bytes.Clone(encoded), 0),
		"another version":        at(0, 2),
		"negative size":          at(17+7, 0x80),
		"negative offset":        at(25+7, 0x80),
		"negative length":        at(33+7, 0x80),
		"longer than its memory": at(33+4, 1),
	} {
		assert.ErrorIs(t, back.UnmarshalBinary(b), cudabuf.ErrMalformedHandle, name)
	}
	h.Length = 1000
	assert.Equal(t, h, back, "a failure does not change the handle")
}

func FuzzHandleForms(f *testing.F) {
	h := exampleHandle()
	encoded, _ := h.MarshalBinary()
	f.Add(encoded)
	encoded, _ = h.MarshalPyArrow()
	f.Add(encoded)
	f.Add(make([]byte, 8))
	f.Fuzz(func(t *testing.T, b []byte) {
		var h cudabuf.MemHandle
		if h.UnmarshalBinary(b) == nil {
			back, err := h.MarshalBinary()
			require.NoError(t, err)
			assert.Equal(t, b, back)
		}
		if h, err := cudabuf.ParsePyArrow(b); err == nil {
			back, err := h.MarshalPyArrow()
			require.NoError(t, err)
			assert.Equal(t, b, back)
		}
	})
}
