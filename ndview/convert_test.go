package ndview_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
)

func TestToReturnsTheArrayItselfOnItsDevice(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Int32, count(6), 2, 3)
		transposed := ndtest.View(t)(a.Transpose())
		same, err := transposed.To(dev)
		ndtest.Own(t, same, err)
		assert.Same(t, transposed, same)

		other := ndtest.OtherThan(t, dev)
		moved, err := transposed.To(other)
		ndtest.Own(t, moved, err)
		assert.Equal(t, other, moved.Device())
		assert.True(t, moved.IsContiguous())
		assert.Equal(t, []int32{0, 3, 1, 4, 2, 5}, ndtest.HostOf[int32](t, moved))
		back, err := moved.To(dev)
		ndtest.Own(t, back, err)
		assert.Equal(t, []int32{0, 3, 1, 4, 2, 5}, ndtest.HostOf[int32](t, back))
		assert.NoError(t, back.Wait())
		_, err = a.To(nil)
		assert.ErrorIs(t, err, arrowbuf.ErrDevice)

		released, err := a.Copy(ndview.OrderC)
		require.NoError(t, err)
		released.Release()
		_, err = released.To(dev)
		assert.ErrorIs(t, err, arrowbuf.ErrReleased)
		assert.ErrorIs(t, released.Wait(), arrowbuf.ErrReleased)
	})
}

// In a scope the result has a reference of its own, so that releasing it does not
// release the operand.
func TestToReturnsAViewInAScope(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		s := newScope(t)
		a := scoped(t, s, dev, count(3))
		for _, convert := range []func() (*ndview.NDBuffer, error){
			func() (*ndview.NDBuffer, error) { return a.To(dev) }, a.Contiguous,
		} {
			same, err := convert()
			require.NoError(t, err)
			assert.NotSame(t, a, same)
			assert.True(t, ndview.MayShareMemory(a, same))
			same.Release()
			assert.Equal(t, count(3), ndtest.HostOf[int32](t, a))
		}
	})
}

// Wait returns when work that was enqueued before on the default stream is done.
func TestWaitFinishesEarlierWork(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		a := empty(t, dev, ndview.Float32, 1000)
		for range 10 {
			require.NoError(t, ndview.Add.Into(a, a, 1))
		}
		require.NoError(t, a.Wait())
		stream, err := dev.DefaultStream()
		require.NoError(t, err)
		done, err := stream.Done()
		require.NoError(t, err)
		assert.True(t, done, "nothing but this array's work was enqueued")
	})
}

