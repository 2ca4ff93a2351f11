package ndview

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
)

// UnpackBits writes bits [bitOffset, bitOffset+n) of an Arrow bitmap (least
// significant bit first) to the n elements of a: 1 for a set bit, 0 for a clear
// one, the other way round when inverted. a is C-contiguous, of dtype bool or
// uint8, and on the device of bits, whose bytes are not those of a. No byte is
// read beyond that of the last bit, and none at all where a is empty.
func (a *NDBuffer) UnpackBits(bits arrowbuf.Buffer, bitOffset int64, invert bool) error {
	release, err := holdToWrite(a)
	if err != nil {
		return err
	}
	defer release()
	n := a.Size()
	switch {
	case a.dtype != Bool && a.dtype != Uint8:
		return fmt.Errorf("unpacking bits to %s: %w", a.dtype, ErrDType)
	case !a.IsContiguous():
		return fmt.Errorf("unpacking bits to strides %v, which are not C-contiguous: %w", a.strides, ErrShape)
	case bits.Device() != a.Device():
		return fmt.Errorf("unpacking bits of %s to %s: %w", bits.Device(), a.Device(), arrowbuf.ErrDevice)
	case bitOffset < 0:
		return fmt.Errorf("unpacking bits from %d: %w", bitOffset, arrowbuf.ErrOutOfRange)
	case n == 0:
		return nil
	}
	shift := bitOffset % 8
	used, err := bits.Slice(bitOffset/8, (shift+n+7)/8)
	if err != nil {
		return fmt.Errorf("unpacking %d bits from %d: %w", n, bitOffset, err)
	}
	defer used.Release()
	if dst, ok := a.HostBytes(); ok {
		src, _ := arrowbuf.HostBytes(used)
		unpackBits(dst, src, shift, invert)
		return nil
	}
	return launchUnpackBits(a, used, shift, invert)
}

// spread[b] is the eight bits of b as eight bytes of 0 or 1, lowest first.
var spread = func() (table [256]uint64) {
	for b := range table {
		for bit := range 8 {
			table[b] |= uint64(b>>bit&1) << (8 * bit)
		}
	}
	return table
}()

const allOnes = 0x0101010101010101

// unpackBits is UnpackBits on host memory, and the twin of the kernel.
func unpackBits(dst, bits []byte, bitOffset int64, invert bool) {
	var flip uint64
	if invert {
		flip = allOnes
	}
	bits = bits[bitOffset/8:]
	shift := uint(bitOffset % 8)
	i := 0
	for ; len(dst)-i >= 8; i += 8 {
		b := bits[i/8] >> shift
		if shift != 0 {
			b |= bits[i/8+1] << (8 - shift)
		}
		binary.LittleEndian.PutUint64(dst[i:], spread[b]^flip)
	}
	for ; i < len(dst); i++ {
		at := uint(i) + shift
		dst[i] = bits[at/8]>>(at%8)&1 ^ byte(flip)
	}
}

var bitsProgram = program("bits", map[string]cudabuf.Twin{"quiver_unpack_bits": func(l *cudabuf.TwinLaunch) {
	offset, n := l.Int64(1), l.Int64(2)
	unpackBits(l.Memory(l.Pointer(4), n), l.Memory(l.Pointer(0), (offset+n+7)/8), offset, l.Uint32(3) != 0)
}})

func launchUnpackBits(a *NDBuffer, bits arrowbuf.Buffer, bitOffset int64, invert bool) error {
	// The kernel reads 4-byte words. Allocations begin on one, so the word that
	// a slice begins in is there whole.
	skew := int64(bits.Address() % 4)
	var flip uint32
	if invert {
		flip = allOnes & math.MaxUint32
	}
	n := a.Size()
	return launchItems(a.Device(), bitsProgram, "quiver_unpack_bits", n, 64, in(bits, -skew), bitOffset+skew*8, n, flip, a.inOut())
}
