// Package launch queues the kernels of package kernels, and gives their twins on the
// soft device what a launch passes.
package launch

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/kernels"
)

// Threads is the size of a block, unless a kernel has reason for another.
const Threads = 256

// Program is the kernels of kernels/NAME.cu. A twin does the work of the kernel
// of its name on the soft device.
func Program(name string, twins map[string]cudabuf.HostKernel) *cudabuf.Program {
	return &cudabuf.Program{
		ImageFor: func(major, minor int) ([]byte, error) { return kernels.Image(name, major, minor) },
		Twins:    twins,
	}
}

// Queue queues a kernel on the default stream of a device, behind what was queued before.
// What uses the arrays later waits for it. A device without kernels is
// [arrowbuf.ErrDevice].
func Queue(device arrowbuf.Device, p *cudabuf.Program, name string, grid, block cudabuf.Dim3, args ...any) error {
	return QueueShared(device, p, name, grid, block, 0, args...)
}

// SharedMemory is how many bytes of shared memory a block of QueueShared may have.
func SharedMemory(device arrowbuf.Device) int64 {
	cuda, ok := device.(*cudabuf.Device)
	if !ok {
		return 0
	}
	return cuda.Limits().SharedPerBlockOptin
}

// QueueShared is Queue for a kernel whose blocks get so many bytes of shared memory
// beside what it takes itself. Where they are more than a kernel may have without asking,
// it takes none itself.
func QueueShared(device arrowbuf.Device, p *cudabuf.Program, name string, grid, block cudabuf.Dim3, shared uint32, args ...any) error {
	cuda, ok := device.(*cudabuf.Device)
	if !ok {
		return fmt.Errorf("%s has no kernels: %w", device, arrowbuf.ErrDevice)
	}
	kernel, err := cuda.Kernel(p, name)
	if err != nil {
		return fmt.Errorf("loading kernel %s: %w", name, err)
	}
	if limits := cuda.Limits(); int64(shared) > limits.SharedPerBlock {
		// As much as there is, since others may launch it too.
		if err := kernel.SetMaxDynamicShared(int(limits.SharedPerBlockOptin)); err != nil {
			return err
		}
	}
	stream, err := cuda.DefaultStream()
	if err != nil {
		return err
	}
	return kernel.LaunchAsync(stream, grid, block, shared, args...)
}

// Items queues a kernel whose threads do perThread items each, one after the other,
// for items >= 1.
func Items(device arrowbuf.Device, p *cudabuf.Program, name string, items, perThread int64, args ...any) error {
	return Blocks(device, p, name, items, perThread*Threads, args...)
}

// Blocks queues a kernel each of whose blocks does perBlock items, for items >= 1. More
// than a grid has blocks for are [arrowbuf.ErrOutOfRange].
func Blocks(device arrowbuf.Device, p *cudabuf.Program, name string, items, perBlock int64, args ...any) error {
	blocks := (items-1)/perBlock + 1
	if blocks > math.MaxInt32 {
		return fmt.Errorf("kernel %s: %d items are more than a grid has threads for: %w", name, items, arrowbuf.ErrOutOfRange)
	}
	return Queue(device, p, name, cudabuf.Dim3{X: uint32(blocks)}, cudabuf.Dim3{X: Threads}, args...)
}

// In and InOut are arguments: pointers to a byte of a buffer, for a kernel that reads
// from there on, and for one that writes. Of a buffer that is no CUDA device's the
// launch refuses them.
func In(b arrowbuf.Buffer, offset int64) any {
	if b, ok := b.(*cudabuf.Buffer); ok {
		return cudabuf.In(b, offset)
	}
	return b
}

// InOut is as In has it.
func InOut(b arrowbuf.Buffer, offset int64) any {
	if b, ok := b.(*cudabuf.Buffer); ok {
		return cudabuf.InOut(b, offset)
	}
	return b
}

// StructOf is a struct as an argument, and [Parameters] gives it back to a twin. T has
// C's layout: fields of fixed sizes, each at a multiple of its size.
func StructOf[T any](p *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p))
}

// Parameters is argument i, a struct.
func Parameters[T any](l interface{ Struct(i, n int) []byte }, i int) (p T) {
	copy(StructOf(&p), l.Struct(i, int(unsafe.Sizeof(p))))
	return p
}

// Reached is what a kernel reaches of pointer i, [low, high) from it on.
func Reached(l *cudabuf.HostLaunch, i int, low, high int64) unsafe.Pointer {
	part := l.Memory(uintptr(int64(l.Pointer(i))+low), high-low)
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(part)), -low)
}

// MustAlign ends a twin where a GPU would: at pointer i, or steps from it, that are no
// multiples of the width of what the kernel moves at once.
func MustAlign(l interface{ Pointer(i int) uintptr }, i int, width int64, steps ...int64) {
	MustAlignAt(l, i, 0, width, steps...)
}

// MustAlignAt is MustAlign so many bytes behind the pointer.
func MustAlignAt(l interface{ Pointer(i int) uintptr }, i int, behind, width int64, steps ...int64) {
	all := int64(l.Pointer(i)) + behind
	for _, s := range steps {
		all |= s
	}
	if all&(width-1) != 0 {
		panic(fmt.Sprintf("argument %d at %#x, %d bytes behind it and with steps of %d, is not a multiple of %d", i, l.Pointer(i), behind, steps, width))
	}
}
