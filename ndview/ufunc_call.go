package ndview

import (
	"fmt"

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

	byFloats bool  // throughFloats computes the result
	unit     DType // in which timedeltas are made floats
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
	if c.byFloats {
		return c.throughFloats()
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
	switch {
	case err != nil:
	case c.byFloats:
		err = c.floatsInto()
	default:
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
