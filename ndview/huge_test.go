package ndview_test

import (
	"bytes"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestHostCopiesReachBeyond32Bits copies a huge array to a device and back, and parts
// of it.
func TestHostCopiesReachBeyond32Bits(t *testing.T) {
	block := ndtest.Pattern()
	ndtest.OnHuge(t, 9, func(t *testing.T, dev arrowbuf.Device) {
		data := bytes.Repeat(block, ndtest.HugeExtent/ndtest.Period+1)[:ndtest.HugeExtent]
		a := ndtest.FromHost(t, dev, ndview.Uint8, data, ndtest.HugeRows, ndtest.HugeColumns)
		ndtest.RequirePeriodic(t, block, a)
		clear(data)
		require.NoError(t, a.CopyToHost(data))
		for at := 0; at < ndtest.HugeExtent; at += ndtest.Period {
			require.True(t, bytes.Equal(block[:min(ndtest.Period, ndtest.HugeExtent-at)], data[at:min(at+ndtest.Period, ndtest.HugeExtent)]), "from byte %d", at)
		}
		flat, err := a.Ravel(ndview.OrderC)
		ndtest.Own(t, flat, err)
		for _, from := range []int64{1<<31 - 50, 1<<32 - 50, ndtest.HugeExtent - 100} {
			part := index(t, flat, ndview.Span(from, from+100))
			want := ndtest.Rotated(block, from)[:100]
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
			require.Equal(t, block[(i*ndtest.HugeColumns+7)%ndtest.Period], v, "row %d", i)
		}
		last, err := index(t, a, ndview.At(-1), ndview.At(-1)).Item()
		require.NoError(t, err)
		assert.EqualValues(t, block[(ndtest.HugeExtent-1)%ndtest.Period], last.Value())

		require.NoError(t, a.Zero())
		for i, v := range []byte{1, 2, 3, 4, 5, 6} {
			row, column := int64(i/3), int64(i%3)
			require.NoError(t, a.Set(v, ndview.At(-1-row), ndview.At(-1-column)))
		}
		assert.Equal(t, "[[0 0 0 ... 0 0 0]\n [0 0 0 ... 0 0 0]\n [0 0 0 ... 0 0 0]\n ...\n [0 0 0 ... 0 0 0]\n [0 0 0 ... 6 5 4]\n [0 0 0 ... 3 2 1]]", a.String())
		assert.Equal(t, "[0 0 0 ... 3 2 1]", flat.String())
	})
}

// TestArrowColumnsReachBeyond32Bits uses a column of more than 2^32 rows with a few
// nulls.
func TestArrowColumnsReachBeyond32Bits(t *testing.T) {
	block := ndtest.Pattern()
	ndtest.OnHuge(t, 10, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.Periodic(t, dev, block, ndtest.HugeExtent)
		missing := []int64{1 << 31, 1<<32 - 1, 1<<32 + 7, ndtest.HugeExtent - 1}
		bitmap := ndtest.Upload(t, dev, bytes.Repeat([]byte{0xff}, ndtest.HugeExtent/8+1))
		for _, row := range missing {
			_, err := bitmap.CopyFromHost([]byte{0xff &^ (1 << (row % 8))}, row/8)
			require.NoError(t, err)
		}
		validity, values := bitmap.Arrow(), a.Buffer().Arrow()
		defer validity.Release()
		defer values.Release()

		t.Run("numbers", func(t *testing.T) {
			data := array.NewData(arrow.PrimitiveTypes.Uint8, ndtest.HugeExtent, []*memory.Buffer{nil, values}, nil, 0, 0)
			defer data.Release()
			column := ndtest.Own(t, arrowbuf.NewArray(data), nil)
			shown := ndtest.View(t)(ndview.FromArrow(column))
			require.Equal(t, []int64{ndtest.HugeExtent}, shown.Shape())
			assert.Equal(t, a.Buffer().Address(), shown.Buffer().Address())
			tail := ndtest.Own(t, arrowbuf.NewSlice(column, 1<<32-5, ndtest.HugeExtent), nil)
			ndtest.RequirePeriodic(t, ndtest.Rotated(block, 1<<32-5), ndtest.View(t)(ndview.FromArrow(tail)))

			made, err := ndview.ToArrow(shown, ndview.ArrowOptions{})
			require.NoError(t, err)
			defer made.Release()
			assert.Equal(t, ndtest.HugeExtent, made.Len())
			assert.Zero(t, made.NullN())
		})
		t.Run("missing ones", func(t *testing.T) {
			data := array.NewData(arrow.PrimitiveTypes.Uint8, ndtest.HugeExtent, []*memory.Buffer{validity, values}, nil, array.UnknownNullCount, 0)
			defer data.Release()
			column := ndtest.Own(t, arrowbuf.NewArray(data), nil)
			assert.Equal(t, len(missing), column.NullN())
			shown, mask, err := ndview.FromArrowMasked(column)
			ndtest.Own(t, shown, err)
			where, err := ndview.ArgWhere(ndtest.Own(t, mask, nil))
			assert.Equal(t, ndtest.Raw(missing...), ndtest.Elements(t, ndtest.Own(t, where, err)))
			made, err := ndview.ToArrow(shown, ndview.ArrowOptions{Mask: mask})
			require.NoError(t, err)
			defer made.Release()
			assert.Equal(t, len(missing), made.NullN())
			assert.True(t, made.IsNull(1<<32+7))
			assert.False(t, made.IsNull(1<<32+6))
			assert.False(t, made.IsNull(7))
		})
		t.Run("truths", func(t *testing.T) {
			data := array.NewData(arrow.FixedWidthTypes.Boolean, ndtest.HugeExtent, []*memory.Buffer{nil, validity}, nil, 0, 0)
			defer data.Release()
			shown := ndtest.View(t)(ndview.FromArrow(ndtest.Own(t, arrowbuf.NewArray(data), nil)))
			not, err := ndview.LogicalNot.Of(shown)
			where, err2 := ndview.ArgWhere(ndtest.Own(t, not, err))
			assert.Equal(t, ndtest.Raw(missing...), ndtest.Elements(t, ndtest.Own(t, where, err2)))
			made, err := ndview.ToArrow(shown, ndview.ArrowOptions{})
			require.NoError(t, err)
			defer made.Release()
			bits, err := arrowbuf.BufferOf(made.Data().Buffers()[1])
			ndtest.Own(t, bits, err)
			same, err := ndtest.At(t, bits, ndview.Uint8, 0, ndtest.HugeExtent/8).Equal(ndtest.At(t, bitmap, ndview.Uint8, 0, ndtest.HugeExtent/8))
			require.NoError(t, err)
			assert.True(t, same)
		})
	})
}
