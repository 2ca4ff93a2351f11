package arrowzarr

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
)

const (
	extensionName     = "ARROW:extension:name"
	extensionMetadata = "ARROW:extension:metadata"
)

// tensor is the metadata of Arrow's canonical extension type
// arrow.fixed_shape_tensor: shape is that of one row as it lies in memory,
// permutation the order in which the axes are meant to be seen.
type tensor struct {
	Shape       []int64  `json:"shape"`
	DimNames    []string `json:"dim_names"`
	Permutation []int64  `json:"permutation"`
}

// tensorOf returns the tensor metadata of a field, or nil where the field is
// not a fixed_shape_tensor. arrow-go does not know the extension type, so it
// comes as field metadata.
func tensorOf(field arrow.Field) (*tensor, error) {
	name, ok := field.Metadata.GetValue(extensionName)
	if !ok || name != "arrow.fixed_shape_tensor" {
		return nil, nil
	}
	text, _ := field.Metadata.GetValue(extensionMetadata)
	t := &tensor{}
	if err := json.Unmarshal([]byte(text), t); err != nil {
		return nil, fmt.Errorf("metadata of fixed_shape_tensor: %w", err)
	}
	return t, nil
}

// shapeRow replaces the one axis of the storage, a fixed_size_list, by the axes
// of the tensor.
func (t *tensor) shapeRow(l *fixedLayout) error {
	n := int64(1)
	for _, d := range t.Shape {
		if d < 0 || d > 0 && n > l.elements()/d+1 {
			return fmt.Errorf("fixed_shape_tensor of shape %v over a list of %d elements", t.Shape, l.elements())
		}
		n *= d
	}
	if len(l.row) != 1 || n != l.row[0] {
		return fmt.Errorf("fixed_shape_tensor of shape %v over a list of %v elements", t.Shape, l.row)
	}
	if len(t.DimNames) != 0 && len(t.DimNames) != len(t.Shape) {
		return fmt.Errorf("fixed_shape_tensor of %d axes with %d dim_names", len(t.Shape), len(t.DimNames))
	}
	if !t.permutes() {
		return fmt.Errorf("fixed_shape_tensor of %d axes with permutation %v", len(t.Shape), t.Permutation)
	}
	l.row = t.Shape
	return nil
}

// permutes tells whether the permutation, where there is one, names each axis
// once.
func (t *tensor) permutes() bool {
	if len(t.Permutation) == 0 {
		return true
	}
	axes := slices.Sorted(slices.Values(t.Permutation))
	for i, axis := range axes {
		if axis != int64(i) {
			return false
		}
	}
	return len(axes) == len(t.Shape)
}
