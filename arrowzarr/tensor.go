package arrowzarr

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/ndview"
)

const (
	extensionName     = "ARROW:extension:name"
	extensionMetadata = "ARROW:extension:metadata"
)

// tensorOf returns the type of a field that is Arrow's fixed_shape_tensor, or
// nil for another. arrow-go does not know the extension type, so it comes as
// field metadata.
func tensorOf(field arrow.Field) (*ndview.TensorType, error) {
	name, ok := field.Metadata.GetValue(extensionName)
	if !ok || name != (&ndview.TensorType{}).ExtensionName() {
		return nil, nil
	}
	text, _ := field.Metadata.GetValue(extensionMetadata)
	t, err := (&ndview.TensorType{}).Deserialize(storage(field.Type), text)
	if err != nil {
		return nil, err
	}
	return t.(*ndview.TensorType), nil
}

// shapeAsTensors replaces the one axis of the storage, a fixed_size_list, by the
// axes of the tensor.
func (l *fixedLayout) shapeAsTensors(t *ndview.TensorType) error {
	if len(l.row) != 1 {
		return fmt.Errorf("fixed_shape_tensor of shape %v over a list of %v elements", t.Shape(), l.row)
	}
	l.row = t.Shape()
	return nil
}
