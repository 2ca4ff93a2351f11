//go:build linux || darwin

package ndview_test

import (
	"errors"
	"math"
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/dlpack"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// exportedTensor is a tensor as C code sees it: an address and the structs of
// dlpack.h.
type exportedTensor struct {
	versioned *dlpack.Versioned
	legacy    *dlpack.Legacy
	tensor    dlpack.Tensor
	deleter   uintptr
	self      unsafe.Pointer
}

func export(t *testing.T, a *ndview.NDBuffer, o ndview.DLPackOptions) exportedTensor {
	t.Helper()
	p, err := ndview.ToDLPack(a, o)
	require.NoError(t, err)
	if o.Legacy {
		l := (*dlpack.Legacy)(p)
		return exportedTensor{legacy: l, tensor: l.Tensor, deleter: l.Deleter, self: p}
	}
	v := (*dlpack.Versioned)(p)
	return exportedTensor{versioned: v, tensor: v.Tensor, deleter: v.Deleter, self: p}
}

func (c exportedTensor) delete() { purego.SyscallN(c.deleter, uintptr(c.self)) }

func (c exportedTensor) int64s(address uintptr) []int64 {
	return unsafe.Slice((*int64)(dlpack.Pointer(address)), c.tensor.NDim)
}

func TestToDLPackExportsArray(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, legacy := range []bool{false, true} {
			whole, err := ndview.FromHost(dev, ndview.Int32, count(24), 2, 3, 4)
			require.NoError(t, err)
			rows, err := whole.Slice(1, 1, 3)
			require.NoError(t, err)
			a, err := rows.Transpose(2, 0, 1)
			require.NoError(t, err)
			c := export(t, a, ndview.DLPackOptions{Legacy: legacy})
			if !legacy {
				assert.EqualValues(t, 1, c.versioned.Major)
				assert.Zero(t, c.versioned.Flags)
			}
			assert.Equal(t, dlpack.DataType{Code: dlpack.Int, Bits: 32, Lanes: 1}, c.tensor.DataType)
			assert.EqualValues(t, 3, c.tensor.NDim)
			assert.Equal(t, []int64{4, 2, 2}, c.int64s(c.tensor.Shape))
			assert.Equal(t, []int64{1, 12, 4}, c.int64s(c.tensor.Strides))
			assert.Zero(t, c.tensor.ByteOffset)
			assert.Equal(t, whole.Buffer().Address()+16, c.tensor.Data)
			if dev == arrowbuf.CPU() {
				assert.Equal(t, dlpack.Device{Type: dlpack.CPU, ID: 0}, c.tensor.Device)
				assert.EqualValues(t, 4, *(*int32)(dlpack.Pointer(c.tensor.Data)))
			} else {
				assert.Equal(t, dlpack.Device{Type: dlpack.CUDA, ID: int32(dev.ID())}, c.tensor.Device)
			}
			for _, view := range []*ndview.NDBuffer{a, rows, whole} {
				view.Release()
			}
			runtime.GC() // does not see pointers held by C
			assert.Equal(t, []int64{4, 2, 2}, c.int64s(c.tensor.Shape))
			assertAlive(t, dev, true)
			c.delete()
			assertAlive(t, dev, false)
		}
	})
}

