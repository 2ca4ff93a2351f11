package ndview_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// TestCopiesReachBeyond4GiB turns a matrix of more than 2^31 elements and 2^32
// bytes. Its first columns hold the number of the row, the others that of the
// column.
func TestCopiesReachBeyond4GiB(t *testing.T) {
	onHugeCUDA(t, 12, func(t *testing.T, dev *cudabuf.Device) {
		const rows, columns, numbered = 70001, 33003, 100
		numbers := make([]uint16, rows)
		for i := range numbers {
			numbers[i] = uint16(i)
		}
		a, err := ndview.Empty(dev, ndview.Uint16, rows, columns)
		own(t, a, err)
		require.NoError(t, a.CopyFrom(fromHost(t, dev, ndview.Uint16, numbers[:columns], columns)))
		first, err := a.Slice(1, 0, numbered)
		own(t, first, err)
		require.NoError(t, first.CopyFrom(fromHost(t, dev, ndview.Uint16, numbers, rows, 1)))

		turned, err := a.Transpose()
		own(t, turned, err)
		c, err := turned.Copy(ndview.OrderC)
		own(t, c, err)
		back, err := c.Index(ndview.SpanStep(ndview.Open, ndview.Open, -1), ndview.SpanStep(ndview.Open, ndview.Open, -3))
		own(t, back, err)
		thirds, err := back.Copy(ndview.OrderC)
		own(t, thirds, err)
		for _, column := range []int64{0, 1, numbered - 1, numbered, 15339, 15340, 30679, 30680, columns - 1} {
			line, err := c.Slice(0, column, column+1)
			own(t, line, err)
			got, err := ndview.ToHost[uint16](line)
			require.NoError(t, err)
			third, err := thirds.Slice(0, columns-1-column, columns-column)
			own(t, third, err)
			few, err := ndview.ToHost[uint16](third)
			require.NoError(t, err)
			require.Len(t, few, (rows+2)/3)
			for i, v := range got {
				want := uint16(column)
				if column < numbered {
					want = uint16(i)
				}
				require.Equal(t, want, v, "column %d of row %d", column, i)
				if (rows-1-i)%3 == 0 {
					require.Equal(t, want, few[(rows-1-i)/3], "column %d of row %d, backwards", column, i)
				}
			}
		}
	})
}
