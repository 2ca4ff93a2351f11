package cudabuf_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
)

func TestErrorsHaveNamesAndSentinels(t *testing.T) {
	sentinels := []error{arrowbuf.ErrOutOfMemory, cudabuf.ErrDeviceLost, cudabuf.ErrNoDevice, cudabuf.ErrClosed}
	tests := []struct {
		code cudabuf.Result
		text string
		is   error
	}{
		{1, "cuMemAlloc: CUDA_ERROR_INVALID_VALUE (1): invalid argument", nil},
		{2, "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory", arrowbuf.ErrOutOfMemory},
		{4, "cuMemAlloc: CUDA_ERROR_DEINITIALIZED (4): driver shutting down", cudabuf.ErrClosed},
		{100, "cuMemAlloc: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device detected", cudabuf.ErrNoDevice},
		{201, "cuMemAlloc: CUDA_ERROR_INVALID_CONTEXT (201): no valid context on this thread", nil},
		{700, "cuMemAlloc: CUDA_ERROR_ILLEGAL_ADDRESS (700): illegal memory access", cudabuf.ErrDeviceLost},
		{919, "cuMemAlloc: CUDA_ERROR_FABRIC_NOT_READY (919): fabric not ready", nil},
		{12345, "cuMemAlloc: CUDA_ERROR_12345 (12345): a code newer than this program", nil},
	}
	for _, tt := range tests {
		err := fmt.Errorf("working: %w", &cudabuf.Error{Call: "cuMemAlloc", Code: tt.code})
		assert.EqualError(t, err, "working: "+tt.text)
		for _, s := range sentinels {
			assert.Equal(t, errors.Is(tt.is, s), errors.Is(err, s), "%v is %v", err, s)
		}
		var cuda *cudabuf.Error
		assert.ErrorAs(t, err, &cuda)
		assert.Equal(t, tt.code, cuda.Code)
	}
	assert.EqualError(t, &cudabuf.Error{Call: "cuInit", Code: 3, Detail: "why"}, "cuInit: CUDA_ERROR_NOT_INITIALIZED (3): driver not initialized (why)")
}