func TestToDLPackSupportsEveryDLPackType(t *testing.T) {
	bytes := ndtest.Upload(t, arrowbuf.CPU(), make([]byte, 64))
	for dtype, want := range map[ndview.DType][2]uint8{
		ndview.Bool: {6, 8}, ndview.Int8: {0, 8}, ndview.Int16: {0, 16}, ndview.Int32: {0, 32}, ndview.Int64: {0, 64},
		ndview.Uint8: {1, 8}, ndview.Uint16: {1, 16}, ndview.Uint32: {1, 32}, ndview.Uint64: {1, 64},
		ndview.Float16: {2, 16}, ndview.Float32: {2, 32}, ndview.Float64: {2, 64}, ndview.BFloat16: {4, 16},
		ndview.Complex64: {5, 64}, ndview.Complex128: {5, 128},
	} {
		c := export(t, ndtest.At(t, bytes, dtype, 0, 2), ndview.DLPackOptions{})
		assert.Equal(t, dlpack.DataType{Code: want[0], Bits: want[1], Lanes: 1}, c.tensor.DataType, dtype)
		back, err := ndview.FromDLPack(arrowbuf.CPU(), c.self)
		ndtest.Own(t, back, err)
		assert.Equal(t, dtype, back.DType())
	}
	for _, dtype := range []ndview.DType{ndview.Datetime64(ndview.Second, 1), ndview.Timedelta64(ndview.Second, 1), ndview.Bytes(4)} {
		_, err := ndview.ToDLPack(ndtest.At(t, bytes, dtype, 0, 2), ndview.DLPackOptions{})
		assert.ErrorIs(t, err, ndview.ErrDType)
		assert.ErrorContains(t, err, dtype.String())
	}
}

func TestToDLPackRefusesUnsupportedArrays(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		bytes := ndtest.Upload(t, dev, make([]byte, 64))
		odd, err := ndview.FromBuffer(bytes, ndview.Int32, 0, []int64{2}, []int64{6})
		ndtest.Own(t, odd, err)
		_, err = ndview.ToDLPack(odd, ndview.DLPackOptions{})
		assert.ErrorIs(t, err, ndview.ErrShape)
		c := export(t, odd, ndview.DLPackOptions{Copy: true})
		assert.Equal(t, []int64{1}, c.int64s(c.tensor.Strides))
		assert.EqualValues(t, dlpack.IsCopied, c.versioned.Flags)
		c.delete()

		a := ndtest.At(t, bytes, ndview.Int32, 0, 2)
		_, err = ndview.ToDLPack(a, ndview.DLPackOptions{Stream: -2})
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		if dev == arrowbuf.CPU() {
			_, err = ndview.ToDLPack(a, ndview.DLPackOptions{Stream: 1})
			assert.ErrorIs(t, err, arrowbuf.ErrDevice)
		}
	})
}

func TestDLPackPreservesReadOnly(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		fixed, err := ndtest.Upload(t, dev, ndtest.Raw[int32](1, 2)).(*cudabuf.Buffer).ReadOnly()
		ndtest.Own(t, fixed, err)
		a := ndtest.At(t, fixed, ndview.Int32, 0, 2)
		_, err = ndview.ToDLPack(a, ndview.DLPackOptions{Legacy: true})
		assert.ErrorIs(t, err, ndview.ErrReadOnly)
		c := export(t, a, ndview.DLPackOptions{})
		assert.EqualValues(t, dlpack.ReadOnly, c.versioned.Flags)
		back, err := ndview.FromDLPack(dev, c.self)
		ndtest.Own(t, back, err)
		assert.ErrorIs(t, back.CopyFromHost(ndtest.Raw[int32](3, 4)), ndview.ErrReadOnly)
		assert.Equal(t, ndtest.Raw[int32](1, 2), ndtest.Elements(t, back))
	})
	p := produce(t, ndtest.Raw[int32](1, 2), nil, nil)
	p.tensor.Flags = dlpack.ReadOnly
	a, err := ndview.FromDLPack(arrowbuf.CPU(), p.address())
	ndtest.Own(t, a, err)
	assert.ErrorIs(t, a.CopyFromHost(ndtest.Raw[int32](3, 4)), ndview.ErrReadOnly)
	c := export(t, a, ndview.DLPackOptions{})
	assert.EqualValues(t, dlpack.ReadOnly, c.versioned.Flags)
	c.delete()
}