func TestAsArrayCopiesOnlyIfNeeded(t *testing.T) {
	c, f, k, a := ndview.OrderC, ndview.OrderF, ndview.OrderK, ndview.OrderA
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		matrix := ndtest.FromHost(t, dev, ndview.Int32, count(6), 2, 3)
		fortran := ndtest.View(t)(matrix.Transpose())
		strided := index(t, matrix, ndview.All, ndview.SpanStep(0, 3, 2))
		line := ndtest.FromHost(t, dev, ndview.Int32, count(3), 3)
		other := ndtest.OtherThan(t, dev)
		for _, test := range []struct {
			of    *ndview.NDBuffer
			o     ndview.AsArrayOptions
			copy  bool
			order ndview.Order // of the copy, by its flags
		}{
			{matrix, ndview.AsArrayOptions{}, false, 0},
			{strided, ndview.AsArrayOptions{}, false, 0},
			{strided, ndview.AsArrayOptions{Order: k}, false, 0},
			{matrix, ndview.AsArrayOptions{Order: c}, false, 0},
			{matrix, ndview.AsArrayOptions{Order: a}, false, 0},
			{matrix, ndview.AsArrayOptions{Order: f}, true, f},
			{fortran, ndview.AsArrayOptions{Order: f}, false, 0},
			{fortran, ndview.AsArrayOptions{Order: a}, false, 0},
			{fortran, ndview.AsArrayOptions{Order: c}, true, c},
			{strided, ndview.AsArrayOptions{Order: a}, true, c},
			{line, ndview.AsArrayOptions{Order: f}, false, 0},
			{matrix, ndview.AsArrayOptions{DType: ndview.Int32, Device: dev}, false, 0},
			{matrix, ndview.AsArrayOptions{DType: ndview.Int64}, true, c},
			{fortran, ndview.AsArrayOptions{DType: ndview.Int8}, true, f},
			{fortran, ndview.AsArrayOptions{Device: other}, true, c},
			{fortran, ndview.AsArrayOptions{Device: other, Order: f, DType: ndview.Int8}, true, f},
			{strided, ndview.AsArrayOptions{Device: other, DType: ndview.Float64}, true, c},
		} {
			about := fmt.Sprintf("%v %+v", test.of.Strides(), test.o)
			got, err := ndview.AsArray(test.of, test.o)
			ndtest.Own(t, got, err)
			assert.Equal(t, test.copy, got != test.of, about)
			assert.Equal(t, test.copy, !ndview.MayShareMemory(got, test.of), about)
			if test.copy {
				flags := got.Flags()
				assert.True(t, test.order == c && flags.CContiguous || test.order == f && flags.FContiguous, "%s: %v", about, flags)
			}
			if test.o.DType != (ndview.DType{}) {
				assert.Equal(t, test.o.DType, got.DType(), about)
			}
			if test.o.Device != nil {
				assert.Equal(t, test.o.Device, got.Device(), about)
			}
			equal, err := got.AllEqual(test.of, false)
			require.NoError(t, err)
			assert.True(t, equal, about)

			test.o.Copy = ndview.CopyNever
			never, err := ndview.AsArray(test.of, test.o)
			if test.copy {
				assert.ErrorIs(t, err, ndview.ErrCopy, about)
				assert.ErrorContains(t, err, "ndview.AsArray: ")
			} else {
				ndtest.Own(t, never, err)
				assert.Same(t, test.of, never, about)
			}
			test.o.Copy = ndview.CopyAlways
			always, err := ndview.AsArray(test.of, test.o)
			ndtest.Own(t, always, err)
			assert.False(t, ndview.MayShareMemory(always, test.of), about)
		}
		_, err := ndview.AsArray(matrix, ndview.AsArrayOptions{Order: 'Z'})
		assert.ErrorIs(t, err, ndview.ErrShape)
		_, err = ndview.AsArray(matrix, ndview.AsArrayOptions{Copy: 3})
		assert.ErrorIs(t, err, ndview.ErrShape)
		_, err = ndview.AsArray(matrix, ndview.AsArrayOptions{DType: ndview.Bytes(4)})
		assert.ErrorIs(t, err, ndview.ErrDType)

		dense, err := fortran.Contiguous()
		ndtest.Own(t, dense, err)
		assert.True(t, dense.IsContiguous())
		itself, err := matrix.Contiguous()
		ndtest.Own(t, itself, err)
		assert.Same(t, matrix, itself)
	})
}

func TestReshapeViewNeverCopies(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Int32, count(6), 2, 3)
		v := ndtest.View(t)(a.ReshapeView(3, -1))
		assert.Equal(t, []int64{3, 2}, v.Shape())
		assert.Same(t, a, v.Base())
		_, err := ndtest.View(t)(a.Transpose()).ReshapeView(6)
		assert.ErrorIs(t, err, ndview.ErrCopy)
		assert.ErrorContains(t, err, "ndview.ReshapeView: ")
		_, err = a.ReshapeView(5)
		assert.ErrorIs(t, err, ndview.ErrShape)
	})
}

func TestSqueezeWithoutAxesDropsNone(t *testing.T) {
	a := ndtest.FromHost(t, arrowbuf.CPU(), ndview.Int32, count(2), 1, 2, 1)
	assert.Equal(t, []int64{1, 2, 1}, ndtest.View(t)(a.Squeeze()).Shape())
	assert.Equal(t, []int64{1, 2, 1}, ndtest.View(t)(a.Squeeze([]int{}...)).Shape())
	assert.Equal(t, []int64{1, 2}, ndtest.View(t)(a.Squeeze(-1)).Shape())
	assert.Equal(t, []int64{2}, ndtest.View(t)(a.SqueezeAll()).Shape())
	assert.Empty(t, ndtest.View(t)(ndtest.FromHost(t, arrowbuf.CPU(), ndview.Int32, count(1), 1, 1).SqueezeAll()).Shape())
}
