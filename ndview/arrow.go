package ndview

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/tensor"
	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// FromArrow returns a view of an Arrow column, on the host or a device, as an array.
// The array retains the column's buffers; the caller must release it. Only booleans
// are copied, because Arrow stores them as bits and an array as bytes.
//
// FromArrow takes numbers, dates, times, durations, booleans and fixed_size_binary.
// Decimals of 32 and 64 bits are their unscaled integers. It also takes fixed_size_lists
// of these to any depth, and extension types over these as their storage type. It
// returns ErrDType for other types. The lengths of lists become axes: a list of 3 lists of 4 float32
// has the shape [rows, 3, 4]. The rows of an arrow.fixed_shape_tensor have the axes of
// the tensor, permuted as its type says.
//
// Timestamps and durations become datetime64 and timedelta64, date64 becomes
// datetime64[ms]; date32, time32 and time64 keep their integers, because NumPy has no
// such types. FromArrow returns ErrNulls if a row, a list or an element is null;
// [FromArrowMasked] accepts nulls. It returns arrowbuf.ErrOutOfRange if children or
// buffers are too small for the column's length.
func FromArrow(column arrow.Array) (*NDBuffer, error) {
	if column == nil {
		return nil, named("FromArrow", fmt.Errorf("nil column: %w", ErrNil))
	}
	a, err := fromArrow(column)
	if err != nil {
		return nil, named("FromArrow", fmt.Errorf("column of type %s: %w", column.DataType(), err))
	}
	return a, nil
}

func fromArrow(column arrow.Array) (*NDBuffer, error) {
	c, err := newNestedColumn(column)
	if err != nil {
		return nil, err
	}
	for _, level := range c.levels {
		if nulls, err := level.nullCount(); err != nil {
			return nil, err
		} else if nulls > 0 {
			return nil, fmt.Errorf("%d of %d elements are null: %w", nulls, level.n, ErrNulls)
		}
	}
	return c.values()
}

// nestedColumn describes a column: the elements of its innermost array and the lists
// around them.
type nestedColumn struct {
	device arrowbuf.Device
	levels []nestingLevel // outermost first; the last holds the elements
	dtype  DType
	shape  []int64 // of the elements in memory, in C order
	order  []int   // axis i of the array is axis order[i] of shape
}

// nestingLevel is the range [first, first+n) of an Arrow array that the column uses.
type nestingLevel struct {
	data     arrow.ArrayData
	first, n int64
}

