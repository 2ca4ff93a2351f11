package ndview_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

func TestEmptyIsContiguousOnItsDevice(t *testing.T) {
	tests := []struct {
		name         string
		dtype        ndview.DType
		shape        []int64
		strides      []int64
		size, nbytes int64
	}{
		{"no axes", ndview.Float64, []int64{}, []int64{}, 1, 8},
		{"one axis", ndview.Int16, []int64{5}, []int64{2}, 5, 10},
		{"three axes", ndview.Int32, []int64{2, 3, 4}, []int64{48, 16, 4}, 24, 96},
		{"an axis of 1", ndview.Bytes(3), []int64{4, 1}, []int64{3, 3}, 4, 12},
		{"an axis of 0", ndview.Int32, []int64{2, 0, 4}, []int64{16, 16, 4}, 0, 0},
	}
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				a, err := ndview.Empty(dev, tt.dtype, tt.shape...)
				own(t, a, err)
				assert.Equal(t, dev, a.Device())
				assert.Equal(t, tt.dtype, a.DType())
				assert.Equal(t, len(tt.shape), a.NDim())
				assert.Equal(t, tt.shape, a.Shape())
				assert.Equal(t, tt.strides, a.Strides())
				assert.Equal(t, tt.size, a.Size())
				assert.Equal(t, tt.nbytes, a.NBytes())
				assert.Equal(t, tt.nbytes, a.Buffer().Len())
				assert.Zero(t, a.Offset())
				assert.True(t, a.IsContiguous())
			})
		}
	})
}

func TestEmptyRefusesShapesThatNoMemoryHas(t *testing.T) {
	tests := []struct {
		name  string
		dtype ndview.DType
		shape []int64
		want  error
	}{
		{"negative", ndview.Int8, []int64{2, -1}, ndview.ErrShape},
		{"negative beside 0", ndview.Int8, []int64{0, -1}, ndview.ErrShape},
		{"2^63 bytes", ndview.Int64, []int64{1 << 30, 1 << 30}, ndview.ErrShape},
		{"2^64 bytes", ndview.Int8, []int64{1 << 32, 1 << 32}, ndview.ErrShape},
		{"2^80 bytes before 0", ndview.Int8, []int64{1 << 40, 1 << 40, 0}, ndview.ErrShape},
		{"2^80 bytes after 0", ndview.Int8, []int64{0, 1 << 40, 1 << 40}, ndview.ErrShape},
		{"more than there is", ndview.Int8, []int64{1 << 60}, arrowbuf.ErrOutOfMemory},
		{"no dtype", ndview.DType{}, []int64{2}, ndview.ErrDType},
		{"Bytes(0)", ndview.Bytes(0), []int64{2}, ndview.ErrDType},
		{"Bytes(-1)", ndview.Bytes(-1), []int64{2}, ndview.ErrDType},
	}
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				_, err := ndview.Empty(dev, tt.dtype, tt.shape...)
				assert.ErrorIs(t, err, tt.want)
			})
		}
	})
}

