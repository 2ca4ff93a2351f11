package ndview_test

import (
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// forms are the same elements without gaps and backwards with gaps.
type forms [2]*ndview.NDBuffer

// small are a few numbers that every type holds.
func small(t *testing.T, dev arrowbuf.Device, dtype ndview.DType) forms {
	numbers := fromHost(t, dev, ndview.Float32, []float32{0, 1, 3, 2, 5, 1, 0}, 7)
	dense, err := numbers.AsType(dtype, ndview.OrderC, ndview.CastUnsafe)
	own(t, dense, err)
	spread := backwards(t, dev, dtype)
	require.NoError(t, spread.CopyFrom(dense))
	return forms{dense, spread}
}

// backwards is room for seven elements, each two before the other.
func backwards(t *testing.T, dev arrowbuf.Device, dtype ndview.DType) *ndview.NDBuffer {
	all, err := ndview.Zeros(dev, dtype, 14)
	own(t, all, err)
	spread, err := all.Index(ndview.SpanStep(ndview.Open, ndview.Open, -2))
	return own(t, spread, err)
}

// TestLayoutsAndTypesOfResultsChangeNothing computes each operation of each type
// into arrays of each type that may take the result, with and without gaps: all
// hold the result of the operation without gaps, cast.
func TestLayoutsAndTypesOfResultsChangeNothing(t *testing.T) {
	binary := maps.Clone(binaryOperations)
	maps.Copy(binary, binaryFunctions)
	unary := maps.Clone(unaryOperations)
	maps.Copy(unary, functions)
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		operands, results := map[string]forms{}, map[string]forms{}
		for name, dtype := range dtypesByName {
			operands[name] = small(t, dev, dtype)
			if dtype == ndview.Int16 || dtype == ndview.Int32 || dtype.Kind() == ndview.KindUint && dtype != ndview.Uint8 || dtype == ndview.Complex128 {
				continue // others say as much
			}
			results[name] = forms{small(t, dev, dtype)[0], backwards(t, dev, dtype)}
		}
		check := func(about string, of func(form int) (*ndview.NDBuffer, error), into func(out *ndview.NDBuffer, form int) error) {
			want, err := of(0)
			spread, spreadErr := of(1)
			require.Equal(t, err == nil, spreadErr == nil, "%s: %v, %v", about, err, spreadErr)
			if err != nil {
				return
			}
			defer want.Release()
			defer spread.Release()
			requireSame(t, want.DType(), elements(t, want), elements(t, spread), 0)
			for name, out := range results {
				err := into(out[0], 0)
				spreadErr := into(out[1], 1)
				require.Equal(t, ndview.CanCast(want.DType(), out[0].DType(), ndview.CastSameKind), err == nil, "%s into %s: %v", about, name, err)
				require.Equal(t, err == nil, spreadErr == nil, "%s into %s: %v", about, name, spreadErr)
				if err != nil {
					continue
				}
				cast, err := want.AsType(out[0].DType(), ndview.OrderC, ndview.CastUnsafe)
				require.NoError(t, err)
				for _, o := range out {
					requireSame(t, o.DType(), elements(t, cast), elements(t, o), 0)
				}
				cast.Release()
				require.False(t, t.Failed(), "%s into %s", about, name)
			}
		}
		for name, x := range operands {
			for _, op := range unary {
				check(fmt.Sprint(op, " of ", name), func(f int) (*ndview.NDBuffer, error) { return op.Of(x[f]) },
					func(out *ndview.NDBuffer, f int) error { return op.Into(out, x[f]) })
			}
			for _, op := range binary {
				check(fmt.Sprint(op, " of two ", name), func(f int) (*ndview.NDBuffer, error) { return op.Of(x[f], x[1-f]) },
					func(out *ndview.NDBuffer, f int) error { return op.Into(out, x[f], x[1-f]) })
				check(fmt.Sprint(op, " of 2 and ", name), func(f int) (*ndview.NDBuffer, error) { return op.Of(int16(2), x[f]) },
					func(out *ndview.NDBuffer, f int) error { return op.Into(out, int16(2), x[f]) })
			}
			truth := operands["bool"]
			check("where of "+name, func(f int) (*ndview.NDBuffer, error) { return ndview.Where(truth[f], x[f], 1) },
				func(out *ndview.NDBuffer, f int) error { return ndview.WhereInto(out, truth[f], x[f], 1) })
			check("clip of "+name, func(f int) (*ndview.NDBuffer, error) { return ndview.Clip(x[f], 1, x[1-f]) },
				func(out *ndview.NDBuffer, f int) error { return ndview.ClipInto(out, x[f], 1, x[1-f]) })
		}
	})
}

