package arrowbuf_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

func TestDeviceTypesMatchCDeviceInterface(t *testing.T) {
	for _, c := range []struct {
		is     arrowbuf.DeviceType
		number int32
		name   string
	}{
		{arrowbuf.DeviceCPU, 1, "cpu"},
		{arrowbuf.DeviceCUDA, 2, "cuda"},
		{arrowbuf.DeviceCUDAHost, 3, "cuda_host"},
		{arrowbuf.DeviceCUDAManaged, 13, "cuda_managed"},
		{10, 10, "device(10)"},
	} {
		assert.EqualValues(t, c.number, c.is)
		assert.Equal(t, c.name, c.is.String())
	}
}
