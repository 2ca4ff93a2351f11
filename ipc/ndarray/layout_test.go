//go:build linux

package ndarray_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/internal/apitest"
	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/ndarray"
	"github.com/quiver-gpu/quiver/ndview"
)

func TestLayoutsRoundTrip(t *testing.T) {
	for _, d := range dtypes(t) {
		for _, want := range layouts(d.Size()) {
			want.DType = d
			b, err := want.MarshalBinary()
			require.NoError(t, err)
			var got ndarray.Layout
			require.NoError(t, got.UnmarshalBinary(b))
			assert.Equal(t, d, got.DType)
			assert.True(t, slices.Equal(want.Shape, got.Shape) && slices.Equal(want.Strides, got.Strides) && want.Offset == got.Offset)
		}
	}
}

// The bytes are those that docs/sharing.md specifies.
func TestLayoutHasTheDocumentedBytes(t *testing.T) {
	l := ndarray.Layout{DType: ndview.Float32, Offset: 12, Shape: []int64{4}, Strides: []int64{-4}}
	got, err := l.MarshalBinary()
	require.NoError(t, err)
	want := slices.Concat(
		[]byte{1, 1, 0, 0, 3, 0, 0, 0}, []byte{12, 0, 0, 0, 0, 0, 0, 0},
		[]byte{4, 0, 0, 0, 0, 0, 0, 0}, []byte{0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, []byte("<f4"))
	assert.Equal(t, want, got)
}

// invalidLayouts returns encoded layouts that do not fit a buffer of 64 bytes, or are
// no layouts.
func invalidLayouts(t testing.TB) map[string][]byte {
	t.Helper()
	l := ndarray.Layout{DType: ndview.Float64, Offset: 8, Shape: []int64{2, 2}, Strides: []int64{16, 8}}
	valid, err := l.MarshalBinary()
	require.NoError(t, err)
	changed := func(change func(b []byte) []byte) []byte { return change(bytes.Clone(valid)) }
	number := func(at int, value int64) []byte {
		return changed(func(b []byte) []byte { binary.LittleEndian.PutUint64(b[at:], uint64(value)); return b })
	}
	text := func(s string) []byte {
		return changed(func(b []byte) []byte {
			b = append(b[:len(b)-3], s...)
			binary.LittleEndian.PutUint32(b[4:], uint32(len(s)))
			return b
		})
	}
	return map[string][]byte{
		"one byte":                  {1},
		"a cut layout":              valid[:len(valid)-4],
		"trailing bytes":            append(bytes.Clone(valid), 0),
		"version 2":                 changed(func(b []byte) []byte { b[0] = 2; return b }),
		"reserved bytes":            changed(func(b []byte) []byte { b[2] = 1; return b }),
		"more axes than bytes":      changed(func(b []byte) []byte { b[1] = 255; return b }),
		"a type of 4 GiB":           changed(func(b []byte) []byte { binary.LittleEndian.PutUint32(b[4:], math.MaxUint32); return b }),
		"an offset past the end":    number(8, 40),
		"a negative offset":         number(8, -8),
		"the largest offset":        number(8, math.MaxInt64),
		"a negative extent":         number(16, -1),
		"one row too many":          number(16, 5),
		"a shape that overflows":    number(16, math.MaxInt64/4),
		"a stride past the end":     number(32, 48),
		"a stride before the start": number(32, -16),
		"a stride that overflows":   number(32, math.MaxInt64),
		"the smallest stride":       number(40, math.MinInt64),
		"no type":                   text(""),
		"an unknown type":           text("<q9"),
		"text":                      text("<U3"),
		"objects":                   text("|O"),
		"another byte order":        text(">f8"),
		"no UTF-8":                  text("\xff\xfe"),
		"a record that overlaps":    text(`[["a", "<f8"], ["a", "<f8"]]`),
		"a type that is too large":  text("|V65"),
	}
}

func TestInvalidLayoutsNeverBecomeViews(t *testing.T) {
	b, err := arrowbuf.CPU().Alloc(64)
	require.NoError(t, err)
	defer b.Release()
	for name, encoded := range invalidLayouts(t) {
		l := ndarray.Layout{Offset: 77}
		if err := l.UnmarshalBinary(encoded); err != nil {
			assert.ErrorIs(t, err, ndarray.ErrLayout, name)
			assert.Equal(t, ndarray.Layout{Offset: 77}, l, "%s: the layout is unchanged", name)
			continue
		}
		_, err := l.Array(b)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange, name)
	}
}

