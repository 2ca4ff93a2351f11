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
	if err := c.hostOperand(&w.Out, c.out, n, 0); err != nil {
		return err
	}
	for i := range c.n {
		in := &c.in[i]
		if in.array == nil {
			*(*[2]uint64)(unsafe.Pointer(&w.In[i].Scalar)) = in.bits
			continue
		}
		if err := c.hostOperand(&w.In[i], in.array, n, 1+i); err != nil {
			return err
		}
	}
	w.Run()
	return nil
}

func (c *call) hostOperand(to *ew.Operand, a *NDBuffer, n jointNest, i int) error {
	host, ok := arrowbuf.HostBytes(a.buf)
	if !ok {
		return fmt.Errorf("%s has no kernels: %w", a.Device(), arrowbuf.ErrDevice)
	}
	to.Type = c.typeOf(i)
	to.Base = unsafe.Pointer(&host[n.offset[i]])
	copy(to.Stride[:], n.strides[i])
	return nil
}
