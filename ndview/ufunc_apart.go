package ndview

import (
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// apart does the call by way of copies, where an operand shares memory with out
// that is not the same element of it, and where elements do not lie at multiples
// of their size. It answers false where there is no need.
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
		if copies[i], err = a.gapless(); err != nil {
			return true, err
		}
		plain.in[i].array, done = copies[i], true
	}
	if !c.out.aligned() {
		if copies[3], err = Empty(c.out.Device(), c.out.dtype, c.out.shape...); err != nil {
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
	return true, c.out.fromBytes(plain.out)
}

// aligned tells whether all elements lie at multiples of their size.
func (a *NDBuffer) aligned() bool {
	bits := int64(a.buf.Address()) + a.offset
	for _, s := range a.strides {
		bits |= s
	}
	return bits&(a.dtype.Size()-1) == 0
}

// disturbedBy tells whether writing out, element by element, may change an
// element of a before it is read.
func (a *NDBuffer) disturbedBy(out *NDBuffer) bool {
	low, high, _ := layout.Extent(a.dtype.Size(), a.offset, a.shape, a.strides)
	outLow, outHigh, _ := layout.Extent(out.dtype.Size(), out.offset, out.shape, out.strides)
	address, outAddress := int64(a.buf.Address()), int64(out.buf.Address())
	if address+high <= outAddress+outLow || outAddress+outHigh <= address+low {
		return false
	}
	same := address+a.offset == outAddress+out.offset && a.dtype.size == out.dtype.size
	strides, err := layout.Stretch(a.shape, a.strides, out.shape)
	if err != nil {
		return true
	}
	for i, d := range out.shape {
		same = same && (d == 1 || strides[i] == out.strides[i])
	}
	return !same
}

// gapless is a copy of a in C order.
func (a *NDBuffer) gapless() (*NDBuffer, error) {
	to, err := Empty(a.Device(), a.dtype, a.shape...)
	if err != nil {
		return nil, err
	}
	if err := to.fromBytes(a); err != nil {
		to.Release()
		return nil, err
	}
	return to, nil
}

// fromBytes copies the elements of an array of the same shape and type, byte for
// byte, so that no address matters.
func (a *NDBuffer) fromBytes(from *NDBuffer) error {
	c := call{operation: Positive.operation, n: 1, out: a.asBytes()}
	c.in[0].array = from.asBytes()
	return c.into()
}

// asBytes looks at the array with a last axis of the bytes of each element. It
// does not hold the buffer.
func (a *NDBuffer) asBytes() *NDBuffer {
	n := len(a.shape)
	return over(a.buf, Uint8, a.offset, append(a.shape[:n:n], a.dtype.Size()), append(a.strides[:n:n], 1))
}
