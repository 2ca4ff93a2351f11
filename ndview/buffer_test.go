package ndview_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
)

func bufferFrom(t *testing.T, dev arrowbuf.Device, data ...byte) *ndview.Buffer {
	t.Helper()
	b, err := ndview.BufferFrom(dev, data)
	return own(t, b, err)
}

func bytesOf(t *testing.T, b *ndview.Buffer) []byte {
	t.Helper()
	data, err := b.Bytes()
	require.NoError(t, err)
	return data
}

func TestBufferSlicesHavePythonsBounds(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		b := bufferFrom(t, dev, 0, 1, 2, 3, 4)
		for _, tt := range []struct {
			start, stop int64
			want        []byte
		}{
			{0, 5, []byte{0, 1, 2, 3, 4}},
			{1, 3, []byte{1, 2}},
			{-2, 5, []byte{3, 4}},
			{-9, -3, []byte{0, 1}},
			{3, math.MaxInt64, []byte{3, 4}},
			{math.MinInt64 + 1, math.MaxInt64, []byte{0, 1, 2, 3, 4}},
			{1, math.MinInt64 + 1, []byte{}},
			{ndview.Open, -1, []byte{0, 1, 2, 3}},
			{-1, ndview.Open, []byte{4}},
			{ndview.Open, ndview.Open, []byte{0, 1, 2, 3, 4}},
			{3, 1, []byte{}},
			{-1, 0, []byte{}},
			{7, 9, []byte{}},
			{5, 5, []byte{}},
			{0, -9, []byte{}},
		} {
			part, err := b.Slice(tt.start, tt.stop)
			own(t, part, err)
			assert.Equal(t, tt.want, bytesOf(t, part), "[%d:%d]", tt.start, tt.stop)
			assert.Equal(t, int64(len(tt.want)), part.Len())
			assert.Equal(t, dev, part.Device())
		}
	})
}

func TestBufferSlicesAreViewsThatOutliveTheWhole(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		b, err := ndview.BufferFrom(dev, []byte{0, 1, 2, 3})
		require.NoError(t, err)
		part, err := b.Slice(1, 3)
		own(t, part, err)
		require.NoError(t, b.SetRange(0, 4, bufferFrom(t, dev, 9, 8, 7, 6)))
		assert.Equal(t, []byte{8, 7}, bytesOf(t, part))
		b.Release()
		assert.Equal(t, []byte{8, 7}, bytesOf(t, part))
	})
}

func TestBufferRangesAreSet(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		b := bufferFrom(t, dev, make([]byte, 8)...)
		for _, from := range []arrowbuf.Device{dev, otherThan(t, dev)} {
			require.NoError(t, b.SetRange(0, 8, bufferFrom(t, from, 0)), "one byte is repeated")
			require.NoError(t, b.SetRange(1, 4, bufferFrom(t, from, 1, 2, 3)))
			require.NoError(t, b.SetRange(-3, 99, bufferFrom(t, from, 7)))
			require.NoError(t, b.SetRange(6, 2, bufferFrom(t, from)), "nothing into an empty range")
			require.NoError(t, b.SetRange(6, 2, bufferFrom(t, from, 5)), "nothing of one byte")
			assert.Equal(t, []byte{0, 1, 2, 3, 0, 7, 7, 7}, bytesOf(t, b))

			err := b.SetRange(0, 2, bufferFrom(t, from, 1, 2, 3))
			assert.ErrorIs(t, err, ndview.ErrShape)
			assert.ErrorContains(t, err, "3 bytes for the 2 of [0, 2)")
			assert.ErrorIs(t, b.SetRange(0, 1, bufferFrom(t, from)), ndview.ErrShape)
			assert.Equal(t, []byte{0, 1, 2, 3, 0, 7, 7, 7}, bytesOf(t, b), "what failed must not have written")
		}
	})
}

func TestBufferRangesAreSetFromThemselves(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, forth := range []bool{true, false} {
			data := make([]byte, 1000)
			for i := range data {
				data[i] = byte(i * 7)
			}
			b := bufferFrom(t, dev, append([]byte{}, data...)...)
			from, to := int64(0), int64(3)
			if !forth {
				from, to = to, from
			}
			part, err := b.Slice(from, from+997)
			own(t, part, err)
			require.NoError(t, b.SetRange(to, to+997, part))
			copy(data[to:to+997], append([]byte{}, data[from:from+997]...))
			assert.Equal(t, data, bytesOf(t, b))
		}
	})
}

