package ndview

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
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
		fillWhere(dst, m, width, pattern)
		return nil
	}
	return launchFillWhere(a, mask, width, pattern)
}

// fillWhere is FillWhere on host memory, and the twin of the kernel.
func fillWhere(dst, mask []byte, width int64, pattern uint64) {
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], pattern)
	for i, missing := range mask {
		if missing == 0 {
			continue
		}
		row := dst[int64(i)*width : int64(i+1)*width]
		for len(row) > 0 {
			row = row[copy(row, word[:]):]
		}
	}
}

var maskProgram = program("mask", map[string]cudabuf.Twin{"quiver_fill_where": func(l *cudabuf.TwinLaunch) {
	width, n := l.Int64(1), l.Int64(3)
	fillWhere(l.Memory(l.Pointer(0), n*width), l.Memory(l.Pointer(2), n), width, l.Uint64(4))
}})

func launchFillWhere(a, mask *NDBuffer, width int64, pattern uint64) error {
	rows := a.shape[0]
	return launchItems(a.Device(), maskProgram, "quiver_fill_where", rows, 8, a.inOut(), width, mask.in(), rows, pattern)
}

// WidenFrom writes the int32 elements of src to a, whose elements are 8 bytes:
// int64, datetime64 or timedelta64. Both are C-contiguous, of one shape, and on
// one device; they do not overlap.
func (a *NDBuffer) WidenFrom(src *NDBuffer) error {
	release, err := holdToWrite(a, src)
	if err != nil {
		return err
	}
	defer release()
	switch {
	case src.dtype != Int32 || a.dtype != Int64 && a.dtype.kind != KindDatetime && a.dtype.kind != KindTimedelta:
		return fmt.Errorf("widening %s to %s: %w", src.dtype, a.dtype, ErrDType)
	case !slices.Equal(src.shape, a.shape) || !src.IsContiguous() || !a.IsContiguous():
		return fmt.Errorf("widening %v (strides %v) to %v (strides %v): both must be C-contiguous and of one shape: %w",
			src.shape, src.strides, a.shape, a.strides, ErrShape)
	case src.Device() != a.Device():
		return fmt.Errorf("widening an array on %s to one on %s: %w", src.Device(), a.Device(), arrowbuf.ErrDevice)
	case a.Size() == 0:
		return nil
	}
	if dst, ok := a.HostBytes(); ok {
		from, _ := src.HostBytes()
		widenInt32(dst, from)
		return nil
	}
	return launchWiden(a, src)
}

// widenInt32 is WidenFrom on host memory, and the twin of the kernel.
func widenInt32(dst, src []byte) {
	for i := 0; i+4 <= len(src); i += 4 {
		v := int64(int32(binary.NativeEndian.Uint32(src[i:])))
		binary.NativeEndian.PutUint64(dst[2*i:], uint64(v))
	}
}

var castProgram = program("cast", map[string]cudabuf.Twin{"quiver_widen_i32_i64": func(l *cudabuf.TwinLaunch) {
	n := l.Int64(1)
	widenInt32(l.Memory(l.Pointer(2), n*8), l.Memory(l.Pointer(0), n*4))
}})

func launchWiden(a, src *NDBuffer) error {
	return launchItems(a.Device(), castProgram, "quiver_widen_i32_i64", a.Size(), 4, src.in(), a.Size(), a.inOut())
}

// Zero sets every byte of a C-contiguous array to 0.
func (a *NDBuffer) Zero() error {
	release, err := holdToWrite(a)
	if err != nil {
		return err
	}
	defer release()
	if !a.IsContiguous() {
		return fmt.Errorf("zeroing strides %v, which are not C-contiguous: %w", a.strides, ErrShape)
	}
	if dst, ok := a.HostBytes(); ok {
		clear(dst)
		return nil
	}
	part, err := a.buf.Slice(a.offset, a.NBytes())
	if err != nil {
		return err
	}
	defer part.Release()
	filler, ok := part.(interface{ Fill(byte) error })
	if !ok {
		return fmt.Errorf("%s cannot fill memory: %w", a.Device(), arrowbuf.ErrDevice)
	}
	return filler.Fill(0)
}
