package ndview_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
)

func TestArraysWithoutElementsLieInBothOrders(t *testing.T) {
	a := fromHost(t, arrowbuf.CPU(), ndview.Int32, count(24), 2, 3, 4)
	none := index(t, a, ndview.SpanStep(ndview.Open, ndview.Open, -1), ndview.Span(2, 1), ndview.SpanStep(0, 4, 2))
	f := none.Flags()
	assert.True(t, f.CContiguous && f.FContiguous && f.Aligned)
}

func TestFlagsDoNotDependOnHowAnArrayWasMade(t *testing.T) {
	fresh := fromHost(t, arrowbuf.CPU(), ndview.Int32, count(6), 1, 6)
	view := index(t, fresh, ndview.All)
	assert.True(t, fresh.Flags().CContiguous && fresh.Flags().FContiguous)
	assert.True(t, view.Flags().CContiguous && view.Flags().FContiguous)
	assert.True(t, fresh.Flags().OwnData)
	assert.False(t, view.Flags().OwnData)
	assert.Equal(t, "C_CONTIGUOUS : true\nF_CONTIGUOUS : true\nOWNDATA : false\nWRITEABLE : true\nALIGNED : true", view.Flags().String())
}

func TestBaseIsTheArrayThatTheFirstViewWasMadeOf(t *testing.T) {
	a := fromHost(t, arrowbuf.CPU(), ndview.Int32, count(6), 2, 3)
	assert.Nil(t, a.Base())
	row := index(t, a, ndview.At(1))
	assert.Same(t, a, row.Base())
	assert.Same(t, a, index(t, row, ndview.At(1)).Base())
}

func TestWhatMustNotBeWrittenToIsNot(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := fromHost(t, dev, ndview.Int64, []int64{7}, 1)
		repeated, err := a.BroadcastTo(1)
		own(t, repeated, err)
		locked, err := a.ReadOnly()
		own(t, locked, err)
		arrays := []*ndview.NDBuffer{repeated, locked, index(t, locked, ndview.Span(0, 1))}
		if b, ok := a.Buffer().(*cudabuf.Buffer); ok {
			shut, err := b.ReadOnly()
			own(t, shut, err)
			v, err := ndview.FromBuffer(shut, ndview.Int64, 0, []int64{1}, nil)
			arrays = append(arrays, own(t, v, err))
		}
		narrow := fromHost(t, dev, ndview.Int32, count(1), 1)
		mask := fromHost(t, dev, ndview.Bool, []bool{true}, 1)
		for i, v := range arrays {
			assert.False(t, v.Flags().Writeable)
			assert.False(t, v.Flags().Behaved())
			bytes, err := v.View(ndview.Uint8)
			own(t, bytes, err)
			for name, err := range map[string]error{
				"CopyFrom":     v.CopyFrom(a),
				"CopyFromHost": v.CopyFromHost(make([]byte, 8)),
				"FillWhere":    v.FillWhere(mask, 0),
				"Assign":       v.Assign(narrow),
				"Zero":         v.Zero(),
				"UnpackBits":   bytes.UnpackBits(a.Buffer(), 0, false),
				"Fill":         v.Fill(1),
				"ByteSwap":     v.ByteSwap(),
				"Set":          v.Set(1, ndview.At(0)),
				"Set by index": v.Set(1, ndview.Ints(0)),
				"Set by mask":  v.Set(1, ndview.Mask(mask)),
				"Put":          ndview.Put(v, narrow, 1, ndview.ModeWrap),
				"Binary.Into":  ndview.Add.Into(v, a, 1),
				"Unary.Into":   ndview.Negative.Into(v, a),
				"WhereInto":    ndview.WhereInto(v, mask, a, 1),
				"ClipInto":     ndview.ClipInto(v, a, 1, 2),
				"Sum.Into":     ndview.Sum.Into(v, a, ndview.ReduceOptions{Axes: []int{}}),
			} {
				assert.ErrorIs(t, err, ndview.ErrReadOnly, "%s of array %d", name, i)
			}
		}
		assert.Equal(t, raw[int64](7), elements(t, a))
		require.NoError(t, a.Zero(), "the array itself may be written to")
	})
}
