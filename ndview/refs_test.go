package ndview_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

func TestMemoryStaysUntilTheLastViewIsReleased(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a, err := ndview.FromHost(dev, ndview.Int32, count(6), 2, 3)
		require.NoError(t, err)
		row, err := a.Slice(0, 1, 2)
		require.NoError(t, err)
		column, err := row.Transpose()
		require.NoError(t, err)
		a.Release()
		row.Release()
		column.Retain()
		column.Release()
		got, err := ndview.ToHost[int32](column)
		require.NoError(t, err)
		assert.Equal(t, []int32{3, 4, 5}, got)
		assertAlive(t, dev, true)
		column.Release()
		assertAlive(t, dev, false)
	})
}

func TestFailedConstructionLeavesNothingBehind(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		_, err := ndview.FromHost(dev, ndview.Int32, count(6), 2, 4)
		assert.ErrorIs(t, err, ndview.ErrShape)
		buf, err := dev.Alloc(64)
		require.NoError(t, err)
		_, err = ndview.FromBuffer(buf, ndview.Int32, 64, []int64{1}, nil)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		buf.Release()
		assertAlive(t, dev, false)
	})
}

func TestReleasedArrayAnswersErrReleased(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		// The buffer lives on, so it is the array that must refuse.
		buf := upload(t, dev, make([]byte, 64))
		gone := map[ndview.DType]*ndview.NDBuffer{}
		live := map[ndview.DType]*ndview.NDBuffer{}
		for _, dtype := range []ndview.DType{ndview.Bool, ndview.Int32, ndview.Int64} {
			live[dtype] = at(t, buf, dtype, 0, 4)
			a, err := ndview.FromBuffer(buf, dtype, 32, []int64{4}, nil)
			require.NoError(t, err)
			a.Release()
			gone[dtype] = a
		}
		a := gone[ndview.Int64]
		view := func(_ *ndview.NDBuffer, err error) error { return err }
		tests := map[string]error{
			"Slice":            view(a.Slice(0, 0, 1)),
			"Transpose":        view(a.Transpose()),
			"Reshape":          view(a.Reshape(2, 2)),
			"View":             view(a.View(ndview.Uint64)),
			"CopyToHost":       a.CopyToHost(make([]byte, 32)),
			"CopyFromHost":     a.CopyFromHost(make([]byte, 32)),
			"CopyFrom to it":   a.CopyFrom(live[ndview.Int64]),
			"CopyFrom it":      live[ndview.Int64].CopyFrom(a),
			"Zero":             a.Zero(),
			"FillWhere on it":  a.FillWhere(live[ndview.Bool], 1),
			"FillWhere by it":  live[ndview.Int64].FillWhere(gone[ndview.Bool], 1),
			"Assign to it":     a.Assign(live[ndview.Int32]),
			"Assign it":        live[ndview.Int64].Assign(gone[ndview.Int32]),
			"UnpackBits to it": gone[ndview.Bool].UnpackBits(buf, 0, false),
		}
		for name, err := range tests {
			assert.ErrorIs(t, err, arrowbuf.ErrReleased, name)
		}
		_, ok := a.HostBytes()
		assert.False(t, ok)
		assertPanicsWith(t, arrowbuf.ErrReleased, a.Retain)
		assertPanicsWith(t, arrowbuf.ErrReleased, a.Release)
	})
}

func TestUnpackBitsOfAReleasedBitmapIsAnError(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a, err := ndview.Empty(dev, ndview.Bool, 16)
		own(t, a, err)
		bits, err := dev.Alloc(2)
		require.NoError(t, err)
		bits.Release()
		assert.ErrorIs(t, a.UnpackBits(bits, 0, false), arrowbuf.ErrReleased)
	})
}

func assertPanicsWith(t *testing.T, want error, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		err, _ := recover().(error)
		assert.ErrorIs(t, err, want)
	}()
	f()
}
