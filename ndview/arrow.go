package ndview

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// FromArrow looks at an Arrow column, on the host or a device, as an array. It
// takes numbers, dates, times, durations and booleans, fixed_size_binary,
// decimals of 32 and 64 bits as their unscaled integers, fixed_size_lists of all
// these to any depth, and extension types over them, as what they are stored as.
// The lengths of lists become axes: a list of 3 lists of 4 float32 has the shape
// [rows, 3, 4]. The rows of an arrow.fixed_shape_tensor have the axes of the
// tensor, in the order that its permutation says. Nothing is copied but
// booleans, which Arrow keeps as bits and an array as bytes. Another type is
// ErrDType.
//
// Timestamps and durations become datetime64 and timedelta64, date64
// datetime64[ms]; date32, time32 and time64 keep their integers, which have no
// NumPy type of that width or meaning. A column with nulls among the elements
// that it shows, or in the lists around them, is ErrNulls: an array has no
// place for them ([FromArrowMasked] does). A column whose children or buffers
// are too small for its length is arrowbuf.ErrOutOfRange.
func FromArrow(column arrow.Array) (*NDBuffer, error) {
	if column == nil {
		return nil, fmt.Errorf("no column: %w", ErrDType)
	}
	a, err := fromArrow(column)
	if err != nil {
		return nil, fmt.Errorf("column of type %s: %w", column.DataType(), err)
	}
	return a, nil
}

func fromArrow(column arrow.Array) (*NDBuffer, error) {
	c, err := walk(column)
	if err != nil {
		return nil, err
	}
	for _, level := range c.levels {
		if missing, err := level.missing(); err != nil {
			return nil, err
		} else if missing > 0 {
			return nil, fmt.Errorf("%d of %d elements are missing: %w", missing, level.n, ErrNulls)
		}
	}
	return c.values()
}

// nest is what a column shows: elements of the innermost array, and the lists
// around them.
type nest struct {
	device arrowbuf.Device
	levels []level // outermost first; the last has the elements
	dtype  DType
	shape  []int64 // of the elements as they lie in memory, in C order
	order  []int   // the axis of shape that each axis of the array is
}

// level is elements [first, first+n) of an array's buffers, which may be fewer
// than the array has.
type level struct {
	data     arrow.ArrayData
	first, n int64
}

func walk(column arrow.Array) (*nest, error) {
	data, t := column.Data(), column.DataType()
	c := &nest{device: arrowbuf.DeviceOf(column), shape: []int64{int64(column.Len())}, order: []int{0}}
	first := int64(data.Offset())
	for {
		n, err := byteCount(Uint8, c.shape)
		if err != nil {
			return nil, err
		}
		if end := int64(data.Offset()) + int64(data.Len()); first < 0 || n > end-first {
			return nil, fmt.Errorf("elements [%d, %d+%d) of %d: %w", first, first, n, end, arrowbuf.ErrOutOfRange)
		}
		c.levels = append(c.levels, level{data, first, n})
		storage, shape, order, err := storageOf(t)
		if err != nil {
			return nil, err
		}
		list, ok := storage.(*arrow.FixedSizeListType)
		if !ok {
			c.dtype, err = ParseArrow(storage)
			return c, err
		}
		if len(data.Children()) != 1 {
			return nil, fmt.Errorf("a fixed_size_list with %d children: %w", len(data.Children()), arrow.ErrInvalid)
		}
		data = data.Children()[0]
		first = first*int64(list.Len()) + int64(data.Offset())
		if shape == nil {
			shape, order = []int64{int64(list.Len())}, []int{0}
		}
		for _, axis := range order {
			c.order = append(c.order, len(c.shape)+axis)
		}
		c.shape = append(c.shape, shape...)
		t = list.Elem()
	}
}

// values looks at the elements.
func (c *nest) values() (*NDBuffer, error) {
	leaf := c.levels[len(c.levels)-1]
	buf, err := valuesOf(leaf.data, c.device)
	if err != nil {
		return nil, err
	}
	defer buf.Release()
	first := leaf.first
	if leaf.n == 0 {
		first = 0
	}
	if c.dtype == Bool {
		return c.ordered(fromBits(buf, first, c.shape))
	}
	return c.ordered(FromBuffer(buf, c.dtype, first*c.dtype.Size(), c.shape, nil))
}

// ordered gives an array that lies as the elements do the column's axes.
func (c *nest) ordered(a *NDBuffer, err error) (*NDBuffer, error) {
	if err != nil || slices.IsSorted(c.order) {
		return a, err
	}
	defer a.Release()
	return a.Transpose(c.order...)
}

// storageOf is the type whose layout an array has. The lists of a tensor have
// several axes, whose order in the array may be another.
func storageOf(t arrow.DataType) (storage arrow.DataType, shape []int64, order []int, err error) {
	for {
		ext, ok := t.(arrow.ExtensionType)
		if !ok {
			return t, shape, order, nil
		}
		t = ext.StorageType()
		if ext.ExtensionName() == tensorName {
			tensor, err := parseTensor(ext.Serialize(), t)
			if err != nil {
				return nil, nil, nil, err
			}
			shape, order = tensor.Shape, tensor.order()
		}
	}
}

func fromBits(bits arrowbuf.Buffer, first int64, shape []int64) (*NDBuffer, error) {
	// Before there is memory for bits that there are not.
	if err := arrowbuf.CheckRange(first/8, (first%8+product(shape)+7)/8, bits.Len()); err != nil {
		return nil, err
	}
	a, err := Empty(bits.Device(), Bool, shape...)
	if err != nil {
		return nil, err
	}
	if err := a.UnpackBits(bits, first, false); err != nil {
		a.Release()
		return nil, err
	}
	return a, nil
}

// valuesOf is the second buffer of an array. One without elements may lack it.
func valuesOf(data arrow.ArrayData, dev arrowbuf.Device) (arrowbuf.Buffer, error) {
	if len(data.Buffers()) < 2 || data.Buffers()[1] == nil {
		return dev.Alloc(0)
	}
	return arrowbuf.BufferOf(data.Buffers()[1])
}