func TestLayoutsThatCannotBeEncoded(t *testing.T) {
	one := []int64{1}
	for name, l := range map[string]ndarray.Layout{
		"no dtype":         {Shape: one, Strides: one},
		"256 axes":         {DType: ndview.Int8, Shape: make([]int64, 256), Strides: make([]int64, 256)},
		"missing strides":  {DType: ndview.Int8, Shape: one},
		"negative offset":  {DType: ndview.Int8, Offset: -1},
		"negative extent":  {DType: ndview.Int8, Shape: []int64{-1}, Strides: one},
		"shape overflows":  {DType: ndview.Int8, Shape: []int64{1 << 32, 1 << 32}, Strides: []int64{0, 0}},
		"empty, overflows": {DType: ndview.Int64, Shape: []int64{0, 1 << 60}, Strides: []int64{0, 0}},
	} {
		_, err := l.MarshalBinary()
		assert.ErrorIs(t, err, ndarray.ErrLayout, name)
	}
}

// FuzzLayout decodes arbitrary bytes. What becomes an array lies in the buffer: every
// element can be read.
func FuzzLayout(f *testing.F) {
	for _, encoded := range invalidLayouts(f) {
		f.Add(encoded)
	}
	for _, l := range layouts(2) {
		l.DType = ndview.Uint16
		encoded, err := l.MarshalBinary()
		require.NoError(f, err)
		f.Add(encoded)
	}
	b, err := arrowbuf.CPU().Alloc(memoryBytes)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, encoded []byte) {
		var l ndarray.Layout
		if l.UnmarshalBinary(encoded) != nil {
			return
		}
		again, err := l.MarshalBinary()
		require.NoError(t, err)
		var same ndarray.Layout
		require.NoError(t, same.UnmarshalBinary(again))
		require.Equal(t, l, same)
		a, err := l.Array(b)
		if err != nil {
			return
		}
		defer a.Release()
		if a.NBytes() < 1<<20 { // a stride of 0 repeats elements without end
			_, err = a.Bytes()
			require.NoError(t, err)
		}
		of, extent, err := ndarray.Of(a)
		require.NoError(t, err)
		defer extent.Release()
		require.LessOrEqual(t, extent.Len(), int64(memoryBytes))
		back, err := of.Array(extent)
		require.NoError(t, err)
		back.Release()
	})
}

func TestNilAndZeroArgumentsNeverPanic(t *testing.T) {
	ctx := t.Context()
	catalog := ipc.NewCatalog()
	released, err := ndview.FromSlice(arrowbuf.CPU(), []int8{1})
	require.NoError(t, err)
	released.Release()
	apitest.NilSafe(t, ".", map[string]func() error{
		"Of":                     func() error { _, _, err := ndarray.Of(nil); return err },
		"Publish":                func() error { return ndarray.Publish(nil, "", nil) },
		"Open":                   func() error { _, err := ndarray.Open(ctx, nil, "x"); return err },
		"Layout.Array":           func() error { _, err := ndarray.Layout{}.Array(nil); return err },
		"Layout.MarshalBinary":   func() error { _, err := ndarray.Layout{}.MarshalBinary(); return err },
		"Layout.UnmarshalBinary": func() error { return (*ndarray.Layout)(nil).UnmarshalBinary(nil) },
	})
	assert.ErrorIs(t, ndarray.Publish(catalog, "x", nil), ndview.ErrNil)
	assert.ErrorIs(t, ndarray.Publish(catalog, "x", released), arrowbuf.ErrReleased)
	assert.ErrorIs(t, catalog.PublishArray("x", nil, hostMemory(t)(1)), arrowbuf.ErrOutOfRange)
	assert.Error(t, catalog.PublishArray("x", []byte{1}, nil))
}