func TestDLPackOrdersConsumerStreams(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		theirs, err := dev.NewStream(cudabuf.StreamOptions{})
		require.NoError(t, err)
		defer func() { assert.NoError(t, theirs.Close()) }()
		ours, err := dev.NewStream(cudabuf.StreamOptions{})
		require.NoError(t, err)
		defer func() { assert.NoError(t, ours.Close()) }()
		for _, stream := range []int64{0, 1, int64(theirs.Handle())} {
			buf, err := dev.NewBuffer(4)
			ndtest.Own(t, buf, err)
			a := ndtest.At(t, buf, ndview.Uint8, 0, 4)
			require.NoError(t, buf.FillAsync(1, ours))
			c := export(t, a, ndview.DLPackOptions{Stream: stream})
			on := theirs
			if stream == 1 {
				on = dev.NullStream()
			}
			seen, err := dev.WrapExternal(c.tensor.Data, 4, nil)
			require.NoError(t, err)
			require.NoError(t, seen.FillAsync(2, on))
			if stream == 0 { // then the consumer must wait
				require.NoError(t, on.Synchronize())
			}
			assert.Equal(t, []byte{2, 2, 2, 2}, ndtest.Elements(t, a), stream)
			c.delete()
			seen.Release()
		}
	})
}

// producer is a tensor of C code that counts calls of its deleter.
type producer struct {
	tensor *dlpack.Versioned
	data   []byte
	shape  []int64
	stride []int64
	pin    runtime.Pinner
}

var deletions sync.Map // uintptr -> int

var countDeletion = sync.OnceValue(func() uintptr {
	return purego.NewCallback(func(self uintptr) uintptr {
		n, _ := deletions.LoadOrStore(self, 0)
		deletions.Store(self, n.(int)+1)
		return 0
	})
})

// produce returns a tensor of int32 in host memory; a nil shape means one axis.
func produce(t *testing.T, data []byte, shape, strides []int64) *producer {
	t.Helper()
	if shape == nil {
		shape = []int64{int64(len(data) / 4)}
	}
	p := &producer{tensor: &dlpack.Versioned{}, data: data, shape: shape, stride: strides}
	deletions.Delete(uintptr(p.address())) // of an earlier tensor at this address
	p.pin.Pin(p.tensor)
	t.Cleanup(p.pin.Unpin)
	address := func(ints []int64) uintptr {
		if len(ints) == 0 {
			return 0
		}
		p.pin.Pin(&ints[0])
		return uintptr(unsafe.Pointer(&ints[0]))
	}
	*p.tensor = dlpack.Versioned{Major: 1, Minor: 0, Deleter: countDeletion(), Tensor: dlpack.Tensor{
		Device: dlpack.Device{Type: dlpack.CPU}, NDim: int32(len(shape)), DataType: dlpack.DataType{Code: dlpack.Int, Bits: 32, Lanes: 1},
		Shape: address(shape), Strides: address(strides),
	}}
	if len(data) > 0 {
		p.pin.Pin(&data[0])
		p.tensor.Tensor.Data = uintptr(unsafe.Pointer(&data[0]))
	}
	t.Cleanup(func() { assert.Equal(t, 1, p.deleted(), "the deleter is called once") })
	return p
}

func (p *producer) address() unsafe.Pointer { return unsafe.Pointer(p.tensor) }

func (p *producer) deleted() int {
	n, ok := deletions.Load(uintptr(p.address()))
	if !ok {
		return 0
	}
	return n.(int)
}