func TestBuffersCombineIntoANewOne(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := bufferFrom(t, dev, 1, 2)
		all, err := a.Combine(bufferFrom(t, dev), bufferFrom(t, otherThan(t, dev), 3), bufferFrom(t, dev, 4, 5))
		own(t, all, err)
		assert.Equal(t, []byte{1, 2, 3, 4, 5}, bytesOf(t, all))
		assert.Equal(t, dev, all.Device())

		same, err := a.Combine()
		own(t, same, err)
		require.NoError(t, same.SetRange(0, 2, bufferFrom(t, dev, 9)))
		assert.Equal(t, []byte{1, 2}, bytesOf(t, a), "of none it is a copy")
	})
}

func TestBuffersAreEqualByTheirBytesAcrossDevices(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := bufferFrom(t, dev, 1, 2, 3)
		for _, other := range []arrowbuf.Device{dev, otherThan(t, dev)} {
			for want, data := range map[string][]byte{"same": {1, 2, 3}, "value": {1, 2, 4}, "shorter": {1, 2}, "longer": {1, 2, 3, 0}, "none": {}} {
				b := bufferFrom(t, other, data...)
				equal, err := a.Equal(b)
				require.NoError(t, err)
				assert.Equal(t, want == "same", equal, want)
				equal, err = b.Equal(a)
				require.NoError(t, err)
				assert.Equal(t, want == "same", equal, want)
			}
		}
	})
}

func TestBuffersOfNoBytes(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		none := bufferFrom(t, dev)
		assert.Zero(t, none.Len())
		assert.Empty(t, bytesOf(t, none))
		made, err := ndview.PrototypeOn(dev).Buffer(0)
		own(t, made, err)
		equal, err := none.Equal(made)
		require.NoError(t, err)
		assert.True(t, equal)
		part, err := none.Slice(-1, 1)
		own(t, part, err)
		assert.Zero(t, part.Len())
		array, err := none.Array()
		own(t, array, err)
		assert.Equal(t, []int64{0}, array.Shape())
	})
}

func TestBufferOnTheCPUIsTheSliceItself(t *testing.T) {
	data := []byte{1, 2, 3}
	b := bufferFrom(t, arrowbuf.CPU(), data...)
	require.NoError(t, b.SetRange(0, 1, bufferFrom(t, arrowbuf.CPU(), 9)))
	assert.Equal(t, byte(9), data[0])
	host, ok := b.HostBytes()
	require.True(t, ok)
	assert.Equal(t, &data[0], &host[0])

	_, ok = bufferFrom(t, cudatest.NewDevice(t), data...).HostBytes()
	assert.False(t, ok)
}

func TestBuffersMoveOnlyWhereTheyMust(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		b := bufferFrom(t, dev, 1, 2, 3)
		same, err := b.To(dev)
		own(t, same, err)
		assert.Equal(t, b.Memory().Address(), same.Memory().Address())
		moved, err := b.To(otherThan(t, dev))
		own(t, moved, err)
		assert.NotEqual(t, dev, moved.Device())
		require.NoError(t, b.SetRange(0, 3, bufferFrom(t, dev, 0)))
		assert.Equal(t, []byte{0, 0, 0}, bytesOf(t, same))
		assert.Equal(t, []byte{1, 2, 3}, bytesOf(t, moved))
	})
}

func TestBuffersAndArraysOfBytesShareMemory(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := fromHost(t, dev, ndview.Uint8, []uint8{0, 1, 2, 3}, 4)
		middle, err := a.Slice(0, 1, 3)
		own(t, middle, err)
		b, err := ndview.BufferOf(middle)
		own(t, b, err)
		require.NoError(t, b.SetRange(0, 2, bufferFrom(t, dev, 8, 9)))
		assert.Equal(t, []byte{0, 8, 9, 3}, elements(t, a))

		back, err := b.Array()
		own(t, back, err)
		assert.Equal(t, ndview.Uint8, back.DType())
		assert.Equal(t, []byte{8, 9}, elements(t, back))

		over := ndview.BufferOver(a.Buffer())
		own(t, over, nil)
		assert.Equal(t, []byte{0, 8, 9, 3}, bytesOf(t, over))
	})
}

func TestBufferOfRefusesWhatIsNoRunOfBytes(t *testing.T) {
	dev := arrowbuf.CPU()
	for _, dtype := range []ndview.DType{ndview.Int8, ndview.Bool, ndview.Bytes(1)} {
		_, err := ndview.BufferOf(at(t, upload(t, dev, make([]byte, 8)), dtype, 0, 8))
		assert.ErrorIs(t, err, ndview.ErrDType)
	}
	bytes := upload(t, dev, make([]byte, 8))
	_, err := ndview.BufferOf(at(t, bytes, ndview.Uint8, 0, 2, 4))
	assert.ErrorIs(t, err, ndview.ErrShape)
	_, err = ndview.BufferOf(at(t, bytes, ndview.Uint8, 0))
	assert.ErrorIs(t, err, ndview.ErrShape)
	stepped, err := ndview.FromBuffer(bytes, ndview.Uint8, 0, []int64{4}, []int64{2})
	own(t, stepped, err)
	_, err = ndview.BufferOf(stepped)
	assert.ErrorIs(t, err, ndview.ErrShape, "zarr-python takes this and then breaks its promise of contiguity")
}

