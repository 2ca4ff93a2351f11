package ndview

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// ArrowOptions says how ToArrow makes a column. The zero value says: nothing is
// missing, and rows of several elements are tensors.
type ArrowOptions struct {
	// Mask is true where an element is missing: an array of bool of the shape
	// of the values, on their device.
	Mask *NDBuffer
	// Lists makes nested fixed_size_lists of the axes after the first, in place
	// of an arrow.fixed_shape_tensor.
	Lists bool
	// DimNames are the names of the axes after the first, which a tensor keeps.
	DimNames []string
}

// ToArrow makes a column of an array: a row for each element of its first axis.
// The column shares the array's memory where the elements lie in C order, or the
// tensors' axes can be named in the order that they lie in; else, and for bool,
// which Arrow keeps as bits, it is a copy on the same device. The caller owns
// one reference to it.
//
// datetime64 and timedelta64 of whole seconds, milliseconds, microseconds and
// nanoseconds become timestamps without a time zone and durations, in which NaT
// is an ordinary number unless the mask says otherwise; fixed bytes become
// fixed_size_binary. bfloat16, complex numbers and other units of time are
// ErrDType: Arrow has no such type. An array without axes, or with an axis after
// the first that has no elements or more than an int32 counts, is ErrShape.
func ToArrow(a *NDBuffer, o ArrowOptions) (arrow.Array, error) {
	column, err := toArrow(a, o)
	if err != nil {
		return nil, fmt.Errorf("column of an array of %s %v: %w", a.dtype, a.shape, err)
	}
	return column, nil
}

func toArrow(a *NDBuffer, o ArrowOptions) (arrow.Array, error) {
	element, err := a.dtype.Arrow()
	switch {
	case err != nil:
		return nil, err
	case len(a.shape) == 0:
		return nil, fmt.Errorf("it has no axis of rows: %w", ErrShape)
	case o.Mask != nil && o.Mask.dtype != Bool:
		return nil, fmt.Errorf("a mask of %s, not of bool: %w", o.Mask.dtype, ErrDType)
	case o.Mask != nil && !slices.Equal(o.Mask.shape, a.shape):
		return nil, fmt.Errorf("a mask of shape %v: %w", o.Mask.shape, ErrShape)
	case o.Mask != nil && o.Mask.Device() != a.Device():
		return nil, fmt.Errorf("a mask on %s for an array on %s: %w", o.Mask.Device(), a.Device(), arrowbuf.ErrDevice)
	case o.DimNames != nil && (o.Lists || len(o.DimNames) != len(a.shape)-1):
		return nil, fmt.Errorf("names %q for the axes of a tensor of %d: %w", o.DimNames, len(a.shape)-1, ErrShape)
	}
	order := forwards(len(a.shape))
	if !o.Lists {
		order = memoryOrder(a)
	}
	form, err := rowTypes(element, a.shape, order, o)
	if err != nil {
		return nil, err
	}
	values, err := orderedBuffer(a, order, false)
	if err != nil {
		return nil, err
	}
	defer values.Release()
	var validity *memory.Buffer
	nulls := 0
	if o.Mask != nil {
		if validity, err = orderedBuffer(o.Mask, order, true); err != nil {
			return nil, err
		}
		defer validity.Release()
		nulls = array.UnknownNullCount
	}
	data := array.NewData(element, int(a.Size()), []*memory.Buffer{validity, values}, nil, nulls, 0)
	for _, list := range form {
		inner := data
		data = array.NewData(list, int(listCount(list, inner)), []*memory.Buffer{nil}, []arrow.ArrayData{inner}, 0, 0)
		inner.Release()
	}
	defer data.Release()
	return arrowbuf.NewArray(data), nil
}

