package ndview

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/kernels"
)

// program is the kernels of kernels/NAME.cu. A twin does the work of the kernel
// of its name on the soft device.
func program(name string, twins map[string]cudabuf.Twin) *cudabuf.Program {
	return &cudabuf.Program{
		ImageFor: func(major, minor int) ([]byte, error) { return kernels.Image(name, major, minor) },
		Twins:    twins,
	}
}

// threads is the size of a block, unless a kernel has reason for another.
const threads = 256

// launch queues a kernel on the default stream of a device. What uses the
// arrays later waits for it.
func launch(device arrowbuf.Device, p *cudabuf.Program, name string, grid, block cudabuf.Dim3, args ...any) error {
	return launchShared(device, p, name, grid, block, 0, args...)
}

// sharedMemory is how many bytes of shared memory a block of launchShared may have.
func sharedMemory(device arrowbuf.Device) int64 {
	cuda, ok := device.(*cudabuf.Device)
	if !ok {
		return 0
	}
	return cuda.Limits().SharedPerBlockOptin
}

// launchShared queues one of which each block has so many bytes of shared memory
// beside what the kernel itself takes, which is none where they are more than any
// kernel may have without asking.
func launchShared(device arrowbuf.Device, p *cudabuf.Program, name string, grid, block cudabuf.Dim3, shared uint32, args ...any) error {
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

// allocate takes memory that the default stream of a GPU uses first: what earlier
// work of that stream still uses is good enough, so that results which come and
// go take no more from the driver. Any other stream's first use waits for that
// work; memory for what the host sends at once had better be the device's Alloc.
func allocate(device arrowbuf.Device, n int64) (arrowbuf.Buffer, error) {
	cuda, ok := device.(*cudabuf.Device)
	if !ok {
		return device.Alloc(n)
	}
	stream, err := cuda.DefaultStream()
	if err != nil {
		return nil, err
	}
	b, err := cuda.Pool().AllocOn(n, stream)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// launchItems launches a kernel whose threads do perThread items each, one
// after the other, for items >= 1.
func launchItems(device arrowbuf.Device, p *cudabuf.Program, name string, items, perThread int64, args ...any) error {
	blocks := (items-1)/(perThread*threads) + 1
	if blocks > math.MaxInt32 {
		return fmt.Errorf("kernel %s: %d items are more than a grid has threads for: %w", name, items, ErrShape)
	}
	return launch(device, p, name, cudabuf.Dim3{X: uint32(blocks)}, cudabuf.Dim3{X: threads}, args...)
}

// structOf is a struct as an argument of a launch, and parameters gives it back
// to a twin. T has C's layout: fields of fixed sizes, each at a multiple of its
// size.
func structOf[T any](p *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p))
}

func parameters[T any](l *cudabuf.TwinLaunch, i int) (p T) {
	copy(structOf(&p), l.Struct(i, int(unsafe.Sizeof(p))))
	return p
}

// in and inOut are arguments of a launch: pointers to an array's first element,
// for a kernel that reads it and for one that writes it.
func (a *NDBuffer) in() any { return in(a.buf, a.offset) }

func (a *NDBuffer) inOut() any { return inOut(a.buf, a.offset) }

func in(b arrowbuf.Buffer, offset int64) any {
	if b, ok := b.(*cudabuf.Buffer); ok {
		return cudabuf.In(b, offset)
	}
	return b
}
