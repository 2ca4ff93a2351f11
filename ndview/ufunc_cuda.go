package ndview

import (
	"slices"
	"sync/atomic"

	"github.com/quiver-gpu/quiver/cudabuf"
	ew "github.com/quiver-gpu/quiver/ndview/internal/cpu/elementwise"
)

// form is how the kernels of kernels/family.cuh come to their operands.
type form byte

const (
	dense form = iota
	rowwise
	nested
	forms
)

// How they come to one of them, as kernels/nest.cuh has it.
const (
	kindScalar = iota
	kindRun
	kindSame
	kindGather
)

// denseLaunch is Dense of kernels/nest.cuh.
type denseLaunch struct {
	elements int64
	op       int32
	kind     [4]int32
	_        int32
	scalar   [3][2]uint64
}

// vector is how many elements of the call's type are a vector.
func (c *call) vector() int64 { return 16 / max(c.kernel.Size(), c.op.Result(c.kernel).Size()) }

// hasDense tells whether the family has a kernel for gapless arrays.
func (f family) hasDense(t ew.Type) bool {
	return f != familyMath || t == ew.Float32 || t == ew.Float64
}

// isDense tells whether the kernels for gapless arrays do the call.
func (c *call) isDense() bool {
	out := c.out
	if !c.family.hasDense(c.kernel) || out.dtype != c.result || !out.IsContiguous() {
		return false
	}
	v := c.vector()
	start := int64(out.buf.Address()) + out.offset
	end := start + out.NBytes()
	if start&(v*out.dtype.Size()-1) != 0 {
		return false
	}
	for i := range c.n {
		a := c.in[i].array
		if a == nil {
			continue
		}
		if c.typeOf(1+i).Bits() != c.op.Operand(i, c.kernel).Bits() || !slices.Equal(a.shape, out.shape) || !a.IsContiguous() {
			return false
		}
		at := int64(a.buf.Address()) + a.offset
		if at&(v*a.dtype.Size()-1) != 0 {
			return false
		}
		if at < end && start < at+a.NBytes() && (at != start || a.dtype.size != out.dtype.size) {
			return false
		}
	}
	return true
}

func (c *call) launchDense(dev *cudabuf.Device) error {
	p := denseLaunch{elements: c.out.Size(), op: int32(c.op)}
	if p.elements == 0 {
		return nil
	}
	p.kind[0] = kindRun
	for i := range c.n {
		if c.in[i].array != nil {
			p.kind[1+i] = kindRun
		} else {
			p.scalar[i] = c.in[i].bits
		}
	}
	vectors := (p.elements-1)/c.vector() + 1
	offset := [4]int64{c.out.offset}
	for i := range c.n {
		if a := c.in[i].array; a != nil {
			offset[1+i] = a.offset
		}
	}
	return c.launch(dev, dense, vectors, &offset, structOf(&p))
}

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
	blocks := (items-1)/threads + 1
	out := c.out.buf.(*cudabuf.Buffer)
	var in [3]cudabuf.Pointer // what the kernel does not read is any
	for i := range in {
		in[i] = cudabuf.In(out, 0)
		if a := c.in[i].array; i < c.n && a != nil {
			in[i] = cudabuf.In(a.buf.(*cudabuf.Buffer), offset[1+i])
		}
	}
	to := cudabuf.InOut(out, offset[0])
	grid, block := cudabuf.Dim3{X: uint32(blocks)}, cudabuf.Dim3{X: threads}
	if c.n < 3 {
		return k.LaunchAsync(stream, grid, block, 0, to, in[0], in[1], parameters)
	}
	return k.LaunchAsync(stream, grid, block, 0, to, in[0], in[1], in[2], parameters)
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