// memoryOrder is the order of the axes in which the elements of rows lie without
// gaps, outermost first; that of the axes where there is none.
func memoryOrder(a *NDBuffer) []int {
	order := forwards(len(a.shape))
	long := slices.DeleteFunc(slices.Clone(order[1:]), func(axis int) bool { return a.shape[axis] == 1 })
	slices.SortStableFunc(long, func(i, j int) int { return cmp.Compare(a.strides[j], a.strides[i]) })
	for i, axis := range order {
		if i > 0 && a.shape[axis] != 1 {
			order[i], long = long[0], long[1:]
		}
	}
	shape, strides := make([]int64, len(order)), make([]int64, len(order))
	for i, axis := range order {
		shape[i], strides[i] = a.shape[axis], a.strides[axis]
	}
	if !layout.IsC(a.dtype.Size(), shape, strides) {
		return forwards(len(order))
	}
	return order
}

// rowTypes are the types around the elements, innermost first, of rows whose axes
// lie in an order.
func rowTypes(element arrow.DataType, shape []int64, order []int, o ArrowOptions) ([]arrow.DataType, error) {
	if len(shape) == 1 {
		return nil, nil
	}
	if o.Lists {
		var lists []arrow.DataType
		for i := len(shape) - 1; i > 0; i-- {
			list, err := listOf(shape[i], element)
			if err != nil {
				return nil, err
			}
			lists = append(lists, list)
			element = list
		}
		return lists, nil
	}
	n := len(shape) - 1
	lying, permutation := make([]int64, n), make([]int, n)
	var names []string
	for i, axis := range order[1:] {
		lying[i], permutation[axis-1] = shape[axis], i
		if o.DimNames != nil {
			names = append(names, o.DimNames[axis-1])
		}
	}
	if slices.Equal(permutation, forwards(n)) {
		permutation = nil
	}
	tensor, err := NewTensorType(element, lying, permutation, names)
	if err != nil {
		return nil, err
	}
	return []arrow.DataType{tensor}, nil
}

// listCount is how many lists hold an array's elements.
func listCount(list arrow.DataType, elements arrow.ArrayData) int64 {
	if tensor, ok := list.(*TensorType); ok {
		list = tensor.Storage
	}
	return int64(elements.Len()) / int64(list.(*arrow.FixedSizeListType).Len())
}

// orderedBuffer is the memory of an array whose axes lie in an order, as Arrow
// has it: bits for bool, which are set where the array is false if inverted.
func orderedBuffer(a *NDBuffer, order []int, invert bool) (*memory.Buffer, error) {
	lying, err := a.Transpose(order...)
	if err != nil {
		return nil, err
	}
	defer lying.Release()
	if a.dtype == Bool {
		bits, err := packedBitmap(lying, invert)
		if err != nil {
			return nil, err
		}
		defer bits.Release()
		return bits.Arrow(), nil
	}
	gapless, err := contiguousAligned(lying)
	if err != nil {
		return nil, err
	}
	defer gapless.Release()
	part, err := gapless.buf.Slice(gapless.offset, gapless.NBytes())
	if err != nil {
		return nil, err
	}
	defer part.Release()
	return part.Arrow(), nil
}

// contiguousAligned is the array itself where its elements lie in C order, each at a
// multiple of its alignment, which typed access needs; else a copy.
func contiguousAligned(a *NDBuffer) (*NDBuffer, error) {
	address := a.buf.Address() + uintptr(a.offset)
	if a.IsContiguous() && (a.dtype.Kind() == KindBytes || address%uintptr(a.dtype.Size()) == 0) {
		a.Retain()
		return a, nil
	}
	return a.inCOrder()
}

// packedBitmap is an Arrow bitmap of an array of bool: a bit for each element, and 0
// behind the last.
func packedBitmap(a *NDBuffer, invert bool) (arrowbuf.Buffer, error) {
	bools, err := contiguousAligned(a)
	if err != nil {
		return nil, err
	}
	defer bools.Release()
	n := (a.Size() + 7) / 8
	bits, err := a.Device().Alloc(n)
	if err != nil {
		return nil, err
	}
	if n > 0 {
		_, err = bits.CopyFromHost([]byte{0}, n-1)
	}
	if err == nil {
		err = bools.packBits(bits, 0, invert)
	}
	if err != nil {
		bits.Release()
		return nil, err
	}
	return bits, nil
}
