package arrowzarr

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// arrayKind is how the values of a column are stored in Zarr.
type arrayKind int

const (
	kindFixed      arrayKind = iota // elements of a fixed width: one N-d array
	kindText                        // utf8: an array of strings
	kindBinary                      // binary: an array of byte strings
	kindDictionary                  // codes and categories
	kindNull                        // only missing values
	kindNested                      // a group of 1-D arrays, as awkward has them
)

// column is what a column of a table is in Arrow, and what it becomes in Zarr.
type column struct {
	name    string // of the node in Zarr
	field   arrow.Field
	storage arrow.DataType // the type without extensions, and without run-end encoding
	runs    bool           // the column is run-end encoded, and decoded before it is assembled
	kind    arrayKind
	layout  fixedLayout        // of kindFixed, and of the codes of kindDictionary
	tensor  *ndview.TensorType // of a fixed_shape_tensor; otherwise nil
	nested  *node              // of kindNested
	dims    []string           // the names of the axes, the rows' first
	codecs  columnCodecs       // of its arrays

	onDevice bool // the column is copied to the device; see place
}

// nameColumns gives each column the name of its node in Zarr. A name that a node can
// have is kept.
func nameColumns(columns []*column) {
	taken := map[string]bool{}
	var renamed []*column
	for _, c := range columns {
		name := c.field.Name
		if len(name) > maxNameBytes || escapeName(name) != name || taken[name] {
			renamed = append(renamed, c)
			continue
		}
		c.name, taken[name] = name, true
	}
	for _, c := range renamed {
		c.name = uniqueName(c.field.Name, taken, maxNameBytes)
	}
}

// maxNameBytes is the longest name of a file on Linux file systems.
const maxNameBytes = 255

// reservedName reports whether a column cannot have the name, because it is one of files
// that are being written.
func reservedName(name string) bool {
	return strings.HasPrefix(name, store.TempPrefix) || name == workPrefix
}

// newColumn returns the column of an Arrow field. The error of a type without a Zarr form is a
// *columnError.
func newColumn(field arrow.Field) (*column, error) {
	c := &column{name: field.Name, field: field, storage: valueType(field.Type)}
	c.runs = arrowdata.StorageType(field.Type).ID() == arrow.RUN_END_ENCODED
	if err := c.chooseKind(); err != nil {
		return nil, &columnError{field: field, err: err}
	}
	return c, nil
}

// chooseKind sets the kind of the column, and its layout, from its type.
func (c *column) chooseKind() (err error) {
	switch t := c.storage.(type) {
	case *arrow.NullType:
		c.kind = kindNull
		return nil
	case *arrow.StringType, *arrow.LargeStringType, *arrow.StringViewType:
		c.kind = kindText
		return nil
	case *arrow.BinaryType, *arrow.LargeBinaryType, *arrow.BinaryViewType:
		c.kind = kindBinary
		return nil
	case *arrow.DictionaryType:
		c.kind = kindDictionary
		if c.layout, err = codesLayout(t.IndexType); err != nil {
			return err
		}
		values, err := newColumn(categoriesField(t))
		if err != nil {
			return err
		}
		// Categories have no mask, so missing elements of lists would be lost.
		if values.kind == kindNull || values.kind == kindDictionary || values.kind == kindNested || values.runs || values.isList() {
			c.kind = kindNested
			c.nested, err = newNode(t)
		}
		return err
	}
	var ok bool
	if c.layout, ok = fixedLayoutOf(c.storage); !ok || slices.Contains(c.layout.row, 0) && c.storage.ID() == arrow.FIXED_SIZE_LIST {
		c.kind = kindNested
		c.nested, err = newNode(c.storage)
		return err
	}
	if c.tensor, err = tensorTypeOf(c.field); err != nil || c.tensor == nil {
		return err
	}
	return c.layout.setTensorShape(c.tensor)
}

