package ndview

import (
	_ "embed"
	"fmt"
	"math"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
)

// The kernels, compiled ahead for every GPU since Volta by `make kernels`.
var (
	//go:embed kernels/images/bits.fatbin
	bitsImage []byte
	//go:embed kernels/images/mask.fatbin
	maskImage []byte
	//go:embed kernels/images/cast.fatbin
	castImage []byte
)

// kernel is one kernel, and how many items a thread of it does.
type kernel struct {
	program   *cudabuf.Program
	name      string
	perThread int64
}

// newKernel makes a program of an image with one kernel; the twin does its work
// on the CPU.
func newKernel(image []byte, name string, perThread int64, twin cudabuf.Twin) *kernel {
	return &kernel{&cudabuf.Program{Image: image, Twins: map[string]cudabuf.Twin{name: twin}}, name, perThread}
}

// threads is the size of a block.
const threads = 256

// launch runs the kernel with threads for items >= 1.
func (k *kernel) launch(device arrowbuf.Device, items int64, args ...any) error {
	cuda, ok := device.(*cudabuf.Device)
	if !ok {
		return fmt.Errorf("%s has no kernels: %w", device, arrowbuf.ErrDevice)
	}
	blocks := (items-1)/(k.perThread*threads) + 1
	if blocks > math.MaxInt32 {
		return fmt.Errorf("kernel %s: %d items are more than a grid has threads for: %w", k.name, items, ErrShape)
	}
	ready, err := cuda.Kernel(k.program, k.name)
	if err != nil {
		return fmt.Errorf("loading kernel %s: %w", k.name, err)
	}
	return ready.Launch(cudabuf.Dim3{X: uint32(blocks)}, cudabuf.Dim3{X: threads}, 0, args...)
}

// in and inOut are arguments of a launch: pointers to an array's first element,
// for a kernel that reads it and for one that writes it.
func (a *NDBuffer) in() any { return in(a.buf, a.offset) }

func (a *NDBuffer) inOut() any {
	if b, ok := a.buf.(*cudabuf.Buffer); ok {
		return cudabuf.InOut(b, a.offset)
	}
	return a.buf // launch refuses it
}

func in(b arrowbuf.Buffer, offset int64) any {
	if b, ok := b.(*cudabuf.Buffer); ok {
		return cudabuf.In(b, offset)
	}
	return b
}

var unpackBitsKernel = newKernel(bitsImage, "quiver_unpack_bits", 64, func(l *cudabuf.TwinLaunch) {
	offset, n := l.Int64(1), l.Int64(2)
	unpackBits(l.Memory(l.Pointer(4), n), l.Memory(l.Pointer(0), (offset+n+7)/8), offset, l.Uint32(3) != 0)
})

func launchUnpackBits(a *NDBuffer, bits arrowbuf.Buffer, bitOffset int64, invert bool) error {
	// The kernel reads 4-byte words. Allocations begin on one, so the word that
	// a slice begins in is there whole.
	skew := int64(bits.Address() % 4)
	var flip uint32
	if invert {
		flip = allOnes & math.MaxUint32
	}
	n := a.Size()
	return unpackBitsKernel.launch(a.Device(), n, in(bits, -skew), bitOffset+skew*8, n, flip, a.inOut())
}

var fillWhereKernel = newKernel(maskImage, "quiver_fill_where", 8, func(l *cudabuf.TwinLaunch) {
	width, n := l.Int64(1), l.Int64(3)
	fillWhere(l.Memory(l.Pointer(0), n*width), l.Memory(l.Pointer(2), n), width, l.Uint64(4))
})

func launchFillWhere(a, mask *NDBuffer, width int64, pattern uint64) error {
	rows := a.shape[0]
	return fillWhereKernel.launch(a.Device(), rows, a.inOut(), width, mask.in(), rows, pattern)
}

var widenKernel = newKernel(castImage, "quiver_widen_i32_i64", 4, func(l *cudabuf.TwinLaunch) {
	n := l.Int64(1)
	widenInt32(l.Memory(l.Pointer(2), n*8), l.Memory(l.Pointer(0), n*4))
})

func launchWiden(a, src *NDBuffer) error {
	return widenKernel.launch(a.Device(), a.Size(), src.in(), a.Size(), a.inOut())
}
