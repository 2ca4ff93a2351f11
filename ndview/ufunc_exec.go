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

// call is one use of an operation. It lives on the stack of the caller: a small
// operation on a GPU costs little more than the launch.
type call struct {
	*operation
	n     int // operands
	typed int // the first that is promoted with the others
	in    [3]input
	out   *NDBuffer

	// What resolve decides.
	op      ew.Op
	compute ew.Type
	result  DType
	family  family
	kernel  ew.Type      // whose kernel computes
	moves   bool         // elements are moved as they are, as integers of their size
	vector  int64        // elements of the type of the kernel that are 16 bytes
	made    [3]*NDBuffer // operands in other units of time, which the call releases
}

// input is an operand: an array or a scalar.
type input struct {
	array  *NDBuffer
	scalar Scalar
	dtype  DType     // that of the array, or what the scalar counts as
	bits   [2]uint64 // of the scalar, as what is computed in
}

// of makes the array that the call computes.
func (c *call) of() (*NDBuffer, error) {
	defer c.discard()
	if err := c.resolve(); err != nil {
		return nil, err
	}
	var shapes [3][]int64
	var dev arrowbuf.Device
	arrays := 0
	for i := range c.n {
		if a := c.in[i].array; a != nil {
			shapes[arrays] = a.shape
			arrays++
			dev = a.Device()
		}
	}
	shape, err := layout.Broadcast(shapes[:arrays]...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	if c.out, err = Empty(dev, c.result, shape...); err != nil {
		return nil, err
	}
	if err := c.run(); err != nil {
		c.out.Release()
		return nil, err
	}
	return c.out, nil
}

// into computes into the call's out.
func (c *call) into() error {
	err := c.resolve()
	if err == nil {
		err = c.run()
	}
	c.discard()
	return err
}

// run computes, in memory that stays there meanwhile: a launch sees to that, what
// may take several steps holds the arrays.
func (c *call) run() error {
	dev, err := c.device()
	if err != nil {
		return err
	}
	c.vector = vectorOf(c.op, c.kernel)
	cuda, onGPU := dev.(*cudabuf.Device)
	dense := c.isDense()
	if onGPU && dense {
		return c.launchDense(cuda)
	}
	held, err := 0, c.out.hold()
	if err != nil {
		return err
	}
	for ; held < c.n && err == nil; held++ {
		if a := c.in[held].array; a != nil {
			err = a.hold()
		}
	}
	switch {
	case err != nil:
		held--
	case dense:
		err = c.denseOnHost()
	default:
		err = c.walk()
	}
	for i := range held {
		if a := c.in[i].array; a != nil {
			a.Release()
		}
	}
	c.out.Release()
	return err
}

// device is where all arrays are, none of which was released before, and of which
// out may be written to.
func (c *call) device() (arrowbuf.Device, error) {
	if err := c.out.checkWriteable(); err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	if c.out.refs.Load() <= 0 {
		return nil, c.out.released()
	}
	dev := c.out.buf.Device()
	for i := range c.n {
		a := c.in[i].array
		switch {
		case a == nil:
		case a.refs.Load() <= 0:
			return nil, a.released()
		case a.buf.Device() != dev:
			return nil, fmt.Errorf("%s of an array on %s into one on %s: %w", c.name, a.Device(), dev, arrowbuf.ErrDevice)
		}
	}
	return dev, nil
}

// typeOf is the type of operand o as computations know it: 0 is out.
func (c *call) typeOf(o int) ew.Type {
	a := c.out
	if o > 0 {
		a = c.in[o-1].array
	}
	if c.moves && a.dtype == c.result && (o == 0 || o > c.typed) { // not a condition
		return c.compute
	}
	return a.code
}

func (c *call) discard() {
	for _, a := range c.made {
		if a != nil {
			a.Release()
		}
	}
}

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

// apart does the call by way of copies, where an operand shares memory with out
// that is not the same element of it, where elements do not lie at multiples of
// their size, and where the result is cast. It answers false where there is no
// need.
func (c *call) apart() (done bool, err error) {
	plain := *c
	var copies [4]*NDBuffer
	defer func() {
		for _, a := range copies {
			if a != nil {
				a.Release()
			}
		}
	}()
	for i := range c.n {
		a := c.in[i].array
		if a == nil || a.aligned() && !a.disturbedBy(c.out) {
			continue
		}
		if copies[i], err = a.inCOrder(); err != nil {
			return true, err
		}
		plain.in[i].array, done = copies[i], true
	}
	if c.out.dtype != c.result || !c.out.aligned() {
		if copies[3], err = Empty(c.out.Device(), c.result, c.out.shape...); err != nil {
			return true, err
		}
		plain.out, done = copies[3], true
	}
	if !done {
		return false, nil
	}
	if err := plain.walk(); err != nil || plain.out == c.out {
		return true, err
	}
	return true, c.out.Assign(plain.out)
}

// checkOut tells whether the result may be written to out.
func (c *call) checkOut() error {
	switch {
	case !CanCast(c.result, c.out.dtype, CastSameKind):
		return fmt.Errorf("%s gives %s, which is not cast to %s by the rule %v: %w", c.name, c.result, c.out.dtype, CastSameKind, ErrDType)
	case c.out.run().Overlaps():
		return fmt.Errorf("%s into an array whose elements share memory: %w", c.name, ErrShape)
	}
	return nil
}

// aligned tells whether all elements lie at multiples of their size.
func (a *NDBuffer) aligned() bool {
	places := int64(a.buf.Address()) + a.offset
	for _, s := range a.strides {
		places |= s
	}
	return places&(a.dtype.Size()-1) == 0
}

// disturbedBy tells whether writing out, element by element, may change an
// element of a before it is read.
func (a *NDBuffer) disturbedBy(out *NDBuffer) bool {
	return MayShareMemory(a, out) && !(a.liesAs(out) && a.dtype.Size() == out.dtype.Size())
}

// liesAs reports whether each element of a lies at the address of the element of b with
// the same index.
func (a *NDBuffer) liesAs(b *NDBuffer) bool {
	return int64(a.buf.Address())+a.offset == int64(b.buf.Address())+b.offset &&
		slices.Equal(a.shape, b.shape) && slices.Equal(a.strides, b.strides)
}
