package ndview_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
)

// newScope returns a scope that is released at the end, before the check for leaks.
func newScope(t *testing.T) *ndview.Scope {
	s := ndview.NewScope()
	t.Cleanup(s.Release)
	return s
}

// scoped returns an array of a scope.
func scoped[T ndview.Element](t *testing.T, s *ndview.Scope, dev arrowbuf.Device, data []T, shape ...int64) *ndview.NDBuffer {
	t.Helper()
	a, err := s.Add(ndview.FromSlice(dev, data, shape...))
	require.NoError(t, err)
	return a
}

// Every function that returns arrays puts them into the scope of its operands. The
// device's check for leaks finds a result, or a temporary array, that stays outside.
func TestResultsBelongToTheScopeOfTheirOperands(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		s := newScope(t)
		f := scoped(t, s, dev, []float32{5, 2, 0, 1, 4, 3}, 2, 3)
		row := scoped(t, s, dev, []float32{1, 2, 3})
		one := scoped(t, s, dev, []float32{1}, 1, 1)
		cube := scoped(t, s, dev, make([]int16, 8), 2, 2, 2)
		mask := scoped(t, s, dev, []bool{true, false, true})
		rows := scoped(t, s, dev, []int64{1, 0})
		z := scoped(t, s, dev, []complex64{1 + 2i, 3, 5i})
		outside := ndtest.FromHost(t, dev, ndview.Float32, []float32{1, 2, 3}, 3)
		call := func(name string) func(a *ndview.NDBuffer, err error) {
			return func(a *ndview.NDBuffer, err error) {
				t.Helper()
				if assert.NoError(t, err, name) {
					assert.Same(t, s, a.Scope(), name)
				}
			}
		}
		all := func(name string) func(list []*ndview.NDBuffer, err error) {
			return func(list []*ndview.NDBuffer, err error) {
				t.Helper()
				assert.NotEmpty(t, list, name)
				for _, a := range list {
					call(name)(a, err)
				}
			}
		}
		call("Copy")(f.Copy(ndview.OrderF))
		call("AsType")(f.AsType(ndview.Int8, ndview.OrderF, ndview.CastUnsafe))
		call("ByteSwapped")(f.ByteSwapped())
		call("Slice")(f.Slice(0, 0, 1))
		call("Transpose")(f.Transpose())
		call("SwapAxes")(f.SwapAxes(0, 1))
		call("MoveAxis")(f.MoveAxis(0, 1))
		call("Squeeze")(one.Squeeze(0))
		call("SqueezeAll")(one.SqueezeAll())
		call("ExpandDims")(f.ExpandDims(0))
		call("BroadcastTo")(row.BroadcastTo(2, 3))
		call("View")(f.View(ndview.Int32))
		call("ReadOnly")(f.ReadOnly())
		call("Index")(f.Index(ndview.At(0)))
		call("Reshape")(f.Reshape(3, 2))
		call("ReshapeView")(f.ReshapeView(3, 2))
		call("ReshapeOrder, a copy")(f.ReshapeOrder(ndview.OrderF, 3, 2))
		call("Ravel, a copy")(f.Ravel(ndview.OrderF))
		call("Get by a list")(f.Get(ndview.Ints(1, 0)))
		call("Get by arrays")(f.Get(ndview.IntArray(rows), ndview.Mask(mask)))
		call("Get by a span")(f.Get(ndview.Span(0, 1)))
		call("Get by a mask")(row.Get(ndview.Mask(mask)))
		call("Tril")(f.Tril(0))
		call("Triu of a row")(row.Triu(0))
		call("To")(f.To(dev))
		call("To another device")(f.To(ndtest.OtherThan(t, dev)))
		call("Contiguous")(f.Contiguous())
		call("AsArray")(ndview.AsArray(f, ndview.AsArrayOptions{DType: ndview.Int8, Order: ndview.OrderF}))
		call("AtLeast1D")(ndview.AtLeast1D(f))
		call("AtLeast2D")(ndview.AtLeast2D(row))
		call("AtLeast3D")(ndview.AtLeast3D(row))
		call("Take")(ndview.Take(f, rows, 0, ndview.ModeRaise))
		call("TakeFlat")(ndview.TakeFlat(f, rows, ndview.ModeRaise))
		call("Compress")(ndview.Compress(mask, f, 1))
		call("CompressFlat")(ndview.CompressFlat(mask, f))
		call("Concatenate")(ndview.Concatenate([]*ndview.NDBuffer{outside, row}, 0))
		call("ConcatenateFlat")(ndview.ConcatenateFlat([]*ndview.NDBuffer{f, row}))
		call("Stack")(ndview.Stack([]*ndview.NDBuffer{row, outside}, 1))
		call("VStack")(ndview.VStack([]*ndview.NDBuffer{f, row}))
		call("HStack")(ndview.HStack([]*ndview.NDBuffer{f, f}))
		call("DStack")(ndview.DStack([]*ndview.NDBuffer{f, f}))
		call("ColumnStack")(ndview.ColumnStack([]*ndview.NDBuffer{row, row}))
		all("SplitAt")(ndview.SplitAt(f, []int64{1}, 1))
		all("ArraySplit")(ndview.ArraySplit(f, 2, 1))
		all("Split")(ndview.Split(f, 3, 1))
		all("HSplit")(ndview.HSplit(f, 3))
		all("VSplit")(ndview.VSplit(f, 2))
		all("DSplit")(ndview.DSplit(cube, 2))
		all("NonZero")(ndview.NonZero(f))
		call("ArgWhere")(ndview.ArgWhere(f))
		call("Unary")(ndview.Sqrt.Of(f))
		call("Binary")(ndview.Add.Of(outside, f))
		call("Binary of a view")(ndview.Add.Of(2, row))
		call("Where")(ndview.Where(f, outside, 1.5))
		call("Clip")(ndview.Clip(outside, row, nil))
		call("Clip of complex numbers")(ndview.Clip(z, 1, 2))
		call("Reduction")(ndview.Sum.Of(f, ndview.ReduceOptions{Axes: []int{0}}))
		call("Reduction through a copy")(ndview.Prod.Of(cube, ndview.ReduceOptions{DType: ndview.Float64}))

		made, err := ndview.Zeros(dev, ndview.Int8, 2)
		ndtest.Own(t, made, err)
		assert.Nil(t, made.Scope(), "no operand made it")
		require.NoError(t, ndview.Add.Into(outside, outside, row))
		require.NoError(t, outside.Assign(row))
		assert.Nil(t, outside.Scope())
		s.Release()
		_, err = f.Transpose()
		assert.ErrorIs(t, err, arrowbuf.ErrReleased)
		assert.Equal(t, []float32{1, 2, 3}, ndtest.HostOf[float32](t, outside), "what the scope assigned")
	})
}

