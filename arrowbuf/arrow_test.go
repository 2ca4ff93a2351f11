package arrowbuf_test

import (
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

func TestBuffersAreFoundBehindSlicesOfArrowBuffers(t *testing.T) {
	everywhere(t, func(t *testing.T, dev arrowbuf.Device) {
		view := alloc(t, dev, 100).Arrow()
		defer view.Release()
		outer := memory.SliceBuffer(view, 10, 80)
		defer outer.Release()
		for _, c := range []struct{ from, n int }{{0, 80}, {0, 1}, {7, 20}, {79, 1}, {80, 0}, {30, 0}, {0, 0}} {
			inner := memory.SliceBuffer(outer, c.from, c.n)
			b, err := arrowbuf.BufferOf(inner)
			require.NoError(t, err)
			assert.Same(t, dev, b.Device())
			assert.Equal(t, count(10+c.from, c.n), contents(t, b))
			b.Release()
			found, ok := arrowbuf.FromArrow(inner)
			assert.Equal(t, dev != arrowbuf.CPU(), ok, "arrow-go's own memory is not found")
			if ok {
				assert.Equal(t, count(10+c.from, c.n), contents(t, found))
				found.Release()
			}
			assert.Equal(t, dev == arrowbuf.CPU(), arrowbuf.OnHost(inner))
			inner.Release()
		}
	})
}

func TestArrowBuffersKeepTheirBufferAlive(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		b, err := dev.Alloc(10)
		require.NoError(t, err)
		_, err = b.CopyFromHost(count(0, 10), 0)
		require.NoError(t, err)
		view := b.Arrow()
		b.Release()
		slice := memory.SliceBuffer(view, 2, 5)
		view.Release()
		found, ok := arrowbuf.FromArrow(slice)
		require.True(t, ok)
		slice.Release()
		assert.Equal(t, count(2, 5), contents(t, found))
		found.Release()
	})
}

func TestArrowBuffersOfADeviceDoNotGrow(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		view := alloc(t, dev, 10).Arrow()
		defer view.Release()
		assert.PanicsWithValue(t, "arrowbuf: a device buffer cannot be resized in place", func() { view.Resize(1000) })
		empty := alloc(t, dev, 0).Arrow()
		defer empty.Release()
		assert.PanicsWithValue(t, "arrowbuf: a device buffer cannot grow in place", func() { empty.Resize(1000) })
	})
}

func TestAnAbsentBufferIsNoBuffer(t *testing.T) {
	_, ok := arrowbuf.FromArrow(nil)
	assert.False(t, ok)
	_, err := arrowbuf.BufferOf(nil)
	assert.Error(t, err)
	assert.True(t, arrowbuf.OnHost(nil))
}

func TestNewArrayTellsDeviceMemoryFromHostMemory(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		host := randomBatch(t, checked(t), 20, movable...)
		moved := copyBatch(t, host, dev)
		defer moved.Release()
		for i, column := range host.Columns() {
			own := arrowbuf.NewArray(column.Data())
			assert.IsType(t, column, own)
			own.Release()
			if dtype := column.DataType(); dtype.ID() == arrow.NULL || arrow.TypeEqual(dtype, arrow.StructOf()) && column.NullN() == 0 {
				continue // no memory could tell
			}
			there := arrowbuf.NewArray(moved.Column(i).Data())
			assert.IsType(t, (*arrowbuf.Array)(nil), there, column.DataType())
			assert.Same(t, dev, arrowbuf.DeviceOf(there))
			assert.Equal(t, column.String(), there.String())
			there.Release()
		}
	})
}

// arrow-go's own arrays over device memory are harmless as long as nobody looks
// inside; copying them is not a look.
func TestArrowsOwnArraysOverDeviceMemoryAreCopied(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		host := randomBatch(t, checked(t), 20, arrow.PrimitiveTypes.Int32)
		moved := copyBatch(t, host, dev)
		defer moved.Release()
		raw := array.MakeFromData(moved.Column(0).Data())
		defer raw.Release()
		require.IsType(t, (*array.Int32)(nil), raw)
		assert.Same(t, dev, arrowbuf.DeviceOf(raw))
		back, err := arrowbuf.CopyArrayTo(raw, arrowbuf.CPU())
		require.NoError(t, err)
		defer back.Release()
		assert.True(t, array.Equal(host.Column(0), back))
		shared := copyArray(t, raw, dev)
		defer shared.Release()
		assert.Equal(t, host.Column(0).String(), shared.String())
	})
}

func TestArraysMayBeUsedFromManyGoroutines(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		host := randomBatch(t, checked(t), 100, arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int32)
		moved := copyBatch(t, host, dev)
		defer moved.Release()
		slice := moved.NewSlice(3, 80)
		defer slice.Release()
		want := host.NewSlice(3, 80)
		defer want.Release()
		nulls := []int{want.Column(0).NullN(), want.Column(1).NullN()} // counted here: arrow-go's is no safe count
		var wg sync.WaitGroup
		for range 4 {
			slice.Retain()
			wg.Go(func() {
				defer slice.Release()
				for i, column := range slice.Columns() {
					assert.Equal(t, nulls[i], column.NullN())
					assert.Equal(t, want.Column(i).IsNull(7), column.IsNull(7))
					assert.Equal(t, want.Column(i).String(), column.String())
				}
			})
		}
		wg.Wait()
	})
}

func TestReleasingAnArrayTooOftenPanics(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		moved := copyArray(t, randomBatch(t, checked(t), 5, arrow.PrimitiveTypes.Int8).Column(0), dev)
		moved.Retain()
		moved.Release()
		moved.Release()
		assert.Panics(t, moved.Release)
	})
}

// A method without an error to return has no other way to tell.
func TestALookAtABrokenDevicePanicsWithItsError(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		moved := copyArray(t, randomBatch(t, checked(t), 50, arrow.BinaryTypes.String).Column(0), dev)
		defer moved.Release()
		slice := moved.Slice(3, 40)
		defer slice.Release()
		dev.failCopies.Store(true)
		defer dev.failCopies.Store(false)
		for name, look := range map[string]func(){
			"NullN":    func() { slice.NullN() },
			"IsNull":   func() { slice.IsNull(0) },
			"ValueStr": func() { _ = slice.ValueStr(0) },
			"String":   func() { _ = slice.String() },
		} {
			t.Run(name, func(t *testing.T) {
				defer func() {
					err, _ := recover().(error)
					assert.ErrorIs(t, err, errBroken)
				}()
				look()
			})
		}
	})
}

func TestTheBitmapOfASliceIsCopiedInItsPlace(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		host := randomBatch(t, checked(t), 200, arrow.PrimitiveTypes.Int8).Column(0)
		moved := copyArray(t, host, dev)
		defer moved.Release()
		slice := moved.Slice(101, 150)
		defer slice.Release()
		bits := slice.NullBitmapBytes()
		require.Len(t, bits, 19)
		assert.Equal(t, make([]byte, 12), bits[:12])
		assert.Equal(t, host.NullBitmapBytes()[12:19], bits[12:])
	})
}
