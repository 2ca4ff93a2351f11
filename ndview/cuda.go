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
	perThread   int64 // how many items a thread does
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
	key := loadedKey{device, k.name}
	load, _ := loaded.LoadOrStore(key, sync.OnceValues(func() (*cudabuf.Kernel, error) { return k.load(device) }))
	ready, err := load.(func() (*cudabuf.Kernel, error))()
	if err != nil {
		// It may have been for want of memory: the next call tries again.
		loaded.Delete(key)
		return nil, fmt.Errorf("loading kernel %s: %w", k.name, err)
	}
	return ready, nil
}

func (k *kernel) load(device *cudabuf.Device) (*cudabuf.Kernel, error) {
	image, err := images.ReadFile("kernels/images/" + k.image + ".fatbin")
	if err != nil {
		return nil, err
	}
	module, err := device.LoadModule(image, map[string]cudabuf.Twin{k.name: k.twin})
	if err != nil {
		return nil, err
	}
	return module.Kernel(k.name)
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
	ready, err := k.on(cuda)
	if err != nil {
		return err
	}
	return ready.Launch(cudabuf.Dim3{X: uint32(blocks)}, cudabuf.Dim3{X: threads}, 0, args...)
}

// address is where an array's first element lies on its device.
func (a *NDBuffer) address() uintptr { return a.buf.Address() + uintptr(a.offset) }

var unpackBitsKernel = kernel{image: "bits", name: "quiver_unpack_bits", perThread: 64, twin: func(l *cudabuf.TwinLaunch) {
	offset, n := l.Int64(1), l.Int64(2)
	unpackBits(l.Memory(l.Pointer(4), n), l.Memory(l.Pointer(0), (offset+n+7)/8), offset, l.Uint32(3) != 0)
}}

func launchUnpackBits(a *NDBuffer, bits arrowbuf.Buffer, bitOffset int64, invert bool) error {
	// The kernel reads 4-byte words. Allocations begin on one, so the word that
	// a slice begins in is there whole.
	skew := bits.Address() % 4
	var flip uint32
	if invert {
		flip = allOnes & math.MaxUint32
	}
	n := a.Size()
	return unpackBitsKernel.launch(a.Device(), n, bits.Address()-skew, bitOffset+int64(skew)*8, n, flip, a.address())
}

var fillWhereKernel = kernel{image: "mask", name: "quiver_fill_where", perThread: 8, twin: func(l *cudabuf.TwinLaunch) {
	width, n := l.Int64(1), l.Int64(3)
	fillWhere(l.Memory(l.Pointer(0), n*width), l.Memory(l.Pointer(2), n), width, l.Uint64(4))
}}

func launchFillWhere(a, mask *NDBuffer, width int64, pattern uint64) error {
	rows := a.shape[0]
	return fillWhereKernel.launch(a.Device(), rows, a.address(), width, mask.address(), rows, pattern)
}

var widenKernel = kernel{image: "cast", name: "quiver_widen_i32_i64", perThread: 4, twin: func(l *cudabuf.TwinLaunch) {
	n := l.Int64(1)
	widenInt32(l.Memory(l.Pointer(2), n*8), l.Memory(l.Pointer(0), n*4))
}}

func launchWiden(a, src *NDBuffer) error {
	return widenKernel.launch(a.Device(), a.Size(), src.address(), a.Size(), a.address())
}