// categoriesField returns a field for a dictionary's values.
func categoriesField(t *arrow.DictionaryType) arrow.Field {
	return arrow.Field{Name: "categories", Type: t.ValueType}
}

// natMin is NaT ("not a time") of datetime64 and timedelta64.
const natMin = uint64(1) << 63

// fixedTypes maps the Arrow types of which a value is one element of a dtype.
var fixedTypes = map[arrow.Type]ndview.DType{
	arrow.BOOL:      ndview.Bool,
	arrow.INT8:      ndview.Int8,
	arrow.INT16:     ndview.Int16,
	arrow.INT32:     ndview.Int32,
	arrow.INT64:     ndview.Int64,
	arrow.UINT8:     ndview.Uint8,
	arrow.UINT16:    ndview.Uint16,
	arrow.UINT32:    ndview.Uint32,
	arrow.UINT64:    ndview.Uint64,
	arrow.FLOAT16:   ndview.Float16,
	arrow.FLOAT32:   ndview.Float32,
	arrow.FLOAT64:   ndview.Float64,
	arrow.DECIMAL32: ndview.Int32,
	arrow.DECIMAL64: ndview.Int64,

	arrow.INTERVAL_MONTHS: ndview.Int32,
}

var timeUnits = map[arrow.TimeUnit]ndview.TimeUnit{
	arrow.Second:      ndview.Second,
	arrow.Millisecond: ndview.Millisecond,
	arrow.Microsecond: ndview.Microsecond,
	arrow.Nanosecond:  ndview.Nanosecond,
}

// fixedLayout describes rows of a fixed width, in Arrow and in Zarr.
type fixedLayout struct {
	source ndview.DType // the elements in Arrow's buffer
	dtype  ndview.DType // the elements in Zarr
	limbs  int64        // elements per value of Arrow's buffer
	row    []int64      // the axes after the first
	fill   uint64       // the value of null elements, for ndview's FillWhere
}

// elements is the number of elements in a row.
func (l fixedLayout) elements() int64 {
	n := int64(1)
	for _, d := range l.row {
		n *= d
	}
	return n
}

// fixedLayoutOf returns the layout of an Arrow type of fixed width, or false for
// another type. The layout of an extension type is that of its storage.
func fixedLayoutOf(t arrow.DataType) (fixedLayout, bool) {
	if dtype, ok := fixedTypes[t.ID()]; ok {
		return fixedLayout{source: dtype, dtype: dtype, limbs: 1}, true
	}
	int64As := func(dtype ndview.DType) (fixedLayout, bool) {
		return fixedLayout{source: dtype, dtype: dtype, limbs: 1, fill: natMin}, true
	}
	int32As := func(dtype ndview.DType) (fixedLayout, bool) {
		return fixedLayout{source: ndview.Int32, dtype: dtype, limbs: 1, fill: natMin}, true
	}
	switch t := t.(type) {
	case *arrow.Date32Type:
		return int32As(ndview.Datetime64(ndview.Day, 1))
	case *arrow.Date64Type:
		return int64As(ndview.Datetime64(ndview.Millisecond, 1))
	case *arrow.Time32Type:
		return int32As(ndview.Timedelta64(timeUnits[t.Unit], 1))
	case *arrow.Time64Type:
		return int64As(ndview.Timedelta64(timeUnits[t.Unit], 1))
	case *arrow.TimestampType:
		return int64As(ndview.Datetime64(timeUnits[t.Unit], 1))
	case *arrow.DurationType:
		return int64As(ndview.Timedelta64(timeUnits[t.Unit], 1))
	case *arrow.Decimal128Type:
		return fixedLayout{source: ndview.Uint64, dtype: ndview.Uint64, limbs: 2, row: []int64{2}}, true
	case *arrow.Decimal256Type:
		return fixedLayout{source: ndview.Uint64, dtype: ndview.Uint64, limbs: 4, row: []int64{4}}, true
	case *arrow.FixedSizeBinaryType:
		width := int64(t.ByteWidth)
		if width < 0 {
			return fixedLayout{}, false
		}
		return fixedLayout{source: ndview.Uint8, dtype: ndview.Uint8, limbs: width, row: []int64{width}}, true
	case *arrow.FixedSizeListType:
		inner, ok := fixedLayoutOf(t.Elem())
		if !ok || !isNumber(t.Elem()) || t.Len() < 0 {
			return fixedLayout{}, false
		}
		inner.row = append([]int64{int64(t.Len())}, inner.row...)
		return inner, true
	case arrow.ExtensionType:
		return fixedLayoutOf(t.StorageType())
	}
	return fixedLayout{}, false
}

