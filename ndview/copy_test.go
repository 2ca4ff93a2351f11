package ndview_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
)

func TestZeroWritesNothingBesideTheArray(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		want := poisoned(64)
		buf := upload(t, dev, want)
		require.NoError(t, at(t, buf, ndview.Bytes(3), 5, 7).Zero())
		clear(want[5 : 5+21])
		assert.Equal(t, want, download(t, buf))
		gaps, err := ndview.FromBuffer(buf, ndview.Uint8, 0, []int64{8}, []int64{2})
		own(t, gaps, err)
		assert.ErrorIs(t, gaps.Zero(), ndview.ErrShape)
		assert.Equal(t, want, download(t, buf))
	})
}

func TestCopyFromCopiesBetweenAllDevices(t *testing.T) {
	cudatest.ForEachDriver(t, 2, func(t *testing.T, d *cudabuf.Driver) {
		devices := []arrowbuf.Device{arrowbuf.CPU(), cudatest.NewDevice(t)}
		for i := range 2 {
			dev, err := d.Device(i)
			require.NoError(t, err)
			devices = append(devices, dev)
		}
		for i, from := range devices {
			for j, to := range devices {
				src := upload(t, from, raw(count(20)...))
				want := poisoned(40)
				dst := upload(t, to, want)
				require.NoError(t, at(t, dst, ndview.Int32, 3, 2, 3).CopyFrom(at(t, src, ndview.Int32, 8, 2, 3)))
				copy(want[3:], raw[int32](2, 3, 4, 5, 6, 7))
				assert.Equal(t, want, download(t, dst), "from device %d to %d", i, j)
			}
		}
	})
}

func TestCopyFromTakesOverlappingArrays(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := fromHost(t, dev, ndview.Int32, count(6), 6)
		first, last := at(t, a.Buffer(), ndview.Int32, 0, 4), at(t, a.Buffer(), ndview.Int32, 8, 4)
		require.NoError(t, last.CopyFrom(first))
		assert.Equal(t, raw[int32](0, 1, 0, 1, 2, 3), elements(t, a))
		require.NoError(t, first.CopyFrom(last))
		assert.Equal(t, raw[int32](0, 1, 2, 3, 2, 3), elements(t, a))
	})
}

func TestCopyFromRefuses(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := fromHost(t, dev, ndview.Int32, count(4), 2, 2)
		turned, err := a.Transpose()
		own(t, turned, err)
		zeros := func(d ndview.DType, shape ...int64) *ndview.NDBuffer {
			return at(t, upload(t, dev, make([]byte, 64)), d, 0, shape...)
		}
		assert.ErrorIs(t, a.CopyFrom(zeros(ndview.Uint32, 2, 2)), ndview.ErrDType)
		assert.ErrorIs(t, a.CopyFrom(zeros(ndview.Int32, 4)), ndview.ErrShape)
		assert.ErrorIs(t, a.CopyFrom(zeros(ndview.Int32, 2, 1)), ndview.ErrShape)
		assert.ErrorIs(t, turned.CopyFrom(zeros(ndview.Int32, 2, 2)), ndview.ErrShape)
		assert.ErrorIs(t, a.CopyFrom(turned), ndview.ErrShape)
		assert.Equal(t, raw(count(4)...), elements(t, a), "what failed must not have written")
	})
}
