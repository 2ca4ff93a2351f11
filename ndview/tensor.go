package ndview

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/tensor"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

const tensorName = "arrow.fixed_shape_tensor"

// TensorType is Arrow's canonical extension type arrow.fixed_shape_tensor: a
// column whose rows are tensors of one shape, stored as fixed_size_lists of
// their elements. arrow-go does not have it; a program that wants it read from
// files registers it, with arrow.RegisterExtensionType(&TensorType{}).
type TensorType struct {
	arrow.ExtensionBase
	tensor tensorForm
}

// tensorForm is the type's metadata. The shape is that of a tensor as it lies in
// memory, in C order, and so are the names; axis i as it is meant is axis
// Permutation[i] of those.
type tensorForm struct {
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
	form := tensorForm{slices.Clone(shape), slices.Clone(permutation), slices.Clone(names)}
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
func (t *TensorType) Shape() []int64 { return t.tensor.Shape }

// Permutation says which axis of Shape each axis of a row is meant to be; nil
// for the order that they lie in.
func (t *TensorType) Permutation() []int { return t.tensor.Permutation }

// DimNames are the names of the axes of Shape, or nil.
func (t *TensorType) DimNames() []string { return t.tensor.DimNames }

// ArrayType is what arrow-go makes arrays of the type as.
func (*TensorType) ArrayType() reflect.Type { return reflect.TypeFor[TensorArray]() }

// ExtensionName is the name that Arrow gives the type.
func (*TensorType) ExtensionName() string { return tensorName }

// Serialize is the metadata of the type, as JSON.
func (t *TensorType) Serialize() string {
	text, _ := json.Marshal(t.tensor) // of numbers and text
	return string(text)
}

// Deserialize makes the type of its metadata.
func (*TensorType) Deserialize(storage arrow.DataType, text string) (arrow.ExtensionType, error) {
	form, err := parseTensor(text, storage)
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

func parseTensor(text string, storage arrow.DataType) (form tensorForm, err error) {
	if err := json.Unmarshal([]byte(text), &form); err != nil {
		return form, fmt.Errorf("metadata of %s: %w", tensorName, err)
	}
	return form, form.check(storage)
}

func (f tensorForm) check(storage arrow.DataType) error {
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

// order is the permutation, whether there is one or not.
func (f tensorForm) order() []int {
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
	dtype, err := ParseArrow(t.DataType())
	if err != nil {
		return nil, err
	}
	if dtype == Bool {
		return nil, ErrDType
	}
	data := t.Data()
	shown := level{data, int64(data.Offset()), int64(data.Len())}
	if missing, err := shown.missing(); err != nil {
		return nil, err
	} else if missing > 0 {
		return nil, fmt.Errorf("%d elements are missing: %w", missing, ErrNulls)
	}
	buf, err := valuesOf(data, arrowbuf.CPU())
	if err != nil {
		return nil, err
	}
	defer buf.Release()
	return FromBuffer(buf, dtype, shown.first*dtype.Size(), t.Shape(), t.Strides())
}
