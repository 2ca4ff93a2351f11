package ndview

import (
	"math"
	"math/bits"
	"slices"

	"github.com/quiver-gpu/quiver/cudabuf"
	ew "github.com/quiver-gpu/quiver/ndview/internal/cpu/elementwise"
	"github.com/quiver-gpu/quiver/ndview/internal/half"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
)

// nestLaunch is Nest of kernels/elementwise/nest.cuh, which says what the fields are.
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

// middleAxes are those between the outer and the inner one.
const middleAxes = ew.MaxAxes - 2

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
	v := min(c.vector, fewElements)
	if c.family == familyMath {
		v = 1
	}
	if inner > maxVectors || rows > maxVectors/((inner-1)/v+1) {
		return c.halves(dev, n)
	}
	if c.family != familyMath {
		if p, ok := c.describe(n, inner, rows, c.vector); ok {
			return c.launch(dev, rowwise, int64(p.items), &n.offset, launch.StructOf(&p))
		}
	}
	p, _ := c.describe(n, inner, rows, v)
	return c.launch(dev, nested, int64(p.items), &n.offset, launch.StructOf(&p))
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
	inRows = inner%v == 0 && p.kind[0] == kindRun
	for i := range c.n {
		a := c.in[i].array
		if a == nil {
			p.scalar[i] = c.kernelScalar(i)
			continue
		}
		c.place(&p, n, 1+i, a, c.op.Operand(i, c.kernel), v)
		inRows = inRows && p.kind[1+i] != kindGather
	}
	return p, inRows
}

// kernelScalar is the scalar that is operand i, as an element of what the kernel
// computes in: a half that has been rounded already where that is float32.
func (c *call) kernelScalar(i int) [2]uint64 {
	bits := c.in[i].bits
	if c.kernel == c.compute {
		return bits
	}
	f := half.BFloat16ToFloat32(uint16(bits[0]))
	if c.compute == ew.Float16 {
		f = half.Float16ToFloat32(uint16(bits[0]))
	}
	return [2]uint64{uint64(math.Float32bits(f))}
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
var maxVectors, maxStep int64 = 1<<31 - 1 - 2*familyThreads, 1<<31 - 1

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
