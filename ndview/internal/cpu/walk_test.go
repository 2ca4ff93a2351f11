package cpu

import (
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// randomWalk returns a shape of up to 4 axes and strides of three operands.
func randomWalk(r *rand.Rand) (shape, data, index, value []int64) {
	shape = make([]int64, r.IntN(5))
	strides := [3][]int64{}
	for i := range shape {
		shape[i] = 1 + r.Int64N(5)
	}
	for a := range strides {
		strides[a] = layout.CStrides(4, shape)
		for i := range shape {
			if r.IntN(3) == 0 {
				strides[a][i] = []int64{-24, -8, 0, 4, 16, 20}[r.IntN(6)]
			}
		}
	}
	return shape, strides[0], strides[1], strides[2]
}

// sum returns the offset of an item of a shape.
func sum(item int64, shape, strides []int64) (at int64) {
	for k := len(shape) - 1; k >= 0; k-- {
		at += item % shape[k] * strides[k]
		item /= shape[k]
	}
	return at
}

func TestWalkLocatesOperands(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 1))
	for range 2000 {
		shape, data, index, value := randomWalk(r)
		w, err := NewWalk(shape, data, index, value)
		require.NoError(t, err)
		require.Equal(t, layout.Product(shape), w.Items)
		want := func(item int64) Offset {
			return Offset{sum(item, shape, data), sum(item, shape, index), sum(item, shape, value)}
		}
		for item := range w.Items {
			require.Equal(t, want(item), w.At(item), "shape %v strides %v %v %v", shape, data, index, value)
		}
		lo := r.Int64N(w.Items)
		hi := lo + 1 + r.Int64N(w.Items-lo)
		next, last := lo, max(w.Axes-1, 0)
		w.rows(lo, hi, func(item, n int64, at Offset) {
			require.Equal(t, next, item)
			for j := range n {
				require.Equal(t, want(item+j), Offset{at.Data + j*w.Data[last], at.Index + j*w.Index[last], at.Value + j*w.Value[last]})
			}
			next += n
		})
		require.Equal(t, hi, next)
	}
}

func TestCutWalksCoverTheWalk(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2))
	for range 2000 {
		shape, data, index, value := randomWalk(r)
		w, err := NewWalk(shape, data, index, value)
		require.NoError(t, err)
		most, next := 1+r.Int64N(40), int64(0)
		err = w.Split(most, func(part *Walk, first int64, at Offset) error {
			require.Equal(t, next, first)
			require.LessOrEqual(t, part.Items, most)
			for item := range part.Items {
				got, want := part.At(item), w.At(first+item)
				require.Equal(t, want, Offset{got.Data + at.Data, got.Index + at.Index, got.Value + at.Value})
			}
			next += part.Items
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, w.Items, next)
	}
}

func TestUnitWalkCoversTheSameBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 3))
	seen := map[int64]bool{}
	for range 4000 {
		shape, data, index, _ := randomWalk(r)
		size, align := []int64{1, 2, 3, 4, 8, 12, 16, 40}[r.IntN(8)], []uint64{1, 4, 8, 64}[r.IntN(4)]
		for i := range data {
			data[i] = data[i] / 4 * size
		}
		w, width, err := NewUnitWalk(size, align, shape, data, index, nil)
		require.NoError(t, err)
		seen[width] = true
		require.Equal(t, layout.Product(shape)*size, w.Items*width)
		require.LessOrEqual(t, bits.TrailingZeros64(uint64(width)), bits.TrailingZeros64(align))
		for item := range w.Items {
			at := w.At(item)
			require.Zero(t, at.Data%width)
			byteAt := item * width
			require.Equal(t, sum(byteAt/size, shape, data)+byteAt%size, at.Data)
			require.Equal(t, sum(byteAt/size, shape, index), at.Index)
		}
	}
	assert.Len(t, seen, 5, "unit widths from 1 to 16 bytes")
}

func TestWalkMagicDivides(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for range 20000 {
		extent := 2 + r.Int64N(1<<uint(2+r.IntN(29)))
		var w Walk
		w.setExtent(0, extent)
		for _, n := range []int64{0, extent - 1, extent, r.Int64N(1 << 31), 1<<31 - 1, (1<<31-1)/extent*extent - 1, (1<<31 - 1) / extent * extent} {
			require.Equal(t, n/extent, n*int64(w.Magic[0])>>32>>w.Shift[0], "%d / %d", n, extent)
		}
	}
}
