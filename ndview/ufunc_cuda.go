package ndview

import (
	"math/bits"
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

type denseLaunch struct {
	elements int64
	op       int32
	kind     [4]int32
	_        int32
	scalar   [3][2]uint64
}

const middleAxes = ew.MaxAxes - 2

type nestLaunch struct {
	scalar       [3][2]uint64
	inner, outer [4]int32
	middle       [4][middleAxes]int32
	extent       [middleAxes]uint32
	magic        [middleAxes + 1]uint32
	shift        [middleAxes + 1]uint8
	middles      uint8
	kind         [4]int32
	types        [4]uint8
	row          uint32
	perRow       uint32
	items        uint32
	op           int32
}

// vector is how many elements a thread of the call's kernel takes.
func (c *call) vector() int64 {
	if c.family == familyMath {
		return 1
	}
	return 16 / max(c.kernel.Size(), c.op.Result(c.kernel).Size())
}

// isDense tells whether the kernels for gapless arrays do the call.
func (c *call) isDense() bool {
	out := c.out
	if c.family == familyMath || out.dtype != c.result || !out.IsContiguous() {
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

// launchNest launches one kernel, or several where the nest has more elements or
// larger steps than 31 bits count.
func (c *call) launchNest(dev *cudabuf.Device, n jointNest) error {
	axes := len(n.shape)
	inner, rows := int64(1), int64(1)
	for a, d := range n.shape {
		for o := range 1 + c.n {
			if s := n.strides[o][a]; max(s, -s) > maxStep {
				return c.along(n, a)
			}
		}
		if inner = d; a < axes-1 {
			rows *= d
		}
	}
	v := min(c.vector(), fewElements)
	if inner > maxVectors || rows > maxVectors/((inner-1)/v+1) {
		return c.halves(dev, n)
	}
	if p, ok := c.describe(n, inner, rows, c.vector()); ok {
		return c.launch(dev, rowwise, int64(p.items), &n.offset, structOf(&p))
	}
	p, _ := c.describe(n, inner, rows, v)
	return c.launch(dev, nested, int64(p.items), &n.offset, structOf(&p))
}

// fewElements is how many elements of the form nested are a vector at most.
const fewElements = 4

// describe makes the parameters of a launch that takes vectors of v elements, and
// tells whether it takes whole rows of them, so that the form rowwise does.
func (c *call) describe(n jointNest, inner, rows, v int64) (p nestLaunch, inRows bool) {
	axes := len(n.shape)
	perRow := (inner-1)/v + 1
	p = nestLaunch{op: int32(c.op), row: uint32(inner), perRow: uint32(perRow), items: uint32(rows * perRow)}
	p.magic[middleAxes], p.shift[middleAxes] = divider(p.perRow)
	for k := range max(axes-2, 0) {
		p.extent[k] = uint32(n.shape[axes-2-k])
		p.magic[k], p.shift[k] = divider(p.extent[k])
		p.middles++
	}
	c.place(&p, n, 0, c.out, c.op.Result(c.kernel), v)
	inRows = c.family != familyMath && inner%v == 0 && p.kind[0] == kindRun
	for i := range c.n {
		a := c.in[i].array
		if a == nil {
			p.scalar[i] = c.in[i].bits
			continue
		}
		c.place(&p, n, 1+i, a, c.op.Operand(i, c.kernel), v)
		inRows = inRows && p.kind[1+i] != kindGather
	}
	return p, inRows
}

// place describes an operand, and how the kernel comes to its elements in vectors
// of v.
func (c *call) place(p *nestLaunch, n jointNest, o int, a *NDBuffer, t ew.Type, v int64) {
	own := c.typeOf(o)
	p.types[o] = uint8(own)
	size := a.dtype.Size()
	steps := n.strides[o]
	last := len(steps) - 1
	align := int64(a.buf.Address()) + n.offset[o]
	p.inner[o] = int32(size)
	for k, step := range steps {
		switch {
		case k == last:
			p.inner[o] = int32(step)
			continue
		case k == 0:
			p.outer[o] = int32(step)
		default:
			p.middle[o][last-1-k] = int32(step)
		}
		align |= step
	}
	same := own.Bits() == t.Bits()
	whole := last <= 0 || int64(p.row)%v == 0 // no vector but the last ends within a row
	switch {
	case same && whole && int64(p.inner[o]) == size && align&(v*size-1) == 0:
		p.kind[o] = kindRun
	case same && p.inner[o] == 0 && o > 0:
		p.kind[o] = kindSame
	default:
		p.kind[o] = kindGather
	}
}

// maxVectors is how many a launch has at most, with room for those that the last
// block has no work for, and maxStep what steps along an axis are at most.
var maxVectors, maxStep int64 = 1<<31 - 1 - 2*threads, 1<<31 - 1

// halves launches a nest in two parts, of its longest axis.
func (c *call) halves(dev *cudabuf.Device, n jointNest) error {
	axis := 0
	for a, d := range n.shape {
		if d > n.shape[axis] {
			axis = a
		}
	}
	half := n.shape[axis] / 2
	if half > 1<<20 {
		half &^= 1<<20 - 1 // vectors stay aligned
	}
	first, second := n, n
	first.shape, second.shape = slices.Clone(n.shape), slices.Clone(n.shape)
	first.shape[axis], second.shape[axis] = half, n.shape[axis]-half
	for o := range 1 + c.n {
		second.offset[o] += half * n.strides[o][axis]
	}
	if err := c.launchNest(dev, first); err != nil {
		return err
	}
	return c.launchNest(dev, second)
}

// divider makes n/d of n < 2^31 a product and a shift: (n*magic>>32 + n) >> shift.
func divider(d uint32) (magic uint32, shift uint8) {
	shift = uint8(bits.Len32(d - 1))
	return uint32((uint64(1)<<shift-uint64(d))<<32/uint64(d)) + 1, shift
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
	if f == rowwise && c.twoVectors() {
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

// twoVectors tells whether a thread of the form rowwise takes two: those whose
// result is small, and those that have few elements in a vector.
func (c *call) twoVectors() bool {
	switch c.family {
	case familyCompare:
		return c.kernel.Size() > 1
	case familyArithmetic, familyParts:
		return c.kernel.Size() >= 8
	}
	return false
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
