package ndview_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
)

func TestStringAlignsElementsInNestedBrackets(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, c := range []struct {
			array *ndview.NDBuffer
			want  string
		}{
			{ndtest.FromHost(t, dev, ndview.Int32, []int32{7}), "7"},
			{ndtest.FromHost(t, dev, ndview.Int32, []int32{}, 0), "[]"},
			{ndtest.FromHost(t, dev, ndview.Int32, []int32{1, -20, 300}, 3), "[  1 -20 300]"},
			{ndtest.FromHost(t, dev, ndview.Bool, []bool{true, false}, 2), "[ true false]"},
			{ndtest.FromHost(t, dev, ndview.Uint8, []uint8{1, 2, 30, 4, 5, 6}, 2, 3), "[[ 1  2 30]\n [ 4  5  6]]"},
			{ndtest.FromHost(t, dev, ndview.Uint8, []uint8{1, 2, 3, 4}, 2, 1, 2), "[[[1 2]]\n\n [[3 4]]]"},
			{ndtest.FromHost(t, dev, ndview.Float64, []float64{0.1, math.Inf(-1), math.NaN(), math.Copysign(0, -1)}, 4), "[ 0.1 -Inf  NaN   -0]"},
		} {
			assert.Equal(t, c.want, c.array.String())
			assert.Equal(t, fmt.Sprintf("NDBuffer(%s, shape=%v, device=%s)\n%s", c.array.DType(), c.array.Shape(), dev, c.want), fmt.Sprintf("%#v", c.array))
		}
	})
}

func TestStringShowsTheEndsOfLongAxes(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Int32, count(64*50*40), 64, 50, 40)
		permuted, err := a.Transpose(2, 0, 1)
		ndtest.Own(t, permuted, err)
		assert.True(t, strings.HasPrefix(permuted.String(), "[[[     0     40     80 ...   1880   1920   1960]\n"), permuted)
		backwards, err := ndview.FromBuffer(a.Buffer(), ndview.Int32, 4*1099, []int64{1100}, []int64{-4})
		ndtest.Own(t, backwards, err)
		assert.Equal(t, "[1099 1098 1097 ...    2    1    0]", backwards.String())
		same, err := ndview.FromBuffer(a.Buffer(), ndview.Int32, 4, []int64{1 << 40}, []int64{0})
		ndtest.Own(t, same, err)
		assert.Equal(t, "[1 1 1 ... 1 1 1]", same.String())
		whole := ndtest.FromHost(t, dev, ndview.Int32, count(1000), 1000)
		assert.NotContains(t, whole.String(), "...")
	})
}

func TestStringOfReleasedArrayReportsError(t *testing.T) {
	a, err := ndview.FromHost(arrowbuf.CPU(), ndview.Int32, count(2), 2)
	require.NoError(t, err)
	a.Release()
	assert.Contains(t, a.String(), "<array of int32 [2]: ")
	assert.Contains(t, a.String(), arrowbuf.ErrReleased.Error())
}

// TestStringCopiesOnlyShownElements prints an array that is too large to copy to the
// host.
func TestStringCopiesOnlyShownElements(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		if strings.Contains(t.Name(), "/simulated") {
			large, err := cudatest.Start(t, cudatest.Config{MemoryBytes: 16 << 30}).Device(0)
			require.NoError(t, err)
			dev = large
		}
		buf, err := dev.Alloc(12 << 30)
		ndtest.Own(t, buf, err)
		a := ndtest.At(t, buf, ndview.Uint8, 0, 3<<30, 4)
		for i, row := range []int64{0, 1, 2, 3<<30 - 3, 3<<30 - 2, 3<<30 - 1} {
			_, err := buf.CopyFromHost([]byte{1, 2, 3, byte(i)}, 4*row)
			require.NoError(t, err)
		}
		transposed, err := a.Transpose()
		ndtest.Own(t, transposed, err)
		assert.Equal(t, "[[1 2 3 0]\n [1 2 3 1]\n [1 2 3 2]\n ...\n [1 2 3 3]\n [1 2 3 4]\n [1 2 3 5]]", a.String())
		assert.Equal(t, "[[1 1 1 ... 1 1 1]\n [2 2 2 ... 2 2 2]\n [3 3 3 ... 3 3 3]\n [0 1 2 ... 3 4 5]]", transposed.String())
	})
}