// TestNeighboursChangeNothing computes values that are far from each other, each
// among the others and among its like, in rows of odd lengths: what is computed at
// once, a vector of elements or a block of them, has no say in what one becomes, nor
// has where it ends.
func TestNeighboursChangeNothing(t *testing.T) {
	const times = 251
	values := []float64{0, negativeZero, 1, -1, 0.5, 3, 5, 7.25, 64, -100.75, 65535.5, 105615, -1e9, 1e30, -1e30, 1e-40, math.Inf(1), math.Inf(-1), nan}
	others := append(slices.Clone(values[7:]), values[:7]...)
	n := int64(len(values))
	binary := maps.Clone(binaryOperations)
	maps.Copy(binary, binaryFunctions)
	unary := maps.Clone(unaryOperations)
	maps.Copy(unary, functions)
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		// of returns n rows of a value each, and the rows of all values.
		of := func(dtype ndview.DType, values []float64) (alone []*ndview.NDBuffer, beside *ndview.NDBuffer) {
			numbers, err := fromHost(t, dev, ndview.Float64, values, n).AsType(dtype, ndview.OrderC, ndview.CastUnsafe)
			own(t, numbers, err)
			beside, err = view(t)(numbers.BroadcastTo(times, n)).Copy(ndview.OrderC)
			own(t, beside, err)
			rows, err := view(t)(beside.Transpose()).Copy(ndview.OrderC)
			own(t, rows, err)
			for i := range n {
				alone = append(alone, index(t, rows, ndview.At(i)))
			}
			return alone, beside
		}
		checks := 0
		for name, dtype := range dtypesByName {
			x, manyX := of(dtype, values)
			y, manyY := of(dtype, others)
			check := func(about string, of func(x, y *ndview.NDBuffer) (*ndview.NDBuffer, error)) {
				mixed, err := of(manyX, manyY)
				if err != nil {
					require.ErrorIs(t, err, ndview.ErrDType, about)
					return // others test for which types it is
				}
				defer mixed.Release()
				var want []byte
				for i := range x {
					alone, err := of(x[i], y[i])
					require.NoError(t, err)
					want = append(want, elements(t, alone)...)
					alone.Release()
				}
				requireSame(t, mixed.DType(), want, elements(t, view(t)(mixed.Transpose())), 0)
				require.False(t, t.Failed(), about)
				checks++
			}
			for _, op := range unary {
				check(fmt.Sprint(op, " of ", name), func(x, _ *ndview.NDBuffer) (*ndview.NDBuffer, error) { return op.Of(x) })
			}
			for _, op := range binary {
				check(fmt.Sprint(op, " of ", name), func(x, y *ndview.NDBuffer) (*ndview.NDBuffer, error) { return op.Of(x, y) })
			}
			for to, dtype := range dtypesByName {
				check(name+" to "+to, func(x, _ *ndview.NDBuffer) (*ndview.NDBuffer, error) {
					return x.AsType(dtype, ndview.OrderC, ndview.CastUnsafe)
				})
			}
		}
		require.Greater(t, checks, 900)
	})
}

func TestCoresChangeNothing(t *testing.T) {
	const n = 1<<20 + 5
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i%1000) * float32(i%7) * 33 // few are beyond 2^16
	}
	a := fromHost(t, arrowbuf.CPU(), ndview.Float32, x, n)
	for _, op := range []ndview.Unary{ndview.Sin, ndview.Cos, ndview.Exp} {
		var want []byte
		for _, cores := range []int{1, 2, 3, 7} {
			old := runtime.GOMAXPROCS(cores)
			result, err := op.Of(a)
			runtime.GOMAXPROCS(old)
			own(t, result, err)
			if want == nil {
				want = elements(t, result)
			}
			requireBytes(t, want, elements(t, result), op, cores)
		}
	}
}
