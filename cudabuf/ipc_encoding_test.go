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

func someHandle() cudabuf.MemHandle {
	h := cudabuf.MemHandle{Region: cudabuf.Region{Device: cudabuf.UUID{1, 2, 15: 3}, AllocationSize: 2 << 20, Length: 1000}}
	copy(h.Handle[:], pattern(64))
	return h
}

func TestPyArrowsFormIsSizeAndHandle(t *testing.T) {
	h := someHandle()
	form, err := h.MarshalPyArrow()
	require.NoError(t, err)
	assert.Equal(t, append(binary.NativeEndian.AppendUint64(nil, 1000), h.Handle[:]...), form)
	back, err := cudabuf.ParsePyArrow(form)
	require.NoError(t, err)
	assert.Equal(t, cudabuf.MemHandle{Handle: h.Handle, Region: cudabuf.Region{Length: 1000}}, back)

	form, err = cudabuf.MemHandle{}.MarshalPyArrow()
	require.NoError(t, err)
	assert.Equal(t, make([]byte, 8), form)
	back, err = cudabuf.ParsePyArrow(form)
	require.NoError(t, err)
	assert.Equal(t, cudabuf.MemHandle{}, back)
}

func TestPyArrowsFormHasNoOffset(t *testing.T) {
	h := someHandle()
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
		assert.ErrorIs(t, err, cudabuf.ErrHandleForm, name)
	}
}

func TestBinaryFormOfAHandle(t *testing.T) {
	h := someHandle()
	h.Offset = 512
	form, err := h.MarshalBinary()
	require.NoError(t, err)
	assert.Len(t, form, 105)
	var back cudabuf.MemHandle
	require.NoError(t, back.UnmarshalBinary(form))
	assert.Equal(t, h, back)

	h.Length = -1
	_, err = h.MarshalBinary()
	assert.Error(t, err)
	at := func(i int, v byte) []byte { b := bytes.Clone(form); b[i] = v; return b }
	for name, b := range map[string][]byte{
		"nothing":                nil,
		"short":                  form[:104],
		"long":                   append(bytes.Clone(form), 0),
		"another version":        at(0, 2),
		"negative size":          at(17+7, 0x80),
		"negative offset":        at(25+7, 0x80),
		"negative length":        at(33+7, 0x80),
		"longer than its memory": at(33+4, 1),
	} {
		assert.ErrorIs(t, back.UnmarshalBinary(b), cudabuf.ErrHandleForm, name)
	}
	h.Length = 1000
	assert.Equal(t, h, back, "a failure leaves the handle")
}

func FuzzHandleForms(f *testing.F) {
	h := someHandle()
	form, _ := h.MarshalBinary()
	f.Add(form)
	form, _ = h.MarshalPyArrow()
	f.Add(form)
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
