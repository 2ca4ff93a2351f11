package grid_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quiver-gpu/quiver/zarr/internal/grid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// position returns the C-order position of an index.
func position(index, shape []int64) int64 {
	n := int64(0)
	for i := range shape {
		n = n*shape[i] + index[i]
	}
	return n
}

func randomShape(random *rand.Rand, axes int) []int64 {
	shape := make([]int64, axes)
	for i := range shape {
		shape[i] = 1 + random.Int64N(4)
	}
	return shape
}

func TestCopyWritesOnlyTheBox(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		axes, width := random.IntN(4), 1+random.Int64N(3)
		from, to := randomShape(random, axes), randomShape(random, axes)
		extent, fromAt, toAt := make([]int64, axes), make([]int64, axes), make([]int64, axes)
		for i := range axes {
			extent[i] = random.Int64N(min(from[i], to[i]) + 1)
			fromAt[i], toAt[i] = random.Int64N(from[i]-extent[i]+1), random.Int64N(to[i]-extent[i]+1)
		}
		src, dst := make([]byte, grid.Size(from)*width), bytes.Repeat([]byte{255}, int(grid.Size(to)*width))
		for i := range src {
			src[i] = byte(i % 255)
		}
		want := slices.Clone(dst)
		for index := range grid.Indices(extent) {
			s, d := slices.Clone(index), slices.Clone(index)
			for i := range index {
				s[i] += fromAt[i]
				d[i] += toAt[i]
			}
			copy(want[position(d, to)*width:][:width], src[position(s, from)*width:])
		}
		grid.Copy(dst, to, toAt, src, from, fromAt, extent, width)
		require.Equal(t, want, dst, "%v at %v of %v to %v of %v", extent, fromAt, from, toAt, to)
	}
}

func TestTransposePermutesAxes(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2))
	for range 500 {
		axes := random.IntN(5)
		shape, order := randomShape(random, axes), random.Perm(axes)
		moved := make([]int64, axes)
		for i, axis := range order {
			moved[i] = shape[axis]
		}
		src, dst := make([]int, grid.Size(shape)), make([]int, grid.Size(shape))
		for i := range src {
			src[i] = i
		}
		grid.Transpose(dst, src, shape, order, 1)
		for index := range grid.Indices(moved) {
			from := make([]int64, axes)
			for i, axis := range order {
				from[axis] = index[i]
			}
			require.Equal(t, src[position(from, shape)], dst[position(index, moved)])
		}
	}
}

// randomBox returns a box of at least one element in an array.
func randomBox(random *rand.Rand, shape []int64) grid.Box {
	b := grid.Box{Origin: make([]int64, len(shape)), Shape: make([]int64, len(shape))}
	for i := range shape {
		b.Shape[i] = 1 + random.Int64N(shape[i])
		b.Origin[i] = random.Int64N(shape[i] - b.Shape[i] + 1)
	}
	return b
}

func TestEnclosingIsTheLeastContiguousBox(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 4))
	for range 1000 {
		shape := randomShape(random, random.IntN(4))
		b := randomBox(random, shape)
		got := b.Enclosing(shape)
		_, ok := got.ContiguousRange(shape)
		require.True(t, ok, "%v in %v of %v", got, b, shape)
		require.True(t, got.Contains(b))
		require.True(t, grid.WholeBox(shape).Contains(got))
		// No other contiguous box around b is smaller.
		for origin := range grid.Indices(add(b.Origin, 1)) {
			room := make([]int64, len(shape)) // beyond the end of b
			for i := range shape {
				room[i] = shape[i] - b.Origin[i] - b.Shape[i] + 1
			}
			for more := range grid.Indices(room) {
				c := grid.Box{Origin: origin, Shape: make([]int64, len(shape))}
				for i := range shape {
					c.Shape[i] = b.Origin[i] + b.Shape[i] + more[i] - origin[i]
				}
				if _, ok := c.ContiguousRange(shape); ok {
					require.LessOrEqual(t, grid.Size(got.Shape), grid.Size(c.Shape), "%v around %v of %v", c, b, shape)
				}
			}
		}
	}
}

// add returns the values plus n.
func add(values []int64, n int64) []int64 {
	out := make([]int64, len(values))
	for i := range values {
		out[i] = values[i] + n
	}
	return out
}

func TestContiguousRangeMatchesEnumeration(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	for range 2000 {
		shape := randomShape(random, random.IntN(4))
		b := randomBox(random, shape)
		start, ok := b.ContiguousRange(shape)
		consecutive, next := true, position(b.Origin, shape)
		if ok {
			assert.Equal(t, next, start)
		}
		for index := range grid.Indices(b.Shape) {
			for i := range index {
				index[i] += b.Origin[i]
			}
			consecutive = consecutive && position(index, shape) == next
			next++
		}
		assert.Equal(t, consecutive, ok, "%v of %v", b, shape)
	}
}

func TestChunkIndicesCoverBoxOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 4))
	for range 500 {
		axes := random.IntN(4)
		shape, chunk := randomShape(random, axes), randomShape(random, axes)
		b := grid.Box{Origin: make([]int64, axes), Shape: make([]int64, axes)}
		for i := range shape {
			b.Shape[i] = random.Int64N(shape[i] + 1)
			b.Origin[i] = random.Int64N(shape[i] - b.Shape[i] + 1)
		}
		covered := int64(0)
		for index := range b.ChunkIndices(chunk) {
			part, ok := grid.ChunkBox(index, chunk).Intersect(b)
			assert.True(t, ok || axes == 0)
			covered += grid.Size(part.Shape)
		}
		assert.Equal(t, grid.Size(b.Shape), covered)
	}
	assert.Equal(t, []int64{0, 1, 2, 2}, grid.GridShape([]int64{0, 4, 5, 8}, []int64{4, 4, 4, 4}))
}

func TestIsFilledDetectsAnyDifference(t *testing.T) {
	for _, pattern := range [][]byte{{1}, {1, 2}, {1, 2, 3}} {
		for n := range 9 {
			raw := make([]byte, n*len(pattern))
			grid.Fill(raw, pattern)
			assert.Equal(t, bytes.Repeat(pattern, n), raw)
			assert.True(t, grid.IsFilled(raw, pattern))
			for i := range raw {
				raw[i] ^= 1
				assert.False(t, grid.IsFilled(raw, pattern))
				raw[i] ^= 1
			}
		}
	}
}

func TestByteSizeDetectsOverflow(t *testing.T) {
	n, err := grid.ByteSize([]int64{3, 4}, 8)
	require.NoError(t, err)
	assert.EqualValues(t, 96, n)
	n, err = grid.ByteSize([]int64{math.MaxInt64, 0, math.MaxInt64}, 1)
	if err == nil {
		assert.Zero(t, n)
	}
	for _, shape := range [][]int64{{math.MaxInt64, 2}, {1 << 32, 1 << 31}, {-1}, {0, -1}} {
		_, err := grid.ByteSize(shape, 1)
		assert.Error(t, err, shape)
	}
}
