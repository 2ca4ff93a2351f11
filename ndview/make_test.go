package ndview_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
)

func TestNewLiesInTheOrderAskedFor(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for order, strides := range map[ndview.Order][]int64{
			0: {48, 16, 4}, ndview.OrderC: {48, 16, 4}, ndview.OrderA: {48, 16, 4}, ndview.OrderK: {48, 16, 4}, ndview.OrderF: {4, 8, 24},
		} {
			a, err := ndview.New(dev, ndview.Float32, []int64{2, 3, 4}, ndview.Options{Order: order})
			own(t, a, err)
			assert.Equal(t, strides, a.Strides(), "%q", order)
			assert.Equal(t, dev, a.Device())
			assert.Equal(t, order == ndview.OrderF, a.Flags().FNC())
			assert.True(t, a.Flags().OwnData)
		}
		none, err := ndview.New(dev, ndview.Float32, []int64{0, 3}, ndview.Options{Order: ndview.OrderF})
		own(t, none, err)
		assert.True(t, none.Flags().CContiguous && none.Flags().FContiguous)
		_, err = ndview.New(dev, ndview.Float32, []int64{1}, ndview.Options{Order: 'Z'})
		assert.ErrorIs(t, err, ndview.ErrShape)
		_, err = ndview.New(dev, ndview.Float32, []int64{-1}, ndview.Options{})
		assert.ErrorIs(t, err, ndview.ErrShape)
	})
}

func TestZerosAreZero(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for range 3 { // memory that was used before
			a, err := ndview.Zeros(dev, ndview.Int16, 3, 5)
			own(t, a, err)
			assert.Equal(t, make([]byte, 30), elements(t, a))
			used, err := ndview.Empty(dev, ndview.Uint8, 30)
			assert.NoError(t, err)
			assert.NoError(t, used.CopyFromHost(poisoned(30)))
			used.Release()
		}
	})
}

func TestResultsThatComeAndGoShareMemoryWhileTheirWorkWaits(t *testing.T) {
	onCUDA(t, func(t *testing.T, dev *cudabuf.Device) {
		const n = 4 << 20 // an allocation of its own each
		x, err := ndview.Full(dev, ndview.Uint8, 40, n)
		own(t, x, err)
		stream, err := dev.DefaultStream()
		require.NoError(t, err)
		first, err := ndview.Add.Of(x, uint8(0)) // loads the kernel, which waits for what the GPU does
		require.NoError(t, err)
		first.Release()
		require.NoError(t, dev.Synchronize())
		held := func() int64 { s := dev.MemoryStats(); return s.InUse + s.Idle }
		before := held()
		gate := make(chan struct{})
		require.NoError(t, stream.Do(func() { <-gate }))
		var last *ndview.NDBuffer
		for i := range 8 {
			if last != nil {
				last.Release()
			}
			last, err = ndview.Add.Of(x, uint8(i))
			require.NoError(t, err)
		}
		during := held()
		close(gate)
		own(t, last, nil)
		assert.LessOrEqual(t, during-before, int64(n))
		assert.Equal(t, bytes.Repeat([]byte{47}, n), elements(t, last))
	})
}

func TestWhatIsNotThereIsAnError(t *testing.T) {
	_, err := ndview.Empty(nil, ndview.Int8, 3)
	assert.ErrorIs(t, err, arrowbuf.ErrDevice)
	_, err = ndview.FromHost(nil, ndview.Int8, []int8{1}, 1)
	assert.ErrorIs(t, err, arrowbuf.ErrDevice)
	_, err = ndview.BufferFrom(nil, []byte{1})
	assert.ErrorIs(t, err, arrowbuf.ErrDevice)
	_, err = ndview.FromBuffer(nil, ndview.Int8, 0, []int64{1}, nil)
	assert.ErrorIs(t, err, arrowbuf.ErrDevice)
	_, err = ndview.FromArrow(nil)
	assert.ErrorIs(t, err, ndview.ErrDType)
}

func TestArraysWithoutAxesAreTakenFromAsOfOneElement(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		five := fromHost(t, dev, ndview.Int16, []int16{5})
		taken, err := ndview.Take(five, fromHost(t, dev, ndview.Int64, []int64{0, -1, 0, 0}, 2, 2), -1, ndview.ModeRaise)
		own(t, taken, err)
		assert.Equal(t, []int64{2, 2}, taken.Shape())
		assert.Equal(t, raw[int16](5, 5, 5, 5), elements(t, taken))
		kept, err := ndview.Compress(fromHost(t, dev, ndview.Bool, []bool{true}, 1), five, 0)
		own(t, kept, err)
		assert.Equal(t, []int64{1}, kept.Shape())
		_, err = ndview.Take(five, fromHost(t, dev, ndview.Int64, []int64{1}, 1), 0, ndview.ModeRaise)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
	})
}
