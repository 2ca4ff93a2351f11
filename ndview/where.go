package ndview

import (
	"fmt"

	ew "github.com/quiver-gpu/quiver/ndview/internal/cpu/elementwise"
)

var (
	whereOperation = &operation{"where", ew.Where, everything}
	clipOperation  = &operation{"clip", ew.Clip, numbers.bools(ew.Clip)}
	clipBelow      = &operation{"clip", ew.Maximum, Maximum.signature}
	clipAbove      = &operation{"clip", ew.Minimum, Minimum.signature}
	clipNowhere    = &operation{"clip", ew.Positive, numbers.bools(ew.Positive)}
)

// Where takes elements from x where the condition is true, from y where not, as
// numpy.where: the operands are arrays or scalars that broadcast and promote as
// those of a [Binary] do. A condition of another type than bool is true where it
// is not 0. Arrays of one type may be of any with 1, 2, 4, 8 or 16 bytes an
// element. The result is new, in C order.
func Where(condition, x, y any) (*NDBuffer, error) {
	c, done, err := whereCall(condition, x, y)
	if err != nil {
		return nil, err
	}
	defer done()
	return c.of()
}

// WhereInto is [Where] into out, as [Binary.Into].
func WhereInto(out *NDBuffer, condition, x, y any) error {
	c, done, err := whereCall(condition, x, y)
	if err != nil {
		return err
	}
	defer done()
	c.out = out
	return c.into()
}

func whereCall(condition, x, y any) (c call, done func(), err error) {
	c, done = call{operation: whereOperation, n: 3, typed: 1}, func() {}
	if a, ok := condition.(*NDBuffer); ok && a != nil && a.dtype != Bool {
		truth, err := a.truth()
		if err != nil {
			return c, done, fmt.Errorf("where: the condition: %w", err)
		}
		condition, done = truth, truth.Release
	}
	if err = c.take(condition, x, y); err != nil {
		done()
	}
	return c, done, err
}

// truth is where elements are not 0, as a NaT is not.
func (a *NDBuffer) truth() (*NDBuffer, error) {
	if !a.dtype.IsTime() {
		return NotEqual.Of(a, 0)
	}
	counts, err := a.View(Int64)
	if err != nil {
		return nil, err
	}
	defer counts.Release()
	return NotEqual.Of(counts, 0)
}

// resolveChoice decides the types of where.
func (c *call) resolveChoice() (err error) {
	if c.result, err = c.common(false); err != nil {
		return err
	}
	c.op, c.family = c.operation.op, familyWhere
	for i := c.typed; i < c.n && c.result.IsTime(); i++ {
		in := &c.in[i]
		if in.array == nil || in.dtype == c.result {
			continue
		}
		if err := c.toTimes(i, c.result); err != nil {
			return fmt.Errorf("where: operand %d: %w", i+1, err)
		}
		in.dtype = c.result
	}
	c.moves = true
	for i := 1; i < 3; i++ {
		c.moves = c.moves && (c.in[i].array == nil || c.in[i].dtype == c.result)
	}
	if c.compute, _ = c.result.code(); c.moves || c.compute < ew.Float16 {
		switch c.result.size {
		case 1:
			c.compute = ew.Uint8
		case 2:
			c.compute = ew.Uint16
		case 4:
			c.compute = ew.Uint32
		case 8:
			c.compute = ew.Uint64
		case 16:
			c.compute = ew.Complex128
		default:
			return fmt.Errorf("where of %s: %w", c.operands(), ErrDType)
		}
	}
	c.kernel = c.compute
	return c.scalars(c.result)
}

// Clip limits the elements of an array to [low, high], as numpy.clip: the bounds
// are arrays or scalars that broadcast and promote as those of a [Binary] do, or
// nil for none; an integer that the type does not hold limits nothing where it is
// a low one below the type or a high one above. A NaN or NaT in any operand gives
// one. The result is new, in C order.
func Clip(a *NDBuffer, low, high any) (*NDBuffer, error) {
	c, done, err := clipCall(a, low, high)
	if err != nil {
		return nil, err
	}
	defer done()
	return c.of()
}

// ClipInto is [Clip] into out, as [Binary.Into].
func ClipInto(out, a *NDBuffer, low, high any) error {
	c, done, err := clipCall(a, low, high)
	if err != nil {
		return err
	}
	defer done()
	c.out = out
	return c.into()
}

func clipCall(a *NDBuffer, low, high any) (c call, done func(), err error) {
	done = func() {}
	switch {
	case low == nil && high == nil:
		c = call{operation: clipNowhere, n: 1}
		err = c.take(a)
	case high == nil:
		c, err = boundCall(clipBelow, a, low)
	case low == nil:
		c, err = boundCall(clipAbove, a, high)
	default:
		c = call{operation: clipOperation, n: 3}
		if err = c.take(a, low, high); err != nil || !c.ofTimes() && !c.ofComplexes() {
			break
		}
		if !c.ofTimes() { // complex numbers from the first step on
			common, err := c.common(false)
			if err != nil {
				return c, done, err
			}
			if a, err = a.AsType(common, OrderK, CastUnsafe); err != nil {
				return c, done, err
			}
			defer a.Release()
		}
		if c, err = boundCall(clipBelow, a, low); err != nil {
			break
		}
		above, err := c.of()
		if err != nil {
			return c, done, err
		}
		c, err = boundCall(clipAbove, above, high)
		return c, above.Release, err
	}
	return c, done, err
}

// boundCall limits an array on one side.
func boundCall(side *operation, a *NDBuffer, bound any) (call, error) {
	c := call{operation: side, n: 2}
	if err := c.take(a, bound); err != nil {
		return c, err
	}
	if a != nil {
		c.in[1].clamp(a.dtype, side == clipAbove)
	}
	return c, nil
}

func (c *call) ofComplexes() bool {
	for i := range c.n {
		if c.in[i].kind() == KindComplex {
			return true
		}
	}
	return false
}
