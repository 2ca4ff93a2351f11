package ndview

import (
	"fmt"

	"github.com/quiver-gpu/quiver/ndview/internal/cpu/elementwise"
)

// Unary is an operation on the elements of one array, such as [Sqrt], with the
// results of NumPy's function of that name.
type Unary struct{ *operation }

// Binary is an operation on the elements of two arrays, such as [Add], with the
// results of NumPy's function of that name.
//
// Operands are arrays or what [ScalarOf] takes: at least one is an *NDBuffer.
// Shapes broadcast, and types are promoted as by NumPy 2: a Go bool,
// int, float64 or complex128 takes the type of the array beside it where that is
// of its kind, every other Go number counts as an array of its type would.
type Binary struct{ *operation }

var errNoOperation = fmt.Errorf("no operation, but the zero Unary or Binary: %w", ErrDType)

// operation is what an operation is made of. What depends on the types is in
// signature.
type operation struct {
	name string
	op   elementwise.Op
	signature
}

// String is NumPy's name of the operation.
func (o *operation) String() string { return o.name }

// Of computes a new array, in C order, on the device of x.
func (u Unary) Of(x *NDBuffer) (*NDBuffer, error) {
	c := call{operation: u.operation, n: 1}
	c.in[0].array = x
	return c.of()
}

// Into computes into out, which has the shape of x or one that x broadcasts to,
// and a type to which the result casts within its kind ([CastSameKind]), and may
// share memory with x. On a CUDA device the work is queued on the default stream.
func (u Unary) Into(out, x *NDBuffer) error {
	c := call{operation: u.operation, n: 1, out: out}
	c.in[0].array = x
	return c.into()
}

// Of computes a new array, in C order, of the shape that x and y broadcast to,
// on their device.
func (b Binary) Of(x, y any) (*NDBuffer, error) {
	c := call{operation: b.operation, n: 2}
	if err := c.take(x, y); err != nil {
		return nil, err
	}
	return c.of()
}

// Into computes into out, to whose shape x and y broadcast. Its type is one to
// which the result casts within its kind ([CastSameKind]); it may share memory
// with x and y, whose elements count as they were before. On a CUDA device the
// work is queued on the default stream.
func (b Binary) Into(out *NDBuffer, x, y any) error {
	c := call{operation: b.operation, n: 2, out: out}
	if err := c.take(x, y); err != nil {
		return err
	}
	return c.into()
}

// take tells arrays from scalars.
func (c *call) take(operands ...any) error {
	if c.operation == nil {
		return errNoOperation
	}
	arrays := 0
	for i, v := range operands {
		if a, ok := v.(*NDBuffer); ok && a != nil {
			c.in[i].array = a
			arrays++
			continue
		}
		s, err := ScalarOf(v)
		if err != nil {
			return fmt.Errorf("%s: operand %d: %w", c.name, i+1, err)
		}
		c.in[i].scalar = s
	}
	if arrays == 0 {
		return fmt.Errorf("%s of scalars alone, one operand must be an array: %w", c.name, ErrDType)
	}
	return nil
}
