//go:build !linux && !darwin

package dlpack

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"
)

// Supported returns nil if C functions can be called on this platform.
func Supported() error {
	return fmt.Errorf("dlpack.Supported: %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// Export must not be called if Supported returns an error, and neither must the functions
// below.
func Export(Tensor, []int64, []int64, uint64, *byte, func()) unsafe.Pointer { return nil }

// ExportLegacy is Export for a Legacy tensor.
func ExportLegacy(Tensor, []int64, []int64, *byte, func()) unsafe.Pointer { return nil }

// Delete does nothing.
func (t *Imported) Delete() {}