func TestScopeKeepsAndMovesArrays(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		s, other := newScope(t), newScope(t)
		x := scoped(t, s, dev, []int32{1, 2, 3})
		y, err := ndview.Add.Of(x, x)
		require.NoError(t, err)
		kept, err := s.Keep(y)
		ndtest.Own(t, kept, err)
		assert.Same(t, y, kept)
		_, err = s.Keep(y)
		assert.ErrorIs(t, err, ndview.ErrScope)
		_, err = other.Keep(x)
		assert.ErrorIs(t, err, ndview.ErrScope)
		view, err := kept.Transpose()
		ndtest.Own(t, view, err)
		assert.Nil(t, view.Scope(), "y has left the scope")

		moved, err := other.Add(ndview.Negative.Of(x))
		require.NoError(t, err)
		assert.Same(t, other, moved.Scope())
		early, err := ndview.Negative.Of(x)
		require.NoError(t, err)
		early.Release() // before its scope
		retained, err := ndview.Negative.Of(x)
		require.NoError(t, err)
		retained.Retain()
		defer retained.Release()
		s.Release()
		s.Release()
		assert.Equal(t, []int32{2, 4, 6}, ndtest.HostOf[int32](t, kept))
		assert.Equal(t, []int32{-1, -2, -3}, ndtest.HostOf[int32](t, moved))
		assert.Equal(t, []int32{-1, -2, -3}, ndtest.HostOf[int32](t, retained))
		_, err = ndview.Negative.Of(retained)
		assert.ErrorIs(t, err, arrowbuf.ErrReleased, "its results would belong to no scope")

		lost := ndtest.FromHost(t, dev, ndview.Int32, []int32{1}, 1)
		lost.Retain()
		_, err = s.Add(lost, nil)
		assert.ErrorIs(t, err, arrowbuf.ErrReleased, "Add releases the array")
		_, err = s.Keep(moved)
		assert.ErrorIs(t, err, arrowbuf.ErrReleased)
		failure := errors.New("as it is")
		_, err = s.Add(nil, failure)
		assert.Equal(t, failure, err)
		_, err = other.Add(nil, nil)
		assert.ErrorIs(t, err, ndview.ErrNil)

		var zero ndview.Scope
		defer zero.Release()
		a, err := zero.Add(ndview.FromSlice(dev, []int8{1}))
		require.NoError(t, err)
		assert.Same(t, &zero, a.Scope())
	})
}

// An outer scope holds what every step needs; results of a step leave with its own.
func TestResultsOfTwoScopesBelongToTheOneMadeLast(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		outer := newScope(t)
		weights := scoped(t, outer, dev, []float32{1, 2})
		inner := newScope(t)
		x := scoped(t, inner, dev, []float32{3, 4})
		for _, operands := range [][2]*ndview.NDBuffer{{weights, x}, {x, weights}} {
			y, err := ndview.Multiply.Of(operands[0], operands[1])
			require.NoError(t, err)
			assert.Same(t, inner, y.Scope())
		}
		var late ndview.Scope // is made by its first Add
		defer late.Release()
		z, err := late.Add(ndview.FromSlice(dev, []float32{5, 6}))
		require.NoError(t, err)
		y, err := ndview.Multiply.Of(x, z)
		require.NoError(t, err)
		assert.Same(t, &late, y.Scope())
	})
}

// Operations that a release overtakes return ErrReleased, and nothing leaks.
func TestScopesAreReleasedDuringOperations(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for range 20 {
			s := ndview.NewScope()
			x := scoped(t, s, dev, make([]float32, 64), 8, 8)
			var group sync.WaitGroup
			for range 4 {
				group.Go(func() {
					for range 200 {
						_, err := ndview.Add.Of(x, 1.5)
						if err == nil {
							_, err = x.Get(ndview.Ints(1, 2))
						}
						if err == nil {
							_, err = ndview.Sum.Of(x, ndview.ReduceOptions{})
						}
						if err != nil {
							assert.ErrorIs(t, err, arrowbuf.ErrReleased)
							return
						}
					}
				})
			}
			group.Go(s.Release)
			group.Wait()
		}
	})
}