func TestFromDLPackViewsEveryLayout(t *testing.T) {
	for _, tt := range []struct {
		name           string
		shape, strides []int64
		at             int64 // of the data, in elements
		offset         uint64
		want           []byte
	}{
		{"no strides", []int64{2, 3}, nil, 0, 0, ndtest.Raw[int32](0, 1, 2, 3, 4, 5)},
		{"strides", []int64{3, 2}, []int64{1, 3}, 0, 0, ndtest.Raw[int32](0, 3, 1, 4, 2, 5)},
		{"a byte offset", []int64{2}, []int64{2}, 0, 8, ndtest.Raw[int32](2, 4)},
		{"backwards", []int64{3}, []int64{-2}, 4, 4, ndtest.Raw[int32](5, 3, 1)},
		{"repeated", []int64{2, 2}, []int64{0, 1}, 3, 0, ndtest.Raw[int32](3, 4, 3, 4)},
		{"no axes", []int64{}, nil, 5, 0, ndtest.Raw[int32](5)},
		{"no elements", []int64{2, 0}, nil, 0, 0, []byte{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := produce(t, ndtest.Raw(count(6)...), tt.shape, tt.strides)
			p.tensor.Tensor.Data += uintptr(4 * tt.at)
			p.tensor.Tensor.ByteOffset = tt.offset
			a, err := ndview.FromDLPack(arrowbuf.CPU(), p.address())
			require.NoError(t, err)
			assert.Equal(t, ndview.Int32, a.DType())
			assert.Equal(t, tt.shape, append([]int64{}, a.Shape()...))
			assert.Equal(t, tt.want, ndtest.Elements(t, a))
			a.Release()
		})
	}
}

func TestFromDLPackDeletesTensorAfterLastView(t *testing.T) {
	p := produce(t, ndtest.Raw(count(6)...), []int64{2, 3}, nil)
	a, err := ndview.FromDLPack(arrowbuf.CPU(), p.address())
	require.NoError(t, err)
	row, err := a.Slice(0, 1, 2)
	require.NoError(t, err)
	a.Release()
	assert.Zero(t, p.deleted())
	assert.Equal(t, ndtest.Raw[int32](3, 4, 5), ndtest.Elements(t, row))
	p.data[12] = 9
	assert.Equal(t, ndtest.Raw[int32](9, 4, 5), ndtest.Elements(t, row), "the memory is the producer's")
	row.Release()
	assert.Equal(t, 1, p.deleted())
}

func TestFromDLPackRefusesAndDeletesInvalidTensors(t *testing.T) {
	for _, tt := range []struct {
		name  string
		wrong func(v *dlpack.Versioned)
		want  error
	}{
		{"a newer version", func(v *dlpack.Versioned) { v.Major, v.Tensor.NDim, v.Tensor.Shape = 2, 9, 1 }, errors.ErrUnsupported},
		{"no version", func(v *dlpack.Versioned) { v.Major = 0 }, errors.ErrUnsupported},
		{"another device", func(v *dlpack.Versioned) { v.Tensor.Device.Type = dlpack.CUDA }, arrowbuf.ErrDevice},
		{"managed memory", func(v *dlpack.Versioned) { v.Tensor.Device.Type = dlpack.CUDAManaged }, arrowbuf.ErrDevice},
		{"an unknown device", func(v *dlpack.Versioned) { v.Tensor.Device.Type = 99 }, arrowbuf.ErrDevice},
		{"lanes", func(v *dlpack.Versioned) { v.Tensor.DataType.Lanes = 2 }, ndview.ErrDType},
		{"half a byte", func(v *dlpack.Versioned) { v.Tensor.DataType = dlpack.DataType{Code: 17, Bits: 4, Lanes: 1} }, ndview.ErrDType},
		{"bits of bool", func(v *dlpack.Versioned) { v.Tensor.DataType = dlpack.DataType{Code: dlpack.Bool, Bits: 1, Lanes: 1} }, ndview.ErrDType},
		{"an unknown type", func(v *dlpack.Versioned) { v.Tensor.DataType.Code = 3 }, ndview.ErrDType},
		{"negative axes", func(v *dlpack.Versioned) { v.Tensor.NDim = -1 }, ndview.ErrShape},
		{"no shape", func(v *dlpack.Versioned) { v.Tensor.Shape = 0 }, ndview.ErrShape},
		{"no data", func(v *dlpack.Versioned) { v.Tensor.Data = 0 }, ndview.ErrShape},
		{"odd data", func(v *dlpack.Versioned) { v.Tensor.Data++ }, ndview.ErrShape},
		{"an odd offset", func(v *dlpack.Versioned) { v.Tensor.ByteOffset = 2 }, ndview.ErrShape},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := produce(t, ndtest.Raw(count(6)...), []int64{2, 3}, nil)
			tt.wrong(p.tensor)
			_, err := ndview.FromDLPack(arrowbuf.CPU(), p.address())
			assert.ErrorIs(t, err, tt.want)
			assert.Equal(t, 1, p.deleted())
		})
	}
	for name, p := range map[string]*producer{
		"a negative extent":      produce(t, ndtest.Raw(count(6)...), []int64{2, -3}, nil),
		"too many elements":      produce(t, ndtest.Raw(count(6)...), []int64{1 << 40, 1 << 40}, nil),
		"strides without an end": produce(t, ndtest.Raw(count(6)...), []int64{2, 3}, []int64{math.MaxInt64 / 2, 1}),
		"an extent without one":  produce(t, ndtest.Raw(count(6)...), []int64{1 << 40, 3}, []int64{1 << 40, 1}),
	} {
		_, err := ndview.FromDLPack(arrowbuf.CPU(), p.address())
		assert.ErrorIs(t, err, ndview.ErrShape, name)
	}
	_, err := ndview.FromDLPack(arrowbuf.CPU(), nil)
	assert.Error(t, err)
}

