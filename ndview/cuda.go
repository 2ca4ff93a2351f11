package ndview

import (
	"embed"
	"fmt"
	"math"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
)

// The kernels, compiled ahead for every GPU since Volta by `make kernels`.
//
//go:embed kernels/images/*.fatbin
var images embed.FS

// kernel is one kernel of an image, and how the CPU does its work.
type kernel struct {
	image, name string
	twin        cudabuf.Twin
}

// loaded are the kernels by device: a module is loaded when one of its kernels
// is first needed, and stays until the process ends.
var loaded sync.Map // loadedKey -> func() (*cudabuf.Kernel, error)

type loadedKey struct {
	device *cudabuf.Device
	name   string
}

func (k *kernel) on(device *cudabuf.Device) (*cudabuf.Kernel, error) {
	load, _ := loaded.LoadOrStore(loadedKey{device, k.name}, sync.OnceValues(func() (*cudabuf.Kernel, error) {
		image, err := images.ReadFile("kernels/images/" + k.image + ".fatbin")
		if err != nil {
			return nil, err
		}
		module, err := device.LoadModule(image, map[string]cudabuf.Twin{k.name: k.twin})
		if err != nil {
			return nil, fmt.Errorf("loading kernel %s: %w", k.name, err)
		}
		return module.Kernel(k.name)
	}))
	return load.(func() (*cudabuf.Kernel, error))()
}

// threads is the size of a block. All kernels here are one-dimensional loops
// over items, of which a block does threads at a time.
const threads = 256

// launch runs the kernel over items, each a thread's work.
func (k *kernel) launch(device arrowbuf.Device, items int64, args ...any) error {
	cuda, ok := device.(*cudabuf.Device)
	if !ok {
		return fmt.Errorf("%s has no kernels: %w", device, arrowbuf.ErrDevice)
	}
	ready, err := k.on(cuda)
	if err != nil {
		return err
	}
	// A grid has at most 2^31-1 blocks; the kernels loop over what is left.
	blocks := min((items+threads-1)/threads, math.MaxInt32)
	return ready.Launch(cudabuf.Dim3{X: uint32(max(blocks, 1))}, cudabuf.Dim3{X: threads}, 0, args...)
}

// address is where an array's first element lies on its device.
func (a *NDBuffer) address() uintptr { return a.buf.Address() + uintptr(a.offset) }

var unpackBitsKernel = kernel{image: "bits", name: "quiver_unpack_bits", twin: func(l *cudabuf.TwinLaunch) {
	offset, n := l.Int64(1), l.Int64(2)
	unpackBits(l.Memory(l.Pointer(4), n), l.Memory(l.Pointer(0), (offset+n+7)/8), offset, l.Uint32(3) != 0)
}}

func launchUnpackBits(a *NDBuffer, bits arrowbuf.Buffer, bitOffset, n int64, invert bool) error {
	if bits.Device() != a.Device() {
		return fmt.Errorf("unpacking bits of %s to %s: %w", bits.Device(), a.Device(), arrowbuf.ErrDevice)
	}
	// The kernel reads 4-byte words. Allocations begin on one, so the word that
	// a slice begins in is there whole.
	skew := bits.Address() % 4
	var flip uint32
	if invert {
		flip = allOnes & math.MaxUint32
	}
	return unpackBitsKernel.launch(a.Device(), (n+15)/16,
		bits.Address()-skew, bitOffset+int64(skew)*8, n, flip, a.address())
}

var fillWhereKernel = kernel{image: "mask", name: "quiver_fill_where", twin: func(l *cudabuf.TwinLaunch) {
	width, n := l.Int64(1), l.Int64(3)
	fillWhere(l.Memory(l.Pointer(0), n*width), l.Memory(l.Pointer(2), n), width, l.Uint64(4))
}}

func launchFillWhere(a, mask *NDBuffer, width int64, pattern uint64) error {
	if mask.Device() != a.Device() {
		return fmt.Errorf("a mask on %s for an array on %s: %w", mask.Device(), a.Device(), arrowbuf.ErrDevice)
	}
	rows := a.shape[0]
	return fillWhereKernel.launch(a.Device(), rows, a.address(), width, mask.address(), rows, pattern)
}

var widenKernel = kernel{image: "cast", name: "quiver_widen_i32_i64", twin: func(l *cudabuf.TwinLaunch) {
	n := l.Int64(1)
	widenInt32(l.Memory(l.Pointer(2), n*8), l.Memory(l.Pointer(0), n*4))
}}

func launchWiden(a, src *NDBuffer) error {
	if src.Device() != a.Device() {
		return fmt.Errorf("widening %s to %s: %w", src.Device(), a.Device(), arrowbuf.ErrDevice)
	}
	return widenKernel.launch(a.Device(), a.Size(), src.address(), a.Size(), a.address())
}

// setBytes sets every byte of a contiguous array on a device.
func setBytes(a *NDBuffer, value byte) error {
	part, err := a.buf.Slice(a.offset, a.NBytes())
	if err != nil {
		return err
	}
	defer part.Release()
	filler, ok := part.(interface{ Fill(byte) error })
	if !ok {
		return fmt.Errorf("%s cannot fill memory: %w", a.Device(), arrowbuf.ErrDevice)
	}
	return filler.Fill(value)
}
