package ndview_test

import (
	"bytes"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// All of a huge array goes to a device and comes back, and parts of it.
func TestHostCopiesReachBeyond32Bits(t *testing.T) {
	block := pattern()
	onHuge(t, 9, func(t *testing.T, dev arrowbuf.Device) {
		data := bytes.Repeat(block, hugeExtent/period+1)[:hugeExtent]
		a := fromHost(t, dev, ndview.Uint8, data, hugeRows, hugeColumns)
		requirePeriodic(t, block, a)
		clear(data)
		require.NoError(t, a.CopyToHost(data))
		for at := 0; at < hugeExtent; at += period {
			require.True(t, bytes.Equal(block[:min(period, hugeExtent-at)], data[at:min(at+period, hugeExtent)]), "from byte %d", at)
		}
		flat, err := a.Ravel(ndview.OrderC)
		own(t, flat, err)
		for _, from := range []int64{1<<31 - 50, 1<<32 - 50, hugeExtent - 100} {
			part := index(t, flat, ndview.Span(from, from+100))
			want := rotated(block, from)[:100]
			got, err := part.Bytes()
			require.NoError(t, err)
			assert.Equal(t, want, got)
			back, err := ndview.ToHost[uint8](index(t, part, ndview.SpanStep(ndview.Open, ndview.Open, -3)))
			require.NoError(t, err)
			for i, v := range back {
				assert.Equal(t, want[99-3*i], v)
			}
		}
		column, err := ndview.ToHost[uint8](index(t, a, ndview.All, ndview.At(7)))
		require.NoError(t, err)
		for i, v := range column {
			require.Equal(t, block[(i*hugeColumns+7)%period], v, "row %d", i)
		}
		last, err := index(t, a, ndview.At(-1), ndview.At(-1)).Item()
		require.NoError(t, err)
		assert.EqualValues(t, block[(hugeExtent-1)%period], last.Value())

		require.NoError(t, a.Zero())
		for i, v := range []byte{1, 2, 3, 4, 5, 6} {
			row, column := int64(i/3), int64(i%3)
			require.NoError(t, a.Set(v, ndview.At(-1-row), ndview.At(-1-column)))
		}
		assert.Equal(t, "[[0 0 0 ... 0 0 0]\n [0 0 0 ... 0 0 0]\n [0 0 0 ... 0 0 0]\n ...\n [0 0 0 ... 0 0 0]\n [0 0 0 ... 6 5 4]\n [0 0 0 ... 3 2 1]]", a.String())
		assert.Equal(t, "[0 0 0 ... 3 2 1]", flat.String())
	})
}

// A column of more than 2^32 rows, of which few are missing.
func TestArrowColumnsReachBeyond32Bits(t *testing.T) {
	block := pattern()
	onHuge(t, 10, func(t *testing.T, dev arrowbuf.Device) {
		a := periodic(t, dev, block, hugeExtent)
		missing := []int64{1 << 31, 1<<32 - 1, 1<<32 + 7, hugeExtent - 1}
		bitmap := upload(t, dev, bytes.Repeat([]byte{0xff}, hugeExtent/8+1))
		for _, row := range missing {
			_, err := bitmap.CopyFromHost([]byte{0xff &^ (1 << (row % 8))}, row/8)
			require.NoError(t, err)
		}
		validity, values := bitmap.Arrow(), a.Buffer().Arrow()
		defer validity.Release()
		defer values.Release()

		t.Run("numbers", func(t *testing.T) {
			data := array.NewData(arrow.PrimitiveTypes.Uint8, hugeExtent, []*memory.Buffer{nil, values}, nil, 0, 0)
			defer data.Release()
			column := own(t, arrowbuf.NewArray(data), nil)
			shown := view(t)(ndview.FromArrow(column))
			require.Equal(t, []int64{hugeExtent}, shown.Shape())
			assert.Equal(t, a.Buffer().Address(), shown.Buffer().Address())
			tail := own(t, arrowbuf.NewSlice(column, 1<<32-5, hugeExtent), nil)
			requirePeriodic(t, rotated(block, 1<<32-5), view(t)(ndview.FromArrow(tail)))

			made, err := ndview.ToArrow(shown, ndview.ArrowOptions{})
			require.NoError(t, err)
			defer made.Release()
			assert.Equal(t, hugeExtent, made.Len())
			assert.Zero(t, made.NullN())
		})
		t.Run("missing ones", func(t *testing.T) {
			data := array.NewData(arrow.PrimitiveTypes.Uint8, hugeExtent, []*memory.Buffer{validity, values}, nil, array.UnknownNullCount, 0)
			defer data.Release()
			column := own(t, arrowbuf.NewArray(data), nil)
			assert.Equal(t, len(missing), column.NullN())
			shown, mask, err := ndview.FromArrowMasked(column)
			own(t, shown, err)
			where, err := ndview.ArgWhere(own(t, mask, nil))
			assert.Equal(t, raw(missing...), elements(t, own(t, where, err)))
			made, err := ndview.ToArrow(shown, ndview.ArrowOptions{Mask: mask})
			require.NoError(t, err)
			defer made.Release()
			assert.Equal(t, len(missing), made.NullN())
			assert.True(t, made.IsNull(1<<32+7))
			assert.False(t, made.IsNull(1<<32+6))
			assert.False(t, made.IsNull(7))
		})
		t.Run("truths", func(t *testing.T) {
			data := array.NewData(arrow.FixedWidthTypes.Boolean, hugeExtent, []*memory.Buffer{nil, validity}, nil, 0, 0)
			defer data.Release()
			shown := view(t)(ndview.FromArrow(own(t, arrowbuf.NewArray(data), nil)))
			not, err := ndview.LogicalNot.Of(shown)
			where, err2 := ndview.ArgWhere(own(t, not, err))
			assert.Equal(t, raw(missing...), elements(t, own(t, where, err2)))
			made, err := ndview.ToArrow(shown, ndview.ArrowOptions{})
			require.NoError(t, err)
			defer made.Release()
			bits, err := arrowbuf.BufferOf(made.Data().Buffers()[1])
			own(t, bits, err)
			same, err := at(t, bits, ndview.Uint8, 0, hugeExtent/8).Equal(at(t, bitmap, ndview.Uint8, 0, hugeExtent/8))
			require.NoError(t, err)
			assert.True(t, same)
		})
	})
}

// The flat bytes that stores and codecs pass.
func TestBuffersReachBeyond4GiB(t *testing.T) {
	block := pattern()
	onHuge(t, 9, func(t *testing.T, dev arrowbuf.Device) {
		a := periodic(t, dev, block, hugeExtent)
		all, err := ndview.BufferOf(a)
		own(t, all, err)
		require.EqualValues(t, hugeExtent, all.Len())
		tail, err := all.Slice(-100, ndview.Open)
		own(t, tail, err)
		got, err := tail.Bytes()
		require.NoError(t, err)
		assert.Equal(t, rotated(block, hugeExtent-100)[:100], got)

		head, err := all.Slice(0, 1<<32+5)
		own(t, head, err)
		rest, err := all.Slice(1<<32+5, ndview.Open)
		own(t, rest, err)
		joined, err := head.Combine(rest)
		own(t, joined, err)
		bytes := view(t)(joined.Array())
		requirePeriodic(t, block, bytes)
		equal := func(want bool) {
			t.Helper()
			got, err := all.Equal(joined)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		}
		equal(true)
		nine, err := ndview.BufferFrom(dev, []byte{^block[1<<32%period]})
		own(t, nine, err)
		require.NoError(t, joined.SetRange(1<<32, 1<<32+1, nine))
		equal(false)
		require.NoError(t, joined.SetRange(1<<32-1000, hugeExtent, bytesFrom(t, all, 1<<32-1000)))
		equal(true)
		require.NoError(t, joined.SetRange(100, ndview.Open, nine))
		requirePeriodic(t, mapped(period, func(int) byte { return ^block[1<<32%period] }), index(t, bytes, ndview.Span(100, ndview.Open)))
		requirePeriodic(t, block[:100], index(t, bytes, ndview.Span(0, 100)))
	})
}

// bytesFrom is what a Buffer has from a byte on.
func bytesFrom(t *testing.T, b *ndview.Buffer, from int64) *ndview.Buffer {
	t.Helper()
	part, err := b.Slice(from, ndview.Open)
	return own(t, part, err)
}