func TestFromBufferTakesWhatLiesWithinTheBuffer(t *testing.T) {
	const room = 48 // bytes of the buffer
	ok, outside := error(nil), arrowbuf.ErrOutOfRange
	tests := []struct {
		name    string
		dtype   ndview.DType
		offset  int64
		shape   []int64
		strides []int64
		want    error
	}{
		{"all of it", ndview.Int32, 0, []int64{3, 4}, nil, ok},
		{"one byte beyond", ndview.Int32, 1, []int64{3, 4}, nil, outside},
		{"one row beyond", ndview.Int32, 0, []int64{4, 4}, nil, outside},
		{"no axes at the end", ndview.Int64, 40, nil, nil, ok},
		{"no axes beyond the end", ndview.Int64, 41, nil, nil, outside},
		{"before the start", ndview.Int8, -1, []int64{1}, nil, outside},
		{"no elements at the end", ndview.Int32, 48, []int64{0}, nil, ok},
		{"no elements beyond the end", ndview.Int32, 49, []int64{0}, nil, outside},
		{"no elements before the start", ndview.Int32, -1, []int64{0}, nil, outside},
		{"no elements with wild strides", ndview.Int32, 0, []int64{5, 0}, []int64{1 << 62, 1 << 62}, ok},
		{"backwards", ndview.Int32, 44, []int64{12}, []int64{-4}, ok},
		{"backwards beyond the start", ndview.Int32, 43, []int64{12}, []int64{-4}, outside},
		{"backwards beyond the end", ndview.Int32, 45, []int64{12}, []int64{-4}, outside},
		{"both ways", ndview.Int8, 40, []int64{6, 8}, []int64{-8, 1}, ok},
		{"repeated", ndview.Int32, 44, []int64{1000}, []int64{0}, ok},
		{"wild stride of an axis of 1", ndview.Int8, 0, []int64{1, 48}, []int64{math.MinInt64, 1}, ok},
		{"too large a stride", ndview.Int8, 0, []int64{2}, []int64{48}, outside},
		{"a stride whose reach wraps to 0", ndview.Int8, 0, []int64{5}, []int64{1 << 62}, outside},
		{"a stride whose reach wraps below 0", ndview.Int8, 0, []int64{3}, []int64{1 << 62}, outside},
		{"the smallest stride", ndview.Int8, 0, []int64{2}, []int64{math.MinInt64}, outside},
		{"the smallest stride, wrapping", ndview.Int8, 0, []int64{3}, []int64{math.MinInt64}, outside},
		{"reaches that cancel", ndview.Int8, 0, []int64{2, 2}, []int64{math.MaxInt64, -math.MaxInt64}, outside},
		{"reaches that wrap together", ndview.Int8, 0, []int64{2, 2, 2}, []int64{math.MaxInt64, math.MaxInt64, 2}, outside},
		{"the largest offset", ndview.Int64, math.MaxInt64, nil, nil, outside},
		{"the smallest offset", ndview.Int64, math.MinInt64, []int64{2}, []int64{-8}, outside},
		{"fewer strides than axes", ndview.Int8, 0, []int64{2, 2}, []int64{1}, ndview.ErrShape},
		{"strides for no axes", ndview.Int8, 0, nil, []int64{1}, ndview.ErrShape},
		{"a negative extent", ndview.Int8, 0, []int64{-1}, nil, ndview.ErrShape},
		{"no dtype", ndview.DType{}, 0, []int64{1}, nil, ndview.ErrDType},
	}
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		buf := upload(t, dev, make([]byte, room))
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				a, err := ndview.FromBuffer(buf, tt.dtype, tt.offset, tt.shape, tt.strides)
				if tt.want != nil {
					require.ErrorIs(t, err, tt.want)
					return
				}
				own(t, a, err)
				assert.NoError(t, a.CopyToHost(make([]byte, a.NBytes())))
			})
		}
	})
}

func TestFromBufferKeepsItsOwnShapeAndStrides(t *testing.T) {
	buf := upload(t, arrowbuf.CPU(), make([]byte, 24))
	shape, strides := []int64{2, 3}, []int64{12, 4}
	a, err := ndview.FromBuffer(buf, ndview.Int32, 0, shape, strides)
	own(t, a, err)
	shape[0], strides[0] = 99, 99
	assert.Equal(t, []int64{2, 3}, a.Shape())
	assert.Equal(t, []int64{12, 4}, a.Strides())
}

func TestIsContiguousMeansCOrderWithoutGaps(t *testing.T) {
	buf := upload(t, arrowbuf.CPU(), make([]byte, 1024))
	tests := []struct {
		name           string
		shape, strides []int64
		want           bool
	}{
		{"C order", []int64{2, 3}, []int64{12, 4}, true},
		{"Fortran order", []int64{2, 3}, []int64{4, 8}, false},
		{"gaps between rows", []int64{2, 3}, []int64{16, 4}, false},
		{"gaps between elements", []int64{6}, []int64{8}, false},
		{"backwards", []int64{3}, []int64{-4}, false},
		{"repeated", []int64{3}, []int64{0}, false},
		{"any stride of an axis of 1", []int64{1, 3, 1}, []int64{-7, 4, 99}, true},
		{"one element", []int64{1, 1}, []int64{0, 0}, true},
		{"any strides of no elements", []int64{0, 3}, []int64{1, 77}, true},
		{"any strides of no elements, 0 last", []int64{3, 0}, []int64{1, 77}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, err := ndview.FromBuffer(buf, ndview.Int32, 512, tt.shape, tt.strides)
			own(t, a, err)
			assert.Equal(t, tt.want, a.IsContiguous())
		})
	}
}
