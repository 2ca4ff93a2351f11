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

// arrays are those of a computation: the result, then the inputs. Scalars are nil.
type arrays [4]*NDBuffer

// retain retains all arrays, or none if there is an error.
func (a *arrays) retain() error {
	for i, x := range a {
		if x == nil {
			continue
		}
		if err := x.TryRetain(); err != nil {
			for _, before := range a[:i] {
				if before != nil {
					before.Release()
				}
			}
			return err
		}
	}
	return nil
}

func (a *arrays) release() {
	for _, x := range a {
		if x != nil {
			x.Release()
		}
	}
}

// newOut returns an uninitialized array for the result.
func (c *computation) newOut(in *operands) (*NDBuffer, error) {
	var shapes [3][]int64
	var dev arrowbuf.Device
	n := 0
	for i := range in.n {
		if x := in.in[i].array; x != nil {
			shapes[n], n = x.shape, n+1
			dev = x.Device()
		}
	}
	shape, err := layout.Broadcast(shapes[:n]...)
	if err != nil {
		return nil, err
	}
	return Empty(dev, c.result, shape...)
}

// run computes into out. A launch keeps the memory of its arrays alive; everything else
// retains the arrays meanwhile.
func (c *computation) run(out *NDBuffer, in *operands) error {
	a := arrays{out}
	for i := range c.n {
		a[1+i] = in.in[c.from[i]].array
	}
	dev, err := c.device(&a)
	if err != nil {
		return err
	}
	if c.convert != ([3]DType{}) {
		copies, err := c.convertTimes(&a)
		defer copies.release()
		if err != nil {
			return err
		}
	}
	cuda, onGPU := arrowbuf.As[*cudabuf.Device](dev)
	contiguous := c.isContiguous(&a)
	if onGPU && contiguous {
		return c.launchContiguous(cuda, &a)
	}
	if err := a.retain(); err != nil {
		return err
	}
	if !onGPU && c.isContiguous(&a) {
		err = c.runContiguous(&a)
	} else {
		err = c.runStrided(&a)
	}
	a.release()
	return err
}

// device returns the device of all arrays. It checks that none is released and that the
// result is writeable.
func (c *computation) device(a *arrays) (arrowbuf.Device, error) {
	out := a[0]
	if err := out.checkWriteable(); err != nil {
		return nil, err
	}
	dev := out.buf.Device()
	for _, x := range a {
		switch {
		case x == nil:
		case x.refs.Load() <= 0:
			return nil, x.released()
		case x.buf.Device() != dev:
			return nil, fmt.Errorf("an array on %s and the result on %s: %w", x.Device(), dev, arrowbuf.ErrDevice)
		}
	}
	return dev, nil
}

// typeOf returns the type of array o as the loops and kernels know it.
func (c *computation) typeOf(a *arrays, o int) ew.Type {
	x := a[o]
	if c.moves && x.dtype == c.result && o != 1 { // not a condition
		return c.compute
	}
	return x.code
}

// checkOut checks that the result may be written to out.
func (c *computation) checkOut(out *NDBuffer) error {
	switch {
	case !CanCast(c.result, out.dtype, CastSameKind):
		return fmt.Errorf("a result of %s does not cast to %s by the rule %v: %w", c.result, out.dtype, CastSameKind, ErrDType)
	case out.run().Overlaps():
		return fmt.Errorf("the elements of the result share memory: %w", ErrShape)
	}
	return nil
}

// jointNest is loops over all arrays of a computation. Extents count elements, strides
// and offsets are bytes. Scalars have strides of 0.
type jointNest struct {
	shape   []int64
	strides [4][]int64
	offset  [4]int64 // in the array's buffer
}

// runStrided computes arrays of any layout and type.
func (c *computation) runStrided(a *arrays) error {
	out := a[0]
	if err := c.checkOut(out); err != nil {
		return err
	}
	strides := [4][]int64{out.strides}
	for o := 1; o <= c.n; o++ {
		if a[o] == nil {
			strides[o] = make([]int64, len(out.shape))
			continue
		}
		var err error
		if strides[o], err = layout.BroadcastStrides(a[o].shape, a[o].strides, out.shape); err != nil {
			return err
		}
	}
	if out.Size() == 0 {
		return nil
	}
	if done, err := c.runThroughCopies(a); done {
		return err
	}
	collapsed := layout.Collapse(out.shape, strides[:1+c.n]...)
	n := jointNest{shape: collapsed.Shape}
	copy(n.strides[:], collapsed.Strides)
	copy(n.offset[:], collapsed.Offsets)
	for o := range 1 + c.n {
		if a[o] != nil {
			n.offset[o] += a[o].offset
		}
	}
	return c.runNest(a, n)
}

