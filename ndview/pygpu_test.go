package ndview_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
)

// The reshapes of docs/pygpu.md, as NumPy does them: which are views, and their
// strides.
func TestReshapesOfPygpusTable(t *testing.T) {
	for _, tt := range []struct {
		row            string
		shape, strides []int64
		to             []int64
		order          ndview.Order
		view           bool
		want           []int64 // strides
	}{
		{"RS1", []int64{2, 3}, []int64{12, 4}, []int64{3, 2}, ndview.OrderC, true, []int64{8, 4}},
		{"RS2", []int64{2, 3}, []int64{12, 4}, []int64{3, 2}, ndview.OrderF, false, []int64{4, 12}},
		{"RS3", []int64{2, 3}, []int64{4, 8}, []int64{6}, ndview.OrderC, false, []int64{4}},
		{"RS4", []int64{2, 3}, []int64{4, 8}, []int64{6}, ndview.OrderA, true, []int64{4}},
		{"RS4", []int64{2, 3}, []int64{4, 8}, []int64{3, 2}, ndview.OrderF, true, []int64{4, 12}},
		{"RS5", []int64{2, 3, 4}, []int64{96, 16, 4}, []int64{2, 12}, ndview.OrderC, true, []int64{96, 4}},
		{"RS5", []int64{2, 3, 4}, []int64{96, 16, 4}, []int64{6, 4}, ndview.OrderC, false, []int64{16, 4}},
		{"RS6", []int64{2, 3, 4}, []int64{96, 32, 4}, []int64{6, 4}, ndview.OrderC, true, []int64{32, 4}},
		{"RS7", []int64{2, 3, 4}, []int64{-48, 16, 4}, []int64{2, 12}, ndview.OrderC, true, []int64{-48, 4}},
		{"RS7", []int64{2, 3, 4}, []int64{-48, 16, 4}, []int64{24}, ndview.OrderC, false, []int64{4}},
		{"RS8", []int64{2, 3, 4}, []int64{96, 32, 8}, []int64{6, 4}, ndview.OrderC, true, []int64{32, 8}},
		{"RS9", []int64{}, []int64{}, []int64{1, 1}, ndview.OrderC, true, []int64{4, 4}},
		{"RS9", []int64{1}, []int64{4}, []int64{}, ndview.OrderC, true, []int64{}},
		{"RS10", []int64{1, 6}, []int64{24, 4}, []int64{2, 3}, ndview.OrderA, true, []int64{12, 4}},
		{"RS11", []int64{1, 1, 2}, []int64{4, 4, 4}, []int64{1, 2}, ndview.OrderC, true, []int64{8, 4}},
	} {
		onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
			buf := fromHost(t, dev, ndview.Int32, count(256), 256).Buffer()
			a, err := ndview.FromBuffer(buf, ndview.Int32, 400, tt.shape, tt.strides)
			own(t, a, err)
			got, err := a.ReshapeOrder(tt.order, tt.to...)
			own(t, got, err)
			about := []any{"%s: %v/%v to %v", tt.row, tt.shape, tt.strides, tt.to}
			assert.Equal(t, tt.to, append([]int64{}, got.Shape()...), about...)
			assert.Equal(t, tt.want, append([]int64{}, got.Strides()...), about...)
			assert.Equal(t, tt.view, ndview.MayShareMemory(a, got), about...)
			if tt.order == ndview.OrderC || tt.row == "RS10" {
				assert.Equal(t, elements(t, a), elements(t, got), about...)
			}
		})
	}
	// RS12: no elements.
	buf := upload(t, arrowbuf.CPU(), nil)
	for _, order := range []ndview.Order{ndview.OrderC, ndview.OrderF, ndview.OrderA} {
		got, err := at(t, buf, ndview.Int32, 0, 2, 0).ReshapeOrder(order, 0, 3)
		own(t, got, err)
		assert.Equal(t, []int64{0, 3}, got.Shape())
	}
}

// Rows EW8 and X18: the width of an index follows from the extent in bytes.
func TestOwnKernelsCountBytesBeyond32Bits(t *testing.T) {
	args := []ndview.KernelArg{writes("res", ndview.Uint8), reads("a", ndview.Uint8)}
	onOwnKernels(t, args, func(e [][]byte) { e[0][0] = e[1][0] + 1 }, func(t *testing.T, dev *cudabuf.Device) {
		needCompiler(t)
		if strings.Contains(t.Name(), "/soft") {
			large, err := cudatest.Start(t, cudatest.Config{MemoryBytes: 8 << 30}).Device(0)
			require.NoError(t, err)
			dev = large
		}
		k, err := ndview.NewElementwise(dev, "res = a + 1", "", args...)
		require.NoError(t, err)
		const far = 5 << 30
		buf, err := dev.Alloc(far + 1)
		own(t, buf, err)
		ends, err := ndview.FromBuffer(buf, ndview.Uint8, 0, []int64{2}, []int64{far})
		own(t, ends, err)
		for i, v := range []byte{7, 8} {
			_, err := buf.CopyFromHost([]byte{v}, int64(i)*far)
			require.NoError(t, err)
		}
		out := fromHost(t, dev, ndview.Uint8, []uint8{0, 0}, 2)
		require.NoError(t, k.Run(out, ends))
		assert.Equal(t, []byte{8, 9}, elements(t, out))
		require.NoError(t, k.Run(ends, out))
		got := make([]byte, 1)
		_, err = buf.CopyToHost(got, far)
		require.NoError(t, err)
		assert.Equal(t, []byte{10}, got)
	})
}
