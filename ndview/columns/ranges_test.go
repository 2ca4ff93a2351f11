package columns_test

import (
	"bytes"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview/columns"
)

// offsets returns the offsets of n ranges with an average number of values. Some ranges
// are empty and a few are long.
func (m maker) offsets(n, average int) []int {
	all := make([]int, n+1)
	for i := range n {
		size := m.rng.IntN(2*average + 1)
		switch m.rng.IntN(70) {
		case 0:
			size *= 50
		case 1, 2, 3, 4, 5, 6, 7:
			size = 0
		}
		all[i+1] = all[i] + size
	}
	return all
}

// Covers short ranges, long ones, both in one tile of the kernels, and many tiles.
func TestTakeOfManyRanges(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for seed, c := range []struct{ n, average int }{{30_000, 0}, {30_000, 2}, {20_000, 9}, {5_000, 30}, {3_000, 60}, {200, 3_000}, {3, 100_000}} {
			for _, width := range []int{4, 8} {
				m := newMaker(t, seed, true)
				offsets := m.offsets(c.n, c.average)
				values := make([]byte, offsets[c.n], offsets[c.n]+64)
				for i := range values {
					values[i] = byte(m.rng.Uint32())
				}
				binary, list := arrow.DataType(arrow.BinaryTypes.Binary), arrow.DataType(arrow.ListOf(arrow.PrimitiveTypes.Uint8))
				if width == 8 {
					binary, list = arrow.BinaryTypes.LargeBinary, arrow.LargeListOf(arrow.PrimitiveTypes.Uint8)
				}
				from := m.below(c.n, c.n)
				for j := range from {
					if m.rng.IntN(9) == 0 {
						from[j] = -1
					}
				}
				indices := indexArray(t, arrow.PrimitiveTypes.Int32, from)
				check := func(got arrow.Array, value func(arrow.Array, int) []byte) {
					t.Helper()
					require.Equal(t, len(from), got.Len())
					for j, i := range from {
						require.Equal(t, i < 0, got.IsNull(j))
						if i >= 0 && !bytes.Equal(values[offsets[i]:offsets[i+1]], value(got, j)) {
							require.FailNow(t, "wrong bytes", "element %d, of %v", j, c)
						}
					}
				}
				data := array.NewData(binary, c.n, []*memory.Buffer{nil, integers(width, offsets), memory.NewBufferBytes(values)}, nil, 0, 0)
				taken, err := columns.Take(on(t, dev, array.MakeFromData(data)), indices)
				check(toHost(t, dev, taken, err), func(got arrow.Array, j int) []byte { return got.(interface{ Value(int) []byte }).Value(j) })

				// Values with nulls are taken through indices.
				bits := m.bitmap(len(values))
				for i := range bits.Bytes() {
					bits.Bytes()[i] = 0xff
				}
				child := array.NewData(arrow.PrimitiveTypes.Uint8, len(values), []*memory.Buffer{bits, memory.NewBufferBytes(values)}, nil, array.UnknownNullCount, 0)
				data = array.NewData(list, c.n, []*memory.Buffer{nil, integers(width, offsets)}, []arrow.ArrayData{child}, 0, 0)
				taken, err = columns.Take(on(t, dev, array.MakeFromData(data)), indices)
				check(toHost(t, dev, taken, err), func(got arrow.Array, j int) []byte {
					lists := got.(array.ListLike)
					first, last := lists.ValueOffsets(j)
					return lists.ListValues().(*array.Uint8).Uint8Values()[first:last]
				})
			}
		}
	})
}
