package ndview

import (
	"slices"
	"sync/atomic"

	"github.com/quiver-gpu/quiver/cudabuf"
	ew "github.com/quiver-gpu/quiver/ndview/internal/cpu/elementwise"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
)

// form is how the kernels of kernels/elementwise/forms.cuh come to their operands.
type form byte

const (
	dense form = iota
	rowwise
	nested
	forms
)

// How they come to one of them, as kernels/elementwise/nest.cuh has it.
const (
	kindScalar = iota
	kindRun
	kindSame
	kindGather
)

// denseLaunch is Dense of kernels/elementwise/nest.cuh.
type denseLaunch struct {
	elements int64
	op       int32
	kind     [4]int32
	_        int32
	scalar   [3][2]uint64
}

// hasDense tells whether the family has a kernel for gapless arrays.
func (f family) hasDense(t ew.Type) bool {
	return f != familyMath || t == ew.Float32 || t == ew.Float64
}

// isDense tells whether the kernels for gapless arrays do the call.
func (c *call) isDense() bool {
	out := c.out
	if !out.contiguous || !c.family.hasDense(c.kernel) || out.dtype != c.result {
		return false
	}
	start := int64(out.buf.Address()) + out.offset
	end := start + out.NBytes()
	if start&(c.vector*out.dtype.Size()-1) != 0 {
		return false
	}
	for i := range c.n {
		a := c.in[i].array
		if a == nil {
			continue
		}
		if !a.contiguous || !slices.Equal(a.shape, out.shape) || c.typeOf(1+i).Bits() != c.op.Operand(i, c.kernel).Bits() {
			return false
		}
		at := int64(a.buf.Address()) + a.offset
		if at&(c.vector*a.dtype.Size()-1) != 0 {
			return false
		}
		if at < end && start < at+a.NBytes() && (at != start || a.dtype.size != out.dtype.size) {
			return false
		}
	}
	return true
}

func (c *call) launchDense(dev *cudabuf.Device) error {
	if c.out.size == 0 {
		return nil
	}
	p := denseLaunch{elements: c.out.size, op: int32(c.op)}
	p.kind[0] = kindRun
	offset := [4]int64{c.out.offset}
	for i := range c.n {
		if a := c.in[i].array; a != nil {
			p.kind[1+i] = kindRun
			offset[1+i] = a.offset
		} else {
			p.scalar[i] = c.in[i].bits
		}
	}
	return c.launch(dev, dense, (p.elements-1)/c.vector+1, &offset, launch.StructOf(&p))
}

// familyThreads is the size of a block of kernels/elementwise/forms.cuh.
const familyThreads = 128

// launch queues a kernel of the call.
func (c *call) launch(dev *cudabuf.Device, f form, items int64, offset *[4]int64, parameters []byte) error {
	k, err := c.family.kernel(dev, c.kernel, f)
	if err != nil {
		return err
	}
	stream, err := dev.DefaultStream()
	if err != nil {
		return err
	}
	if c.twoVectors(f) {
		items = (items + 1) / 2
	}
	grid, block := cudabuf.Dim3{X: uint32((items-1)/familyThreads + 1)}, cudabuf.Dim3{X: familyThreads}
	to := cudabuf.InOut(c.out.buf.(*cudabuf.Buffer), offset[0])
	x, y := c.pointer(0, offset), c.pointer(1, offset)
	if c.n < 3 {
		return k.LaunchAsync(stream, grid, block, 0, to, x, y, parameters)
	}
	return k.LaunchAsync(stream, grid, block, 0, to, x, y, c.pointer(2, offset), parameters)
}

// pointer is operand i for a kernel. What it does not read may be any.
func (c *call) pointer(i int, offset *[4]int64) cudabuf.Pointer {
	if a := c.in[i].array; i < c.n && a != nil {
		return cudabuf.In(a.buf.(*cudabuf.Buffer), offset[1+i])
	}
	return cudabuf.In(c.out.buf.(*cudabuf.Buffer), 0)
}

// twoVectors tells whether a thread takes two vectors, as family.cuh has it:
// where the result is small, and in rows of complex numbers.
func (c *call) twoVectors(f form) bool {
	small := c.op.Result(c.kernel).Size() < c.kernel.Size()
	return f != nested && small || f == rowwise && c.n < 3 && c.kernel >= ew.Complex64
}

// kernelSlot remembers a kernel on the devices that have used it.
type kernelSlot [4]atomic.Pointer[loadedKernel]

type loadedKernel struct {
	dev    *cudabuf.Device
	kernel *cudabuf.Kernel
}

func (s *kernelSlot) on(dev *cudabuf.Device, find func() (*cudabuf.Kernel, error)) (*cudabuf.Kernel, error) {
	slot := &s[dev.ID()&int64(len(s)-1)]
	if l := slot.Load(); l != nil && l.dev == dev {
		return l.kernel, nil
	}
	k, err := find()
	if err != nil {
		return nil, err
	}
	slot.Store(&loadedKernel{dev, k})
	return k, nil
}
