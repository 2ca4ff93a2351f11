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
	c, err := newNestedColumn(column)
	if err != nil {
		return nil, err
	}
	for _, level := range c.levels {
		if missing, err := level.nullCount(); err != nil {
			return nil, err
		} else if missing > 0 {
			return nil, fmt.Errorf("%d of %d elements are missing: %w", missing, level.n, ErrNulls)
		}
	}
	return c.values()
}

// nestedColumn is what a column shows: elements of the innermost array, and the lists
// around them.
type nestedColumn struct {
	device arrowbuf.Device
	levels []nestingLevel // outermost first; the last has the elements
	dtype  DType
	shape  []int64 // of the elements as they lie in memory, in C order
	order  []int   // the axis of shape that each axis of the array is
}

// nestingLevel is elements [first, first+n) of an array's buffers, which may be fewer
// than the array has.
type nestingLevel struct {
	data     arrow.ArrayData
	first, n int64
}

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

// permuteAxes gives an array that lies as the elements do the column's axes.
func (c *nestedColumn) permuteAxes(a *NDBuffer, err error) (*NDBuffer, error) {
	if err != nil || slices.IsSorted(c.order) {
		return a, err
	}
	defer a.Release()
	return a.Transpose(c.order...)
}

// storageType is the type whose layout an array has. The lists of a tensor have
// several axes, whose order in the array may be another.
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

func unpackBooleans(bits arrowbuf.Buffer, first int64, shape []int64) (*NDBuffer, error) {
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

// valueBuffer is the second buffer of an array. One without elements may lack it.
func valueBuffer(data arrow.ArrayData, dev arrowbuf.Device) (arrowbuf.Buffer, error) {
	if len(data.Buffers()) < 2 || data.Buffers()[1] == nil {
		return dev.Alloc(0)
	}
	return arrowbuf.BufferOf(data.Buffers()[1])
}

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

// nullMask is nil where no element is missing.
func (c *nestedColumn) nullMask() (*NDBuffer, error) {
	var mask *NDBuffer // as the elements lie
	for _, level := range c.levels {
		missing, err := level.nullCount()
		if err == nil && missing > 0 {
			if mask == nil {
				mask, err = noneMissing(c.device, c.shape)
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

// markNulls sets the elements of the missing lists, or the missing elements
// themselves.
func (l nestingLevel) markNulls(mask *NDBuffer) error {
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

// nullCount counts the nulls among the elements.
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

const tensorName = "arrow.fixed_shape_tensor"

// TensorType is Arrow's canonical extension type arrow.fixed_shape_tensor: a
// column whose rows are tensors of one shape, stored as fixed_size_lists of
// their elements. arrow-go does not have it; a program that wants it read from
// files registers it, with arrow.RegisterExtensionType(&TensorType{}).
type TensorType struct {
	arrow.ExtensionBase
	metadata tensorMetadata
}

// tensorMetadata is the type's metadata. The shape is that of a tensor as it lies in
// memory, in C order, and so are the names; axis i as it is meant is axis
// Permutation[i] of those.
type tensorMetadata struct {
	Shape       []int64  `json:"shape"`
	Permutation []int    `json:"permutation,omitempty"`
	DimNames    []string `json:"dim_names,omitempty"`
}

// NewTensorType is the type of tensors of a shape. Permutation and names may be
// nil. What does not fit the shape is ErrShape.
func NewTensorType(value arrow.DataType, shape []int64, permutation []int, names []string) (*TensorType, error) {
	n, err := layout.Bytes(1, shape)
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

// listOf is a fixed_size_list, of which arrow-go has none of no elements, and
// Arrow none of more than an int32 counts.
func listOf(n int64, of arrow.DataType) (arrow.DataType, error) {
	if n < 1 || n != int64(int32(n)) {
		return nil, fmt.Errorf("a fixed_size_list of %d elements: want 1 to %d: %w", n, int64(1)<<31-1, ErrShape)
	}
	return arrow.FixedSizeListOf(int32(n), of), nil
}

// Shape is that of a row as it lies in memory. The caller must not write to it,
// nor to what the next two return.
func (t *TensorType) Shape() []int64 { return t.metadata.Shape }

// Permutation says which axis of Shape each axis of a row is meant to be; nil
// for the order that they lie in.
func (t *TensorType) Permutation() []int { return t.metadata.Permutation }

// DimNames are the names of the axes of Shape, or nil.
func (t *TensorType) DimNames() []string { return t.metadata.DimNames }

// ArrayType is what arrow-go makes arrays of the type as.
func (*TensorType) ArrayType() reflect.Type { return reflect.TypeFor[TensorArray]() }

// ExtensionName is the name that Arrow gives the type.
func (*TensorType) ExtensionName() string { return tensorName }

// Serialize is the metadata of the type, as JSON.
func (t *TensorType) Serialize() string {
	text, _ := json.Marshal(t.metadata) // of numbers and text
	return string(text)
}

// Deserialize makes the type of its metadata.
func (*TensorType) Deserialize(storage arrow.DataType, text string) (arrow.ExtensionType, error) {
	form, err := parseTensorMetadata(text, storage)
	if err != nil {
		return nil, err
	}
	return &TensorType{arrow.ExtensionBase{Storage: storage}, form}, nil
}

// ExtensionEquals compares storage and metadata.
func (t *TensorType) ExtensionEquals(other arrow.ExtensionType) bool {
	o, ok := other.(*TensorType)
	return ok && arrow.TypeEqual(t.Storage, o.Storage) && t.Serialize() == o.Serialize()
}

// String names the type with its metadata.
func (t *TensorType) String() string {
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
		return fmt.Errorf("%s over %s, not a fixed_size_list: %w", tensorName, storage, ErrDType)
	}
	n, err := layout.Bytes(1, f.Shape)
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

// axisOrder is the permutation, whether there is one or not.
func (f tensorMetadata) axisOrder() []int {
	if len(f.Permutation) > 0 {
		return f.Permutation
	}
	return forwards(len(f.Shape))
}

// FromTensor looks at an Arrow tensor as an array, with its strides and without
// a copy. Another type of elements than FromArrow takes, or booleans, are
// ErrDType, missing elements ErrNulls, and strides that leave the tensor's
// memory arrowbuf.ErrOutOfRange.
func FromTensor(t tensor.Interface) (*NDBuffer, error) {
	a, err := fromTensor(t)
	if err != nil {
		return nil, fmt.Errorf("tensor of %s %v: %w", t.DataType(), t.Shape(), err)
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
	shown := nestingLevel{data, int64(data.Offset()), int64(data.Len())}
	if missing, err := shown.nullCount(); err != nil {
		return nil, err
	} else if missing > 0 {
		return nil, fmt.Errorf("%d elements are missing: %w", missing, ErrNulls)
	}
	buf, err := valueBuffer(data, arrowbuf.CPU())
	if err != nil {
		return nil, err
	}
	defer buf.Release()
	return FromBuffer(buf, dtype, shown.first*dtype.Size(), t.Shape(), t.Strides())
}
