package ndview_test

import (
	"context"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
)

func TestKernelsAndArrowComputeTakeTurnsOnManagedMemory(t *testing.T) {
	cudatest.ForEachDriver(t, 1, func(t *testing.T, d *cudabuf.Driver) {
		dev, err := d.ManagedDevice(0)
		require.NoError(t, err)
		const n = 100_000
		values := make([]float64, n)
		for i := range values {
			values[i] = float64(i)
		}
		a, err := ndview.FromSlice(dev, values, n)
		require.NoError(t, err)
		defer a.Release()
		for range 3 {
			sum, err := ndview.Add.Of(a, a) // enqueued; ToArrow waits for it
			require.NoError(t, err)
			column, err := ndview.ToArrow(sum, ndview.ArrowOptions{})
			require.NoError(t, err)
			sum.Release()
			operand := compute.NewDatum(column)
			doubled, err := compute.Add(context.Background(), compute.ArithmeticOptions{}, operand, operand)
			require.NoError(t, err)
			operand.Release()
			got := doubled.(*compute.ArrayDatum).MakeArray().(*array.Float64)
			assert.Equal(t, 4.0*(n-1), got.Value(n-1))
			assert.Equal(t, 2.0*(n-1), column.(*array.Float64).Value(n-1))
			got.Release()
			doubled.Release()
			column.Release()
		}
	})
}
