package ndview

import (
	"fmt"
)

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
	return MayShareMemory(a, out) && !(a.liesAs(out) && a.dtype.size == out.dtype.size)
}