// isNumber reports whether a fixed_size_list of the type becomes an N-d array: one of
// numbers or booleans, or of lists of those.
func isNumber(t arrow.DataType) bool {
	t = arrowdata.StorageType(t)
	if list, ok := t.(*arrow.FixedSizeListType); ok {
		return isNumber(list.Elem())
	}
	_, ok := fixedTypes[t.ID()]
	return ok && t.ID() != arrow.DECIMAL32 && t.ID() != arrow.DECIMAL64 && t.ID() != arrow.INTERVAL_MONTHS
}

// leaf returns the innermost data of an array of fixed width, and the position of the
// first element of row from in its buffers.
func leaf(data arrow.ArrayData, from int64) (arrow.ArrayData, int64, error) {
	return walkLists(data, from, func(arrow.ArrayData, int64, int64) error { return nil })
}

// walkLists is leaf that also calls visit for the lists inside of other lists,
// outermost first. It passes their data, the position of the first list of row from,
// and the number of lists per row.
func walkLists(data arrow.ArrayData, from int64, visit func(lists arrow.ArrayData, at, perRow int64) error) (arrow.ArrayData, int64, error) {
	at, perRow := int64(data.Offset())+from, int64(1)
	t := arrowdata.StorageType(data.DataType())
	for depth := 0; ; depth++ {
		list, ok := t.(*arrow.FixedSizeListType)
		if !ok {
			return data, at, nil
		}
		if depth > 0 {
			if err := visit(data, at, perRow); err != nil {
				return nil, 0, err
			}
		}
		if len(data.Children()) != 1 {
			return nil, 0, fmt.Errorf("%s with %d children, expected 1", list, len(data.Children()))
		}
		data = data.Children()[0]
		at = at*int64(list.Len()) + int64(data.Offset())
		perRow *= int64(list.Len())
		t = arrowdata.StorageType(list.Elem())
	}
}

const (
	extensionName     = "ARROW:extension:name"
	extensionMetadata = "ARROW:extension:metadata"
)

// tensorTypeOf returns the type of a field of Arrow's fixed_shape_tensor, or nil for
// another field. arrow-go does not know the extension type, and leaves it in the
// field's metadata.
func tensorTypeOf(field arrow.Field) (*ndview.TensorType, error) {
	name, ok := field.Metadata.GetValue(extensionName)
	if !ok || name != (&ndview.TensorType{}).ExtensionName() {
		return nil, nil
	}
	text, _ := field.Metadata.GetValue(extensionMetadata)
	t, err := (&ndview.TensorType{}).Deserialize(arrowdata.StorageType(field.Type), text)
	if err != nil {
		return nil, err
	}
	return t.(*ndview.TensorType), nil
}

// setTensorShape replaces the axis of the storage, a fixed_size_list, by the axes of
// the tensor.
func (l *fixedLayout) setTensorShape(t *ndview.TensorType) error {
	if len(l.row) != 1 {
		return fmt.Errorf("fixed_shape_tensor of shape %v over a list of %v elements", t.Shape(), l.row)
	}
	l.row = t.Shape()
	return nil
}