func TestDLPackRoundTrip(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Float64, []float64{1, 2, 3, 4, 5, 6}, 2, 3)
		transposed, err := a.Transpose()
		ndtest.Own(t, transposed, err)
		stream, err := ndview.DLPackStream(dev)
		require.NoError(t, err)
		for _, legacy := range []bool{false, true} {
			p, err := ndview.ToDLPack(transposed, ndview.DLPackOptions{Legacy: legacy, Stream: stream})
			require.NoError(t, err)
			take := ndview.FromDLPack
			if legacy {
				take = ndview.FromLegacyDLPack
			}
			back, err := take(dev, p)
			require.NoError(t, err)
			assert.Equal(t, transposed.Shape(), back.Shape())
			assert.Equal(t, transposed.Strides(), back.Strides())
			assert.Equal(t, ndtest.Elements(t, transposed), ndtest.Elements(t, back))
			assert.Equal(t, a.Buffer().Address(), back.Buffer().Address())
			back.Release()
		}
		p, err := ndview.ToDLPack(a, ndview.DLPackOptions{})
		require.NoError(t, err)
		_, err = ndview.FromDLPack(ndtest.OtherThan(t, dev), p)
		assert.ErrorIs(t, err, arrowbuf.ErrDevice)
	})
}

func TestDLPackReachesBeyond32Bits(t *testing.T) {
	block := ndtest.Pattern()
	ndtest.OnHuge(t, 5, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.Periodic(t, dev, block, ndtest.HugeExtent)
		for _, legacy := range []bool{false, true} {
			transposed := ndtest.View(t)(ndtest.View(t)(a.Reshape(ndtest.HugeRows, ndtest.HugeColumns)).Transpose())
			c := export(t, index(t, transposed, ndview.SpanStep(-1, 0, -2)), ndview.DLPackOptions{Legacy: legacy})
			assert.Equal(t, []int64{ndtest.HugeColumns / 2, ndtest.HugeRows}, c.int64s(c.tensor.Shape))
			assert.Equal(t, []int64{-2, ndtest.HugeColumns}, c.int64s(c.tensor.Strides))
			from := ndview.FromDLPack
			if legacy {
				from = ndview.FromLegacyDLPack
			}
			back := ndtest.View(t)(from(dev, c.self))
			last := index(t, back, ndview.Span(0, 1000), ndview.At(-1))
			for i, v := range ndtest.HostOf[uint8](t, last) {
				assert.Equal(t, block[(ndtest.HugeExtent-1-2*i)%ndtest.Period], v)
			}
		}
	})
}
