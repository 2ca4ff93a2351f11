package ndview

import (
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
)

// FillWhere writes one value to the rows of a, its first axis, at which mask is
// true. The value is the 8 bytes of pattern, little-endian, repeated over the
// row: 0 zeroes it. Both arrays are C-contiguous and on one device; mask is of
// dtype bool and shape [rows].
func (a *NDBuffer) FillWhere(mask *NDBuffer, pattern uint64) error {
	release, err := holdToWrite(a, mask)
	if err != nil {
		return err
	}
	defer release()
	switch {
	case mask.dtype != Bool:
		return fmt.Errorf("a mask of dtype %s: %w", mask.dtype, ErrDType)
	case len(a.shape) == 0 || len(mask.shape) != 1 || mask.shape[0] != a.shape[0]:
		return fmt.Errorf("a mask of shape %v for rows of %v: %w", mask.shape, a.shape, ErrShape)
	case !a.IsContiguous() || !mask.IsContiguous():
		return fmt.Errorf("filling strides %v by a mask of strides %v: both must be C-contiguous: %w", a.strides, mask.strides, ErrShape)
	case mask.Device() != a.Device():
		return fmt.Errorf("a mask on %s for an array on %s: %w", mask.Device(), a.Device(), arrowbuf.ErrDevice)
	case a.Size() == 0:
		return nil
	}
	width := a.NBytes() / a.shape[0]
	if dst, ok := a.HostBytes(); ok {
		m, _ := mask.HostBytes()
		cpu.FillWhere(dst, m, width, pattern)
		return nil
	}
	return launchFillWhere(a, mask, width, pattern)
}

var maskProgram = launch.Program("index/fill_where", map[string]cudabuf.HostKernel{"quiver_fill_where": func(l *cudabuf.HostLaunch) {
	width, n := l.Int64(1), l.Int64(3)
	launch.MustAlignAt(l, 2, -int64(l.Uint32(4)), 16)
	cpu.FillWhere(l.Memory(l.Pointer(0), n*width), l.Memory(l.Pointer(2), n), width, l.Uint64(5))
}})

func launchFillWhere(a, mask *NDBuffer, width int64, pattern uint64) error {
	rows, turn := a.shape[0], int64(mask.address()%16)
	return launch.Items(a.Device(), maskProgram, "quiver_fill_where", rows+turn, 16,
		a.inOut(), width, mask.in(), rows, uint32(turn), pattern)
}