// Attribute names. encoding-type, encoding-version, ordered, na-value and
// column-order are those of the anndata on-disk format.
const (
	attrSchema  = "arrow_schema" // base64 of the schema as an encapsulated IPC message
	attrRows    = "num_rows"
	attrType    = "arrow_type"    // the Arrow type, for people
	attrName    = "arrow_name"    // the column's name, if a Zarr node cannot have it
	attrColumns = "arrow_columns" // the names of the columns' nodes, in the order of the schema
	attrOrder   = "column-order"  // of those columns that a data frame can hold
	attrEncType = "encoding-type"
	attrEncVer  = "encoding-version"
)

// rootAttributes returns the attributes of the group of all columns.
func rootAttributes(schema *arrow.Schema, columns []*column, rows int64) (map[string]any, error) {
	message, err := arrowdata.SchemaMessage(schema)
	if err != nil {
		return nil, fmt.Errorf("writing the Arrow schema: %w", err)
	}
	order := make([]string, len(columns))
	for i, c := range columns {
		order[i] = c.name
	}
	return map[string]any{
		attrSchema:  base64.StdEncoding.EncodeToString(message),
		attrRows:    rows,
		attrColumns: order,
	}, nil
}

// attributes returns the attributes of the column's node: an array, or a group of
// arrays if values are missing.
func (c *column) attributes(missing bool) map[string]any {
	attrs := map[string]any{attrType: c.field.Type.String()}
	if c.name != c.field.Name {
		attrs[attrName] = c.field.Name
	}
	switch t := c.storage.(type) {
	case *arrow.TimestampType:
		if t.TimeZone != "" {
			attrs["timezone"] = t.TimeZone
		}
	case arrow.DecimalType:
		attrs["precision"], attrs["scale"] = t.GetPrecision(), t.GetScale()
	case *arrow.DictionaryType:
		attrs["ordered"] = t.Ordered
	}
	if c.tensor != nil && len(c.tensor.Permutation()) > 0 {
		attrs["permutation"] = c.tensor.Permutation()
	}
	if encoding, version := c.encoding(missing); encoding != "" {
		attrs[attrEncType], attrs[attrEncVer] = encoding, version
		if encoding == "nullable-string-array" {
			attrs["na-value"] = "NA"
		}
	}
	return attrs
}

// encoding returns anndata's name and version of the column's layout, or "" if
// anndata does not have it.
func (c *column) encoding(missing bool) (name, version string) {
	id := c.storage.ID()
	switch {
	case c.kind == kindDictionary:
		return "categorical", "0.2.0"
	case c.kind == kindText && missing:
		return "nullable-string-array", "0.1.0"
	case c.kind == kindText:
		return "string-array", "0.2.0"
	case c.kind == kindFixed && !missing && isPlainArray(id):
		return "array", "0.2.0"
	case missing && id == arrow.BOOL:
		return "nullable-boolean", "0.1.0"
	case missing && arrow.IsInteger(id):
		return "nullable-integer", "0.1.0"
	}
	return "", ""
}

// valueDims are the names of the axes of the values. Those of nulls have no others.
func (c *column) valueDims() []string {
	if c.kind == kindDictionary {
		return c.dims[:1]
	}
	return c.dims
}

// isPlainArray reports whether anndata's "array" has values of the type. Its readers
// know no times and no decimals.
func isPlainArray(id arrow.Type) bool {
	return id == arrow.BOOL || arrow.IsInteger(id) || arrow.IsFloating(id) || id == arrow.FIXED_SIZE_LIST
}

// dataType returns the Zarr data type of the column's values.
func (c *column) dataType() element.Type {
	switch c.kind {
	case kindText:
		return element.String
	case kindBinary:
		return element.Bytes
	case kindNull:
		return element.Of(ndview.Bool)
	default:
		return element.Of(c.layout.dtype)
	}
}

// isList reports whether the column is a fixed_size_list, of which single elements
// can be missing.
func (c *column) isList() bool {
	_, ok := c.storage.(*arrow.FixedSizeListType)
	return ok
}
