package dlpack

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

func TestStructLayoutsMatchC(t *testing.T) {
	var tensor Tensor
	assert.EqualValues(t, 48, unsafe.Sizeof(tensor))
	for want, got := range map[uintptr]uintptr{
		0: unsafe.Offsetof(tensor.Data), 8: unsafe.Offsetof(tensor.Device), 16: unsafe.Offsetof(tensor.NDim), 20: unsafe.Offsetof(tensor.DataType),
		24: unsafe.Offsetof(tensor.Shape), 32: unsafe.Offsetof(tensor.Strides), 40: unsafe.Offsetof(tensor.ByteOffset),
	} {
		assert.Equal(t, want, got)
	}
	assert.EqualValues(t, 4, unsafe.Offsetof(tensor.Device.ID))
	assert.EqualValues(t, 4, unsafe.Sizeof(tensor.DataType))
	assert.EqualValues(t, 2, unsafe.Offsetof(tensor.DataType.Lanes))

	var legacy Legacy
	assert.EqualValues(t, 64, unsafe.Sizeof(legacy))
	assert.EqualValues(t, 48, unsafe.Offsetof(legacy.Context))
	assert.EqualValues(t, 56, unsafe.Offsetof(legacy.Deleter))

	var versioned Versioned
	assert.EqualValues(t, 80, unsafe.Sizeof(versioned))
	assert.EqualValues(t, 4, unsafe.Offsetof(versioned.Minor))
	assert.EqualValues(t, 8, unsafe.Offsetof(versioned.Context))
	assert.EqualValues(t, 16, unsafe.Offsetof(versioned.Deleter))
	assert.EqualValues(t, 24, unsafe.Offsetof(versioned.Flags))
	assert.EqualValues(t, 32, unsafe.Offsetof(versioned.Tensor))
}
