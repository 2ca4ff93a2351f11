package ndview

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// FromArrowMasked is FromArrow for a column in which elements may be missing.
// The mask has the shape of the values and is true where an element is missing,
// be it itself, or a list around it, or its row; what the values hold there is
// what the column's producer left. The mask is nil where nothing is missing. The
// caller releases both.
func FromArrowMasked(column arrow.Array) (values, mask *NDBuffer, err error) {
	values, mask, err = fromArrowMasked(column)
	if err != nil {
		return nil, nil, fmt.Errorf("column of type %s: %w", column.DataType(), err)
	}
	return values, mask, nil
}

func fromArrowMasked(column arrow.Array) (_, mask *NDBuffer, err error) {
	c, err := walk(column)
	if err != nil {
		return nil, nil, err
	}
	if mask, err = c.mask(); err != nil {
		return nil, nil, err
	}
	values, err := c.values()
	if err != nil && mask != nil {
		mask.Release()
	}
	return values, mask, err
}

// mask is nil where no element is missing.
func (c *nest) mask() (*NDBuffer, error) {
	var mask *NDBuffer // as the elements lie
	for _, level := range c.levels {
		missing, err := level.missing()
		if err == nil && missing > 0 {
			if mask == nil {
				mask, err = noneMissing(c.device, c.shape)
			}
			if err == nil {
				err = level.mark(mask)
			}
		}
		if err != nil {
			if mask != nil {
				mask.Release()
			}
			return nil, err
		}
	}
	if mask == nil {
		return nil, nil
	}
	return c.ordered(mask, nil)
}

func noneMissing(dev arrowbuf.Device, shape []int64) (*NDBuffer, error) {
	mask, err := Empty(dev, Bool, shape...)
	if err != nil {
		return nil, err
	}
	if err := mask.Zero(); err != nil {
		mask.Release()
		return nil, err
	}
	return mask, nil
}

// mark sets the elements of the missing lists, or the missing elements
// themselves.
func (l level) mark(mask *NDBuffer) error {
	missing, err := Empty(mask.Device(), Bool, l.n)
	if err != nil {
		return err
	}
	defer missing.Release()
	bits, err := arrowbuf.BufferOf(l.data.Buffers()[0])
	if err != nil {
		return err
	}
	defer bits.Release()
	if err := missing.UnpackBits(bits, l.first, true); err != nil {
		return fmt.Errorf("validity bitmap: %w", err)
	}
	if mask.Size() == 0 {
		return nil
	}
	byElement, err := mask.Reshape(l.n, mask.Size()/l.n)
	if err != nil {
		return err
	}
	defer byElement.Release()
	const allTrue = 0x0101010101010101
	return byElement.FillWhere(missing, allTrue)
}

// missing counts the nulls among the elements.
func (l level) missing() (int64, error) {
	nulls := int64(l.data.NullN())
	if nulls == 0 || l.n == 0 || len(l.data.Buffers()) == 0 || l.data.Buffers()[0] == nil || l.data.Buffers()[0].Len() == 0 {
		return 0, nil
	}
	bitmap, err := arrowbuf.BufferOf(l.data.Buffers()[0])
	if err != nil {
		return 0, err
	}
	defer bitmap.Release()
	shown, err := bitmap.Slice(l.first/8, bitutil.BytesForBits(l.first%8+l.n))
	if err != nil {
		return 0, fmt.Errorf("validity bitmap: %w", err)
	}
	defer shown.Release()
	if nulls > 0 && l.first == int64(l.data.Offset()) && l.n == int64(l.data.Len()) {
		return nulls, nil
	}
	bits := make([]byte, shown.Len())
	if _, err := shown.CopyToHost(bits, 0); err != nil {
		return 0, fmt.Errorf("validity bitmap: %w", err)
	}
	return l.n - int64(bitutil.CountSetBits(bits, int(l.first%8), int(l.n))), nil
}