// runThroughCopies computes with copies in place of arrays if it must: of an input that
// shares memory with other elements of the result, of arrays that are not aligned, and
// of a result that is cast. done is false if no copy is needed.
func (c *computation) runThroughCopies(a *arrays) (done bool, err error) {
	out, copied := a[0], *a
	var copies arrays
	defer copies.release()
	for o := 1; o <= c.n; o++ {
		x := a[o]
		if x == nil || x.isSizeAligned() && !x.disturbedBy(out) {
			continue
		}
		if copies[o], err = x.inCOrder(); err != nil {
			return true, err
		}
		copied[o], done = copies[o], true
	}
	if out.dtype != c.result || !out.isSizeAligned() {
		if copies[0], err = Empty(out.Device(), c.result, out.shape...); err != nil {
			return true, err
		}
		copied[0], done = copies[0], true
	}
	if !done {
		return false, nil
	}
	if err := c.runStrided(&copied); err != nil || copied[0] == out {
		return true, err
	}
	return true, out.Assign(copied[0])
}

// runNest computes a nest of loops. Kernels and loops take at most ew.MaxAxes axes.
func (c *computation) runNest(a *arrays, n jointNest) error {
	if len(n.shape) > ew.MaxAxes {
		return c.runEachIndex(a, n, 0)
	}
	if cuda, ok := arrowbuf.As[*cudabuf.Device](a[0].Device()); ok {
		return c.launchNest(cuda, a, n)
	}
	return c.runOnHost(a, n)
}

// runEachIndex computes a nest separately for each index of an axis.
func (c *computation) runEachIndex(a *arrays, n jointNest, axis int) error {
	inner := jointNest{shape: slices.Delete(slices.Clone(n.shape), axis, axis+1), offset: n.offset}
	for o := range 1 + c.n {
		inner.strides[o] = slices.Delete(slices.Clone(n.strides[o]), axis, axis+1)
	}
	for range n.shape[axis] {
		if err := c.runNest(a, inner); err != nil {
			return err
		}
		for o := range 1 + c.n {
			inner.offset[o] += n.strides[o][axis]
		}
	}
	return nil
}

// runOnHost computes a nest in host memory.
func (c *computation) runOnHost(a *arrays, n jointNest) error {
	w := ew.Operation{Op: c.op, Type: c.compute, Axes: len(n.shape)}
	copy(w.Shape[:], n.shape)
	return c.runWork(&w, a, &n.offset, func(o int) []int64 { return n.strides[o] })
}

// runContiguous computes contiguous arrays of one shape in host memory.
func (c *computation) runContiguous(a *arrays) error {
	w := ew.Operation{Op: c.op, Type: c.compute, Axes: 1}
	if w.Shape[0] = a[0].Size(); w.Shape[0] == 0 {
		return nil
	}
	var offset [4]int64
	var size [4][1]int64
	for o := range 1 + c.n {
		if x := a[o]; x != nil {
			offset[o], size[o][0] = x.offset, x.dtype.Size()
		}
	}
	return c.runWork(&w, a, &offset, func(o int) []int64 { return size[o][:] })
}

// runWork adds the arrays and scalars to work and runs it. offset is where each array's
// first element is in its buffer.
func (c *computation) runWork(w *ew.Operation, a *arrays, offset *[4]int64, strides func(o int) []int64) error {
	for o := range 1 + c.n {
		to := &w.Out
		if o > 0 {
			to = &w.In[o-1]
		}
		if a[o] == nil {
			*(*[2]uint64)(unsafe.Pointer(&to.Scalar)) = c.scalars[o-1]
			continue
		}
		host, ok := arrowbuf.HostBytes(a[o].buf)
		if !ok {
			return fmt.Errorf("%s has no kernels: %w", a[o].Device(), arrowbuf.ErrDevice)
		}
		to.Type = c.typeOf(a, o)
		to.Base = unsafe.Pointer(&host[offset[o]])
		copy(to.Stride[:], strides(o))
	}
	w.Run()
	return nil
}

// disturbedBy reports whether writing out element by element may change an element of a
// before it is read.
func (a *NDBuffer) disturbedBy(out *NDBuffer) bool {
	return MayShareMemory(a, out) && !(a.sameElements(out) && a.dtype.Size() == out.dtype.Size())
}
