package ndview

import (
	"fmt"
	"math"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
)

// UnpackBits writes bits [bitOffset, bitOffset+n) of an Arrow bitmap to the n elements
// of a. The least significant bit of a byte comes first. An element is 1 for a set bit
// and 0 for a clear one, or the reverse if invert is true. The array must be C-contiguous, of dtype bool
// or uint8, on the device of bits, and must not overlap them. No byte after that of
// the last bit is read, and none if a is empty.
func (a *NDBuffer) UnpackBits(bits arrowbuf.Buffer, bitOffset int64, invert bool) (err error) {
	defer nameError("UnpackBits", &err)
	if err := checkNil(a); err != nil {
		return err
	}
	release, err := retainToWrite(a)
	if err != nil {
		return err
	}
	defer release()
	n := a.Size()
	switch {
	case bits == nil:
		return fmt.Errorf("nil bitmap: %w", ErrNil)
	case a.dtype != Bool && a.dtype != Uint8:
		return fmt.Errorf("got dtype %s, want bool or uint8: %w", a.dtype, ErrDType)
	case !a.IsContiguous():
		return fmt.Errorf("strides %v are not C-contiguous: %w", a.strides, ErrShape)
	case bits.Device() != a.Device():
		return fmt.Errorf("bits on %s, array on %s: %w", bits.Device(), a.Device(), arrowbuf.ErrDevice)
	case bitOffset < 0:
		return fmt.Errorf("bit offset %d: %w", bitOffset, arrowbuf.ErrOutOfRange)
	case n == 0:
		return nil
	}
	shift := bitOffset % 8
	used, err := bits.Slice(bitOffset/8, (shift+n+7)/8)
	if err != nil {
		return fmt.Errorf("%d bits from bit %d: %w", n, bitOffset, err)
	}
	defer used.Release()
	if dst, ok := a.HostBytes(); ok {
		src, _ := arrowbuf.HostBytes(used)
		cpu.UnpackBits(dst, src, shift, invert)
		return nil
	}
	return launchUnpackBits(a, used, shift, invert)
}

// PackBits writes the n elements of a to bits [bitOffset, bitOffset+n) of an Arrow
// bitmap. The least significant bit of a byte comes first. A bit is 1 if the element is
// not 0. Other bits are unchanged. The array must be C-contiguous, of dtype bool or uint8, on the device of
// bits, and must not overlap them.
func (a *NDBuffer) PackBits(bits arrowbuf.Buffer, bitOffset int64) error {
	return named("PackBits", a.packBits(bits, bitOffset, false))
}

// packBits is PackBits; if invert is true, it writes 1 for an element that is 0.
func (a *NDBuffer) packBits(bits arrowbuf.Buffer, bitOffset int64, invert bool) error {
	if err := a.TryRetain(); err != nil {
		return err
	}
	defer a.Release()
	n := a.Size()
	switch {
	case bits == nil:
		return fmt.Errorf("nil bitmap: %w", ErrNil)
	case a.dtype != Bool && a.dtype != Uint8:
		return fmt.Errorf("got dtype %s, want bool or uint8: %w", a.dtype, ErrDType)
	case !a.IsContiguous():
		return fmt.Errorf("strides %v are not C-contiguous: %w", a.strides, ErrShape)
	case !mayChange(bits):
		return fmt.Errorf("%w", ErrReadOnly)
	case bits.Device() != a.Device():
		return fmt.Errorf("array on %s, bits on %s: %w", a.Device(), bits.Device(), arrowbuf.ErrDevice)
	case bitOffset < 0:
		return fmt.Errorf("bit offset %d: %w", bitOffset, arrowbuf.ErrOutOfRange)
	case n == 0:
		return nil
	}
	shift := bitOffset % 8
	used, err := bits.Slice(bitOffset/8, (shift+n+7)/8)
	if err != nil {
		return fmt.Errorf("%d bits from bit %d: %w", n, bitOffset, err)
	}
	defer used.Release()
	if src, ok := a.HostBytes(); ok {
		dst, _ := arrowbuf.HostBytes(used)
		cpu.PackBits(dst, src, shift, invert)
		return nil
	}
	return launchPackBits(a, used, shift, invert)
}

var bitsProgram = launch.Program("copy/bits", map[string]cudabuf.HostKernel{
	"quiver_unpack_bits": func(l *cudabuf.HostLaunch) {
		offset, n := l.Int64(1), l.Int64(2)
		launch.MustAlign(l, 0, 4)
		cpu.UnpackBits(l.Memory(l.Pointer(4), n), l.Memory(l.Pointer(0), (offset+n+7)/8), offset, l.Uint32(3) != 0)
	},
	"quiver_pack_bits": func(l *cudabuf.HostLaunch) {
		n, first := l.Int64(1), l.Int64(3)
		launch.MustAlign(l, 2, 4)
		bits := l.Memory(l.Pointer(2)+uintptr(first/8), (first%8+n+7)/8)
		cpu.PackBits(bits, l.Memory(l.Pointer(0), n), first%8, l.Uint32(4) != 0)
	},
})

func launchPackBits(a *NDBuffer, bits arrowbuf.Buffer, bitOffset int64, invert bool) error {
	skew := int64(bits.Address() % 4) // the kernel writes 4-byte words, and single bytes at the ends
	var flip uint32
	if invert {
		flip = math.MaxUint32
	}
	first := bitOffset + skew*8
	words := (first + a.Size() + 31) / 32
	return launch.QueueItems(a.Device(), bitsProgram, "quiver_pack_bits", words, 4, a.in(), a.Size(), launch.InOut(bits, -skew), first, flip)
}

func launchUnpackBits(a *NDBuffer, bits arrowbuf.Buffer, bitOffset int64, invert bool) error {
	// The kernel reads aligned 4-byte words. Allocations begin on one, so the word in
	// which a slice begins lies within the allocation.
	skew := int64(bits.Address() % 4)
	var flip uint32
	if invert {
		flip = 0x01010101
	}
	n := a.Size()
	return launch.QueueItems(a.Device(), bitsProgram, "quiver_unpack_bits", n, 64, launch.In(bits, -skew), bitOffset+skew*8, n, flip, a.inOut())
}