// newNestedColumn follows the lists of a column and checks their lengths.
func newNestedColumn(column arrow.Array) (*nestedColumn, error) {
	data, t := column.Data(), column.DataType()
	c := &nestedColumn{device: arrowbuf.DeviceOf(column), shape: []int64{int64(column.Len())}, order: []int{0}}
	first := int64(data.Offset())
	for {
		n, err := byteCount(Uint8, c.shape)
		if err != nil {
			return nil, err
		}
		if end := int64(data.Offset()) + int64(data.Len()); first < 0 || n > end-first {
			return nil, fmt.Errorf("elements [%d, %d+%d) of %d: %w", first, first, n, end, arrowbuf.ErrOutOfRange)
		}
		c.levels = append(c.levels, nestingLevel{data, first, n})
		storage, shape, order, err := storageType(t)
		if err != nil {
			return nil, err
		}
		list, ok := storage.(*arrow.FixedSizeListType)
		if !ok {
			c.dtype, err = dtype.ParseArrow(storage)
			return c, err
		}
		if len(data.Children()) != 1 {
			return nil, fmt.Errorf("fixed_size_list with %d children, want 1: %w", len(data.Children()), arrow.ErrInvalid)
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

// values returns an array of the elements.
func (c *nestedColumn) values() (*NDBuffer, error) {
	leaf := c.levels[len(c.levels)-1]
	buf, err := valueBuffer(leaf.data, c.device)
	if err != nil {
		return nil, err
	}
	defer buf.Release()
	first := leaf.first
	if leaf.n == 0 {
		first = 0
	}
	if c.dtype == Bool {
		return c.permuteAxes(unpackBooleans(buf, first, c.shape))
	}
	return c.permuteAxes(FromBuffer(buf, c.dtype, first*c.dtype.Size(), c.shape, nil))
}

// permuteAxes returns an array in memory order with its axes in the column's order. It
// takes over the caller's reference, and passes on an error.
func (c *nestedColumn) permuteAxes(a *NDBuffer, err error) (*NDBuffer, error) {
	if err != nil || slices.IsSorted(c.order) {
		return a, err
	}
	defer a.Release()
	return a.transpose(c.order...)
}

// storageType returns the storage type of nested extension types. For a tensor it also
// returns the shape of a row in memory and the order of its axes, otherwise nil.
func storageType(t arrow.DataType) (storage arrow.DataType, shape []int64, order []int, err error) {
	for {
		ext, ok := t.(arrow.ExtensionType)
		if !ok {
			return t, shape, order, nil
		}
		t = ext.StorageType()
		if ext.ExtensionName() == tensorName {
			tensor, err := parseTensorMetadata(ext.Serialize(), t)
			if err != nil {
				return nil, nil, nil, err
			}
			shape, order = tensor.Shape, tensor.axisOrder()
		}
	}
}

// unpackBooleans returns a new array of the bits of a buffer from bit first on.
func unpackBooleans(bits arrowbuf.Buffer, first int64, shape []int64) (*NDBuffer, error) {
	// Check the range before allocating, because the shape may be forged.
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

// valueBuffer returns the second buffer of an array, which may be missing if the array
// is empty.
func valueBuffer(data arrow.ArrayData, dev arrowbuf.Device) (arrowbuf.Buffer, error) {
	if len(data.Buffers()) < 2 || data.Buffers()[1] == nil {
		return dev.Alloc(0)
	}
	return arrowbuf.BufferOf(data.Buffers()[1])
}

// FromArrowMasked is FromArrow for a column with nulls. The mask has the shape of the
// values and is true if the element, a list around it or its row is null. Values of
// null elements are undefined. The mask is nil if the column has no nulls. The caller
// must release both.
func FromArrowMasked(column arrow.Array) (values, mask *NDBuffer, err error) {
	if column == nil {
		return nil, nil, named("FromArrowMasked", fmt.Errorf("nil column: %w", ErrNil))
	}
	values, mask, err = fromArrowMasked(column)
	if err != nil {
		return nil, nil, named("FromArrowMasked", fmt.Errorf("column of type %s: %w", column.DataType(), err))
	}
	return values, mask, nil
}

func fromArrowMasked(column arrow.Array) (_, mask *NDBuffer, err error) {
	c, err := newNestedColumn(column)
	if err != nil {
		return nil, nil, err
	}
	if mask, err = c.nullMask(); err != nil {
		return nil, nil, err
	}
	values, err := c.values()
	if err != nil && mask != nil {
		mask.Release()
	}
	return values, mask, err
}

// nullMask returns an array that is true for null elements, or nil if none is null.
func (c *nestedColumn) nullMask() (*NDBuffer, error) {
	var mask *NDBuffer // in memory order
	for _, level := range c.levels {
		nulls, err := level.nullCount()
		if err == nil && nulls > 0 {
			if mask == nil {
				mask, err = Zeros(c.device, Bool, c.shape...)
			}
			if err == nil {
				err = level.markNulls(mask)
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
	return c.permuteAxes(mask, nil)
}

// markNulls sets the elements of the mask that belong to null lists, or that are null.
func (l nestingLevel) markNulls(mask *NDBuffer) error {
	nulls, err := Empty(mask.Device(), Bool, l.n)
	if err != nil {
		return err
	}
	defer nulls.Release()
	bits, err := arrowbuf.BufferOf(l.data.Buffers()[0])
	if err != nil {
		return err
	}
	defer bits.Release()
	if err := nulls.UnpackBits(bits, l.first, true); err != nil {
		return fmt.Errorf("validity bitmap: %w", err)
	}
	if mask.Size() == 0 {
		return nil
	}
	byElement, err := mask.reshape(l.n, mask.Size()/l.n)
	if err != nil {
		return err
	}
	defer byElement.Release()
	const allTrue = 0x0101010101010101
	return byElement.FillWhere(nulls, allTrue)
}

// nullCount returns the number of nulls in the range, counting the validity bitmap if
// the array does not know it.
func (l nestingLevel) nullCount() (int64, error) {
	nulls := int64(l.data.NullN())
	if nulls == 0 || l.n == 0 || len(l.data.Buffers()) == 0 || l.data.Buffers()[0] == nil || l.data.Buffers()[0].Len() == 0 {
		return 0, nil
	}
	bitmap, err := arrowbuf.BufferOf(l.data.Buffers()[0])
	if err != nil {
		return 0, err
	}
	defer bitmap.Release()
	used, err := bitmap.Slice(l.first/8, bitutil.BytesForBits(l.first%8+l.n))
	if err != nil {
		return 0, fmt.Errorf("validity bitmap: %w", err)
	}
	defer used.Release()
	if nulls > 0 && l.first == int64(l.data.Offset()) && l.n == int64(l.data.Len()) {
		return nulls, nil
	}
	bits := make([]byte, used.Len())
	if _, err := used.CopyToHost(bits, 0); err != nil {
		return 0, fmt.Errorf("validity bitmap: %w", err)
	}
	return l.n - int64(bitutil.CountSetBits(bits, int(l.first%8), int(l.n))), nil
}

const tensorName = "arrow.fixed_shape_tensor"

// TensorType is Arrow's canonical extension type arrow.fixed_shape_tensor: a column
// whose rows are tensors of one shape, stored as fixed_size_lists of their elements.
// arrow-go lacks this type. To read it from files, register it with
// arrow.RegisterExtensionType(&TensorType{}).
type TensorType struct {
	arrow.ExtensionBase
	metadata tensorMetadata
}

// tensorMetadata is the JSON metadata of a TensorType, as Arrow's specification of
// canonical extension types defines it. Shape and DimNames describe a tensor as it
// lies in memory, in C order; its logical axis i is axis Permutation[i] of these.
type tensorMetadata struct {
	Shape       []int64  `json:"shape"`
	Permutation []int    `json:"permutation,omitempty"`
	DimNames    []string `json:"dim_names,omitempty"`
}

// NewTensorType returns the type of tensors of a shape. Permutation and names may be
// nil. It returns ErrShape if they do not fit the shape.
func NewTensorType(value arrow.DataType, shape []int64, permutation []int, names []string) (_ *TensorType, err error) {
	defer nameError("NewTensorType", &err)
	if value == nil {
		return nil, fmt.Errorf("nil type of values: %w", ErrNil)
	}
	n, err := layout.CheckShape(1, shape)
	if err != nil {
		return nil, err
	}
	list, err := listOf(n, value)
	if err != nil {
		return nil, err
	}
	form := tensorMetadata{slices.Clone(shape), slices.Clone(permutation), slices.Clone(names)}
	if err := form.check(list); err != nil {
		return nil, err
	}
	return &TensorType{arrow.ExtensionBase{Storage: list}, form}, nil
}

// listOf returns a fixed_size_list type. Arrow counts its elements in an int32, and
// arrow-go refuses 0.
func listOf(n int64, of arrow.DataType) (arrow.DataType, error) {
	if n < 1 || n != int64(int32(n)) {
		return nil, fmt.Errorf("fixed_size_list of %d elements, want 1 to %d: %w", n, int64(1)<<31-1, ErrShape)
	}
	return arrow.FixedSizeListOf(int32(n), of), nil
}

// Shape returns the shape of a row as it lies in memory. The caller must not change
// it, nor the slices that Permutation and DimNames return.
func (t *TensorType) Shape() []int64 { return t.metadata.Shape }

// Permutation returns the axis of Shape for each logical axis of a row, or nil for the
// order in memory.
func (t *TensorType) Permutation() []int { return t.metadata.Permutation }

// DimNames returns the names of the axes of Shape, or nil.
func (t *TensorType) DimNames() []string { return t.metadata.DimNames }

// ArrayType returns the Go type of arrays of this type, for arrow-go.
func (*TensorType) ArrayType() reflect.Type { return reflect.TypeFor[TensorArray]() }

// ExtensionName returns "arrow.fixed_shape_tensor".
func (*TensorType) ExtensionName() string { return tensorName }

// Serialize returns the metadata of the type as JSON.
func (t *TensorType) Serialize() string {
	text, _ := json.Marshal(t.metadata) // cannot fail for numbers and strings
	return string(text)
}

// Deserialize returns the type of a storage type and its metadata.
func (*TensorType) Deserialize(storage arrow.DataType, text string) (arrow.ExtensionType, error) {
	form, err := parseTensorMetadata(text, storage)
	if err != nil {
		return nil, named("TensorType.Deserialize", err)
	}
	return &TensorType{arrow.ExtensionBase{Storage: storage}, form}, nil
}

// ExtensionEquals reports whether storage type and metadata are equal.
func (t *TensorType) ExtensionEquals(other arrow.ExtensionType) bool {
	o, ok := other.(*TensorType)
	return ok && arrow.TypeEqual(t.Storage, o.Storage) && t.Serialize() == o.Serialize()
}

// String returns the type's name and metadata.
func (t *TensorType) String() string {
	if t.Storage == nil {
		return "extension<" + tensorName + "[nil]>"
	}
	return fmt.Sprintf("extension<%s[%s, %s]>", tensorName, t.Storage.(*arrow.FixedSizeListType).Elem(), t.Serialize())
}

// TensorArray is a column of tensors on the host.
type TensorArray struct{ array.ExtensionArrayBase }

func parseTensorMetadata(text string, storage arrow.DataType) (form tensorMetadata, err error) {
	if err := json.Unmarshal([]byte(text), &form); err != nil {
		return form, fmt.Errorf("metadata of %s: %w", tensorName, err)
	}
	return form, form.check(storage)
}

func (f tensorMetadata) check(storage arrow.DataType) error {
	list, ok := storage.(*arrow.FixedSizeListType)
	if !ok {
		return fmt.Errorf("%s over %s, want a fixed_size_list: %w", tensorName, storage, ErrDType)
	}
	n, err := layout.CheckShape(1, f.Shape)
	if err != nil {
		return fmt.Errorf("%s: %w", tensorName, err)
	}
	axes := slices.Sorted(slices.Values(f.Permutation))
	switch {
	case n != int64(list.Len()):
		return fmt.Errorf("%s of shape %v over lists of %d: %w", tensorName, f.Shape, list.Len(), ErrShape)
	case len(f.Permutation) > 0 && !slices.Equal(axes, forwards(len(f.Shape))):
		return fmt.Errorf("%s of shape %v with permutation %v: %w", tensorName, f.Shape, f.Permutation, ErrShape)
	case len(f.DimNames) > 0 && len(f.DimNames) != len(f.Shape):
		return fmt.Errorf("%s of shape %v with names %q: %w", tensorName, f.Shape, f.DimNames, ErrShape)
	}
	return nil
}

// axisOrder returns the permutation, or that of the order in memory if it is nil.
func (f tensorMetadata) axisOrder() []int {
	if len(f.Permutation) > 0 {
		return f.Permutation
	}
	return forwards(len(f.Shape))
}

// FromTensor returns a view of an Arrow tensor as an array with the tensor's strides.
// The array retains the tensor's buffer; the caller must release it. FromTensor returns
// ErrDType for booleans and for element types that FromArrow refuses. It returns ErrNulls
// if an element is null, and arrowbuf.ErrOutOfRange if the strides leave the memory.
func FromTensor(t tensor.Interface) (*NDBuffer, error) {
	if t == nil {
		return nil, named("FromTensor", fmt.Errorf("nil tensor: %w", ErrNil))
	}
	a, err := fromTensor(t)
	if err != nil {
		return nil, named("FromTensor", fmt.Errorf("tensor of %s %v: %w", t.DataType(), t.Shape(), err))
	}
	return a, nil
}

func fromTensor(t tensor.Interface) (*NDBuffer, error) {
	dtype, err := dtype.ParseArrow(t.DataType())
	if err != nil {
		return nil, err
	}
	if dtype == Bool {
		return nil, ErrDType
	}
	data := t.Data()
	elements := nestingLevel{data, int64(data.Offset()), int64(data.Len())}
	if nulls, err := elements.nullCount(); err != nil {
		return nil, err
	} else if nulls > 0 {
		return nil, fmt.Errorf("%d elements are null: %w", nulls, ErrNulls)
	}
	buf, err := valueBuffer(data, arrowbuf.CPU())
	if err != nil {
		return nil, err
	}
	defer buf.Release()
	return FromBuffer(buf, dtype, elements.first*dtype.Size(), t.Shape(), t.Strides())
}
