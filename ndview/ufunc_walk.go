package ndview

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	ew "github.com/quiver-gpu/quiver/ndview/internal/cpu/elementwise"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// jointNest is the call's arrays as loops walk them together: out, then the operands,
// of which scalars stand still. Extents count elements, the rest is bytes.
type jointNest struct {
	shape   []int64
	strides [4][]int64
	offset  [4]int64 // in the array's buffer
}

// walk is work on arrays of any layout and type.
func (c *call) walk() error {
	if err := c.checkOut(); err != nil {
		return err
	}
	strides := [4][]int64{c.out.strides}
	for i := range c.n {
		a := c.in[i].array
		if a == nil {
			strides[1+i] = make([]int64, len(c.out.shape))
			continue
		}
		var err error
		if strides[1+i], err = layout.Stretch(a.shape, a.strides, c.out.shape); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	if c.out.Size() == 0 {
		return nil
	}
	if done, err := c.apart(); done {
		return err
	}
	joint := layout.Collapse(c.out.shape, strides[:1+c.n]...)
	n := jointNest{shape: joint.Shape}
	copy(n.strides[:], joint.Strides)
	copy(n.offset[:], joint.Offsets)
	n.offset[0] += c.out.offset
	for i := range c.n {
		if a := c.in[i].array; a != nil {
			n.offset[1+i] += a.offset
		}
	}
	return c.cut(n)
}

// cut goes over the outer axes of a nest that has too many.
func (c *call) cut(n jointNest) error {
	if len(n.shape) > ew.MaxAxes {
		return c.along(n, 0)
	}
	if cuda, ok := c.out.Device().(*cudabuf.Device); ok {
		return c.launchNest(cuda, n)
	}
	return c.onHost(n)
}

// along goes over one axis of a nest.
func (c *call) along(n jointNest, axis int) error {
	inner := jointNest{shape: slices.Delete(slices.Clone(n.shape), axis, axis+1), offset: n.offset}
	for o := range 1 + c.n {
		inner.strides[o] = slices.Delete(slices.Clone(n.strides[o]), axis, axis+1)
	}
	for range n.shape[axis] {
		if err := c.cut(inner); err != nil {
			return err
		}
		for o := range 1 + c.n {
			inner.offset[o] += n.strides[o][axis]
		}
	}
	return nil
}

// onHost computes where the elements are in host memory.
func (c *call) onHost(n jointNest) error {
	w := ew.Work{Op: c.op, Type: c.compute, Axes: len(n.shape)}
	copy(w.Shape[:], n.shape)
	return c.runOnHost(&w, &n.offset, func(o int) []int64 { return n.strides[o] })
}

// denseOnHost is onHost for arrays of one shape without gaps.
func (c *call) denseOnHost() error {
	w := ew.Work{Op: c.op, Type: c.compute, Axes: 1}
	if w.Shape[0] = c.out.Size(); w.Shape[0] == 0 {
		return nil
	}
	var offset [4]int64
	var size [4][1]int64
	for o := range 1 + c.n {
		if a := c.operand(o); a != nil {
			offset[o], size[o][0] = a.offset, a.dtype.Size()
		}
	}
	return c.runOnHost(&w, &offset, func(o int) []int64 { return size[o][:] })
}

// runOnHost adds the operands to work, whose first elements are at offsets in their
// buffers, and does it.
func (c *call) runOnHost(w *ew.Work, offset *[4]int64, strides func(o int) []int64) error {
	for o := range 1 + c.n {
		to := &w.Out
		if o > 0 {
			to = &w.In[o-1]
		}
		a := c.operand(o)
		if a == nil {
			*(*[2]uint64)(unsafe.Pointer(&to.Scalar)) = c.in[o-1].bits
			continue
		}
		host, ok := arrowbuf.HostBytes(a.buf)
		if !ok {
			return fmt.Errorf("%s has no kernels: %w", a.Device(), arrowbuf.ErrDevice)
		}
		to.Type = c.typeOf(o)
		to.Base = unsafe.Pointer(&host[offset[o]])
		copy(to.Stride[:], strides(o))
	}
	w.Run()
	return nil
}

// operand is out, then the operands' arrays; nil is a scalar.
func (c *call) operand(o int) *NDBuffer {
	if o == 0 {
		return c.out
	}
	return c.in[o-1].array
}
