//go:build !linux && !darwin

package dlpack

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"
)

// Supported is nil where C code can be called.
func Supported() error {
	return fmt.Errorf("DLPack on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// Give is not called where it is not supported, nor are the two below.
func Give(Tensor, []int64, []int64, uint64, *byte, func()) unsafe.Pointer { return nil }

// GiveLegacy is Give for a Legacy tensor.
func GiveLegacy(Tensor, []int64, []int64, *byte, func()) unsafe.Pointer { return nil }

// Delete gives the tensor back.
func (t *Taken) Delete() {}
