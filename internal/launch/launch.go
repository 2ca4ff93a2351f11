// Package launch launches the kernels of package kernels, and decodes their arguments
// for host implementations on the simulated device.
package launch

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/kernels"
)

// Threads is the number of threads per block, unless a kernel needs another.
const Threads = 256

// Program returns the kernels of kernels/NAME.cu, "copy/tiles" for instance. hosts has
// the host implementation of each kernel, by the kernel's name.
func Program(name string, hosts map[string]cudabuf.HostKernel) *cudabuf.Program {
	return &cudabuf.Program{
		ImageFor:    func(major, minor int) ([]byte, error) { return kernels.Image(name, major, minor) },
		HostKernels: hosts,
	}
}

// Queue launches a kernel on the default stream of a device, after all earlier work.
// Later work on the arrays waits for it. It returns [arrowbuf.ErrDevice] if the device
// cannot run kernels.
func Queue(device arrowbuf.Device, p *cudabuf.Program, name string, grid, block cudabuf.Dim3, args ...any) error {
	return QueueShared(device, p, name, grid, block, 0, args...)
}

// SharedMemory returns the number of bytes of shared memory that a block may request
// with QueueShared.
func SharedMemory(device arrowbuf.Device) int64 {
	cuda, ok := arrowbuf.As[*cudabuf.Device](device)
	if !ok {
		return 0
	}
	return cuda.Limits().SharedPerBlockOptin
}

// QueueShared is Queue with dynamic shared memory per block, in bytes. A kernel that
// requests more than the default limit must not have static shared memory.
func QueueShared(device arrowbuf.Device, p *cudabuf.Program, name string, grid, block cudabuf.Dim3, shared uint32, args ...any) error {
	cuda, ok := arrowbuf.As[*cudabuf.Device](device)
	if !ok {
		return fmt.Errorf("launch.Queue: %s cannot run kernels: %w", device, arrowbuf.ErrDevice)
	}
	kernel, err := withShared(cuda, p, name, shared)
	if err != nil {
		return fmt.Errorf("launch.Queue: loading kernel %s: %w", name, err)
	}
	stream, err := cuda.DefaultStream()
	if err != nil {
		return err
	}
	return kernel.LaunchAsync(stream, grid, block, shared, args...)
}

// withShared loads a kernel for launches with dynamic shared memory.
func withShared(cuda *cudabuf.Device, p *cudabuf.Program, name string, shared uint32) (*cudabuf.Kernel, error) {
	kernel, err := cuda.Kernel(p, name)
	if err != nil {
		return nil, err
	}
	if limits := cuda.Limits(); int64(shared) > limits.SharedPerBlock {
		// The maximum, since other launches may need more.
		err = kernel.SetMaxDynamicShared(int(limits.SharedPerBlockOptin))
	}
	return kernel, err
}

// OnStream launches a kernel in the order of a stream, without dynamic shared memory.
func OnStream(s *cudabuf.Stream, p *cudabuf.Program, name string, blocks, threads int64, args ...any) error {
	return OnStreamShared(s, p, name, blocks, threads, 0, args...)
}

// OnStreamShared is OnStream with dynamic shared memory per block, as QueueShared has it.
func OnStreamShared(s *cudabuf.Stream, p *cudabuf.Program, name string, blocks, threads int64, shared uint32, args ...any) error {
	if blocks > math.MaxInt32 {
		return fmt.Errorf("launch.OnStream: kernel %s: %d blocks exceed a grid: %w", name, blocks, arrowbuf.ErrOutOfRange)
	}
	kernel, err := withShared(s.Device(), p, name, shared)
	if err != nil {
		return fmt.Errorf("launch.OnStream: loading kernel %s: %w", name, err)
	}
	return kernel.LaunchAsync(s, cudabuf.Dim3{X: uint32(blocks)}, cudabuf.Dim3{X: uint32(threads)}, shared, args...)
}

// QueueItems launches a kernel with perThread items per thread, for items >= 1.
func QueueItems(device arrowbuf.Device, p *cudabuf.Program, name string, items, perThread int64, args ...any) error {
	return QueueBlocks(device, p, name, items, perThread*Threads, args...)
}

// QueueBlocks launches a kernel with perBlock items per block, for items >= 1. It returns
// [arrowbuf.ErrOutOfRange] if a grid cannot have that many blocks.
func QueueBlocks(device arrowbuf.Device, p *cudabuf.Program, name string, items, perBlock int64, args ...any) error {
	blocks := (items-1)/perBlock + 1
	if blocks > math.MaxInt32 {
		return fmt.Errorf("launch.Blocks: kernel %s: %d items exceed a grid: %w", name, items, arrowbuf.ErrOutOfRange)
	}
	return Queue(device, p, name, cudabuf.Dim3{X: uint32(blocks)}, cudabuf.Dim3{X: Threads}, args...)
}

// CUDABuffer returns the buffer of a CUDA device, which b is or wraps, or nil if b is
// on another device.
func CUDABuffer(b arrowbuf.Buffer) *cudabuf.Buffer {
	found, _ := arrowbuf.As[*cudabuf.Buffer](b)
	return found
}

// In returns a kernel argument that points to a byte of a buffer, which the kernel
// reads from there on. A launch fails if the buffer is not a CUDA device's.
func In(b arrowbuf.Buffer, offset int64) any {
	if b, ok := arrowbuf.As[*cudabuf.Buffer](b); ok {
		return cudabuf.In(b, offset)
	}
	return b
}

// InOut is In for a buffer that the kernel writes, too.
func InOut(b arrowbuf.Buffer, offset int64) any {
	if b, ok := arrowbuf.As[*cudabuf.Buffer](b); ok {
		return cudabuf.InOut(b, offset)
	}
	return b
}

// StructBytes returns the bytes of a struct as a kernel argument. Parameters decodes it in
// a host implementation. T must have C's layout: fields of fixed sizes, each aligned to
// its size.
func StructBytes[T any](p *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p))
}

// Structs returns n values in memory at pointer argument i of a host kernel.
func Structs[T any](l *cudabuf.HostLaunch, i int, n int64) []T {
	memory := l.Memory(l.Pointer(i), n*int64(unsafe.Sizeof(*new(T))))
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(memory))), n)
}

// StructArg decodes argument i, a struct.
func StructArg[T any](l interface{ Struct(i, n int) []byte }, i int) (p T) {
	copy(StructBytes(&p), l.Struct(i, int(unsafe.Sizeof(p))))
	return p
}

// PointerArg returns pointer argument i, after checking that the launch may access bytes
// [low, high) relative to it.
func PointerArg(l *cudabuf.HostLaunch, i int, low, high int64) unsafe.Pointer {
	part := l.Memory(uintptr(int64(l.Pointer(i))+low), high-low)
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(part)), -low)
}

// MustAlign panics where a GPU would report a misaligned address: if pointer argument
// i, or a step from it, is not a multiple of width.
func MustAlign(l interface{ Pointer(i int) uintptr }, i int, width int64, steps ...int64) {
	MustAlignAt(l, i, 0, width, steps...)
}

// MustAlignAt is MustAlign for the address that is behind bytes after the pointer.
func MustAlignAt(l interface{ Pointer(i int) uintptr }, i int, behind, width int64, steps ...int64) {
	all := int64(l.Pointer(i)) + behind
	for _, s := range steps {
		all |= s
	}
	if all&(width-1) != 0 {
		panic(fmt.Sprintf("argument %d at %#x plus %d bytes, with steps %d, is not a multiple of %d", i, l.Pointer(i), behind, steps, width))
	}
}