func TestBuffersOfWhatIsOnlyReadAreNotWritten(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := fromHost(t, dev, ndview.Uint8, []uint8{1, 2, 3, 4}, 4)
		one := bufferFrom(t, dev, 9)
		whole, err := ndview.BufferOf(readOnly(t, a))
		require.NoError(t, err)
		defer whole.Release()
		part, err := whole.Slice(1, 3)
		require.NoError(t, err)
		defer part.Release()
		same, err := part.To(dev)
		require.NoError(t, err)
		defer same.Release()
		for _, b := range []*ndview.Buffer{whole, part, same} {
			assert.ErrorIs(t, b.SetRange(0, ndview.Open, one), ndview.ErrReadOnly)
			array, err := b.Array()
			own(t, array, err)
			assert.False(t, array.Flags().Writeable)
		}
		assert.Equal(t, []byte{1, 2, 3, 4}, elements(t, a))
		moved, err := whole.To(otherThan(t, dev))
		require.NoError(t, err)
		defer moved.Release()
		assert.NoError(t, moved.SetRange(0, ndview.Open, one), "a copy is its own")
	})
}

func TestReleasedBuffersAnswerErrReleased(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		b, err := ndview.BufferFrom(dev, []byte{1, 2, 3})
		require.NoError(t, err)
		b.Retain()
		b.Release()
		assert.Equal(t, []byte{1, 2, 3}, bytesOf(t, b))
		b.Release()
		_, err = b.Slice(0, 0)
		assert.ErrorIs(t, err, arrowbuf.ErrReleased)
		_, err = b.Array()
		assert.ErrorIs(t, err, arrowbuf.ErrReleased)
		_, err = b.To(otherThan(t, dev))
		assert.ErrorIs(t, err, arrowbuf.ErrReleased)
		_, ok := b.HostBytes()
		assert.False(t, ok)
		for _, size := range []int{0, 3} { // as long as one that was released is, and as it was
			other := bufferFrom(t, dev, make([]byte, size)...)
			_, err = other.Equal(b)
			assert.ErrorIs(t, err, arrowbuf.ErrReleased)
			_, err = b.Equal(other)
			assert.ErrorIs(t, err, arrowbuf.ErrReleased)
			_, err = other.Combine(b)
			assert.ErrorIs(t, err, arrowbuf.ErrReleased)
			assert.ErrorIs(t, other.SetRange(0, ndview.Open, b), arrowbuf.ErrReleased)
		}
		assert.Panics(t, b.Release)
	})
}

func TestPrototypesAreEqualWhenTheyMeanTheSameDevice(t *testing.T) {
	dev, other := cudatest.NewDevice(t), cudatest.NewDevice(t)
	assert.Equal(t, ndview.Prototype{}, ndview.PrototypeOn(arrowbuf.CPU()))
	assert.True(t, ndview.PrototypeOn(dev) == ndview.PrototypeOn(dev))
	assert.False(t, ndview.PrototypeOn(dev) == ndview.PrototypeOn(other))
	assert.False(t, ndview.PrototypeOn(dev) == ndview.Prototype{})
	assert.Equal(t, arrowbuf.CPU(), ndview.Prototype{}.Device())
	assert.Equal(t, dev, ndview.PrototypeOn(dev).Device())
	assert.Equal(t, "cpu", ndview.Prototype{}.String())
}

func TestPrototypesMakeBuffersAndArraysOnTheirDevice(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		p := ndview.PrototypeOn(dev)
		b, err := p.BufferFrom([]byte{1, 2})
		own(t, b, err)
		assert.Equal(t, dev, b.Device())
		assert.Equal(t, []byte{1, 2}, bytesOf(t, b))
		b, err = p.Buffer(5)
		own(t, b, err)
		assert.Equal(t, int64(5), b.Len())
		_, err = p.Buffer(-1)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		a, err := p.NDBuffer(ndview.Int16, 2, 3)
		own(t, a, err)
		assert.Equal(t, dev, a.Device())
		assert.Equal(t, []int64{2, 3}, a.Shape())
	})
}
