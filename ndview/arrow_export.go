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

// ArrowOptions are the options of ToArrow. The zero value means no nulls, and tensors
// for rows of several elements.
type ArrowOptions struct {
	// Mask is true for null elements: an array of bool of the shape
	// of the values, on their device.
	Mask *NDBuffer
	// Lists makes nested fixed_size_lists of the axes after the first, in place
	// of an arrow.fixed_shape_tensor.
	Lists bool
	// DimNames are the names of the axes after the first, which a tensor keeps.
	DimNames []string
}

// ToArrow returns a column of an array, with one row per element of its first axis.
// The caller must release it. The column shares the array's memory if the elements lie
// in C order, or if the permutation of a tensor type can describe their order.
// Otherwise, and for bool, which Arrow stores as bits, it is a copy on the same
// device.
//
// A datetime64 or timedelta64 of whole seconds, milliseconds, microseconds or
// nanoseconds becomes a timestamp without a time zone or a duration. NaT is null only
// if the mask says so. Fixed bytes become fixed_size_binary. ToArrow returns ErrDType
// for bfloat16, complex numbers and other units of time, which Arrow lacks. It returns
// ErrShape for an array without axes, or with an axis after the first that is empty or
// exceeds an int32.
func ToArrow(a *NDBuffer, o ArrowOptions) (arrow.Array, error) {
	if a == nil {
		return nil, named("ToArrow", ErrNil)
	}
	column, err := toArrow(a, o)
	if err != nil {
		return nil, named("ToArrow", fmt.Errorf("array of %s %v: %w", a.dtype, a.shape, err))
	}
	return column, nil
}

func toArrow(a *NDBuffer, o ArrowOptions) (arrow.Array, error) {
	element, err := a.dtype.Arrow()
	switch {
	case err != nil:
		return nil, err
	case len(a.shape) == 0:
		return nil, fmt.Errorf("no axis of rows: %w", ErrShape)
	case o.Mask != nil && o.Mask.dtype != Bool:
		return nil, fmt.Errorf("mask of %s, want bool: %w", o.Mask.dtype, ErrDType)
	case o.Mask != nil && !slices.Equal(o.Mask.shape, a.shape):
		return nil, fmt.Errorf("mask of shape %v, want that of the array: %w", o.Mask.shape, ErrShape)
	case o.Mask != nil && o.Mask.Device() != a.Device():
		return nil, fmt.Errorf("mask on %s for an array on %s: %w", o.Mask.Device(), a.Device(), arrowbuf.ErrDevice)
	case o.DimNames != nil && (o.Lists || len(o.DimNames) != len(a.shape)-1):
		return nil, fmt.Errorf("dimension names %q for tensors of %d axes: %w", o.DimNames, len(a.shape)-1, ErrShape)
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

// memoryOrder returns the axes, outermost first, in the order in which the elements of
// rows lie contiguously. If no such order exists, it returns the order of the axes.
// The first axis, that of the rows, stays first.
func memoryOrder(a *NDBuffer) []int {
	order := forwards(len(a.shape))
	byStride := slices.DeleteFunc(slices.Clone(order[1:]), func(axis int) bool { return a.shape[axis] == 1 })
	slices.SortStableFunc(byStride, func(i, j int) int { return cmp.Compare(a.strides[j], a.strides[i]) })
	for i, axis := range order {
		if i > 0 && a.shape[axis] != 1 {
			order[i], byStride = byStride[0], byStride[1:]
		}
	}
	shape, strides := make([]int64, len(order)), make([]int64, len(order))
	for i, axis := range order {
		shape[i], strides[i] = a.shape[axis], a.strides[axis]
	}
	if !layout.IsCContiguous(a.dtype.Size(), shape, strides) {
		return forwards(len(order))
	}
	return order
}

// rowTypes returns the types around the elements of rows, innermost first. Order is
// the order of the axes in memory.
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
	memoryShape, permutation := make([]int64, n), make([]int, n)
	var names []string
	for i, axis := range order[1:] {
		memoryShape[i], permutation[axis-1] = shape[axis], i
		if o.DimNames != nil {
			names = append(names, o.DimNames[axis-1])
		}
	}
	if slices.Equal(permutation, forwards(n)) {
		permutation = nil
	}
	tensor, err := NewTensorType(element, memoryShape, permutation, names)
	if err != nil {
		return nil, err
	}
	return []arrow.DataType{tensor}, nil
}

// listCount returns the number of lists that hold the elements.
func listCount(list arrow.DataType, elements arrow.ArrayData) int64 {
	if tensor, ok := list.(*TensorType); ok {
		list = tensor.Storage
	}
	return int64(elements.Len()) / int64(list.(*arrow.FixedSizeListType).Len())
}

// orderedBuffer returns the elements in C order of the permuted axes as an Arrow
// buffer. For bool it is a bitmap, inverted if invert is true. The caller must release
// it.
func orderedBuffer(a *NDBuffer, order []int, invert bool) (*memory.Buffer, error) {
	permuted, err := a.transpose(order...)
	if err != nil {
		return nil, err
	}
	defer permuted.Release()
	if a.dtype == Bool {
		bits, err := packedBitmap(permuted, invert)
		if err != nil {
			return nil, err
		}
		defer bits.Release()
		return bits.Arrow(), nil
	}
	contiguous, err := contiguousAligned(permuted)
	if err != nil {
		return nil, err
	}
	defer contiguous.Release()
	part, err := contiguous.buf.Slice(contiguous.offset, contiguous.NBytes())
	if err != nil {
		return nil, err
	}
	defer part.Release()
	return part.Arrow(), nil
}

// contiguousAligned returns a itself, retained, if its elements are in C order and
// aligned for typed access, otherwise a copy. The caller must release it.
func contiguousAligned(a *NDBuffer) (*NDBuffer, error) {
	address := a.buf.Address() + uintptr(a.offset)
	if a.IsContiguous() && (a.dtype.Kind() == KindBytes || address%uintptr(a.dtype.Size()) == 0) {
		a.Retain()
		return a, nil
	}
	return a.inCOrder()
}

// packedBitmap returns an Arrow bitmap of an array of bool, with zeros after the last
// bit. The caller must release it.
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
