package arrowzarr

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// arrayKind is the way a column's values are stored.
type arrayKind int

const (
	kindFixed      arrayKind = iota // elements of a fixed width: one N-d array
	kindText                        // utf8: an array of strings
	kindBinary                      // binary: an array of byte strings
	kindDictionary                  // codes and categories
	kindNull                        // nothing but missing values
)

// column is the plan for one column: what it is in Arrow, and what it becomes.
type column struct {
	name    string
	field   arrow.Field
	storage arrow.DataType // the type without extensions
	kind    arrayKind
	layout  fixedLayout        // of formFixed, and of the codes of formDictionary
	tensor  *ndview.TensorType // of a fixed_shape_tensor
}

// onDevice tells whether the column goes to the device. Text, and the codes of
// dictionaries, are encoded by the host, so sending them there and back would
// only cost time.
func (c *column) onDevice() bool { return c.kind == kindFixed }

// planColumns chooses the columns of a conversion and says what each becomes.
// No names means all. It returns, with the plans, their indices in the schema.
func planColumns(schema *arrow.Schema, names []string) ([]*column, []int, error) {
	fields, err := selectFieldIndices(schema, names)
	if err != nil {
		return nil, nil, err
	}
	columns := make([]*column, len(fields))
	seen := map[string]bool{}
	for i, f := range fields {
		field := schema.Field(f)
		if seen[field.Name] {
			return nil, nil, partErrorf(PartInput, "column %q occurs more than once: a Zarr group has one child of a name", field.Name)
		}
		seen[field.Name] = true
		if columns[i], err = planColumn(field); err != nil {
			return nil, nil, markPart(PartInput, err)
		}
	}
	return columns, fields, nil
}

func selectFieldIndices(schema *arrow.Schema, names []string) ([]int, error) {
	if len(names) == 0 {
		fields := make([]int, schema.NumFields())
		for i := range fields {
			fields[i] = i
		}
		return fields, nil
	}
	var fields []int
	for _, name := range names {
		found := schema.FieldIndices(name)
		if len(found) == 0 {
			return nil, partErrorf(PartUsage, "no column is named %q: expected some of %s", name, strings.Join(columnNames(schema), ", "))
		}
		for _, f := range found {
			if !slices.Contains(fields, f) {
				fields = append(fields, f)
			}
		}
	}
	// The order of the columns is the input's, however they were asked for.
	slices.Sort(fields)
	return fields, nil
}

func columnNames(schema *arrow.Schema) []string {
	names := make([]string, schema.NumFields())
	for i, f := range schema.Fields() {
		names[i] = fmt.Sprintf("%q", f.Name)
	}
	return names
}

// longestName is how many bytes the name of a file has at most.
const longestName = 255

func planColumn(field arrow.Field) (*column, error) {
	if err := zarr.CheckName(field.Name); err != nil {
		return nil, fmt.Errorf("column %q: %w", field.Name, err)
	}
	switch { // that a directory cannot have
	case len(field.Name) > longestName:
		return nil, fmt.Errorf("column %.40q...: the name has %d bytes, where files have %d at most", field.Name, len(field.Name), longestName)
	case strings.HasPrefix(field.Name, store.TempPrefix):
		return nil, fmt.Errorf("column %q: names that begin with %q are for files that are being written", field.Name, store.TempPrefix)
	}
	c := &column{name: field.Name, field: field, storage: storageType(field.Type)}
	if err := c.chooseKind(); err != nil {
		return nil, fmt.Errorf("column %q of type %s: %w", field.Name, field.Type, err)
	}
	return c, nil
}

// chooseKind finds the form of the column's type.
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
		values, err := planColumn(categoriesField(t))
		if err == nil && (values.kind == kindNull || values.kind == kindDictionary) {
			err = fmt.Errorf("dictionary values of type %s have no Zarr form", t.ValueType)
		}
		return err
	}
	var ok bool
	if c.layout, ok = fixedLayoutOf(c.storage); !ok {
		return fmt.Errorf("the type has no Zarr form here (choose other columns with --columns)")
	}
	if c.tensor, err = tensorTypeOf(c.field); err != nil || c.tensor == nil {
		return err
	}
	return c.layout.setTensorShape(c.tensor)
}

// categoriesField is the field of a dictionary's values.
func categoriesField(t *arrow.DictionaryType) arrow.Field {
	return arrow.Field{Name: "categories", Type: t.ValueType}
}

// natMin is NaT, "not a time", of datetime64 and timedelta64.
const natMin = uint64(1) << 63

// fixedTypes maps the Arrow types whose values are one element of one dtype.
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
}

var timeUnits = map[arrow.TimeUnit]ndview.TimeUnit{
	arrow.Second:      ndview.Second,
	arrow.Millisecond: ndview.Millisecond,
	arrow.Microsecond: ndview.Microsecond,
	arrow.Nanosecond:  ndview.Nanosecond,
}

// fixedLayout is how rows of a fixed width lie in Arrow and in Zarr.
type fixedLayout struct {
	source ndview.DType // the elements in Arrow's buffer
	dtype  ndview.DType // the elements in Zarr
	limbs  int64        // elements that one value of Arrow's buffer makes
	row    []int64      // the axes after the first
	fill   uint64       // what null slots hold, as FillWhere takes it
}

// elements is the number of elements in a row.
func (l fixedLayout) elements() int64 {
	n := int64(1)
	for _, d := range l.row {
		n *= d
	}
	return n
}

// fixedLayoutOf returns the layout of an Arrow type of fixed width, or false
// for another type. Extension types are taken as their storage.
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

// isNumber tells whether a fixed_size_list of the type is an N-d array: of
// numbers and booleans, or of such lists.
func isNumber(t arrow.DataType) bool {
	if list, ok := t.(*arrow.FixedSizeListType); ok {
		return isNumber(list.Elem())
	}
	_, ok := fixedTypes[t.ID()]
	return ok && t.ID() != arrow.DECIMAL32 && t.ID() != arrow.DECIMAL64
}

// leaf finds the elements of rows [from, ...) of an array of fixed width: the
// innermost array data, and the position of the first element in its buffers.
func leaf(data arrow.ArrayData, from int64) (arrow.ArrayData, int64, error) {
	return walkLists(data, from, func(arrow.ArrayData, int64, int64) error { return nil })
}

// walkLists is leaf, and calls visit for the lists on the way that are inside
// others, outermost first: with their data, the position of the first, and how
// many of them make a row.
func walkLists(data arrow.ArrayData, from int64, visit func(lists arrow.ArrayData, at, perRow int64) error) (arrow.ArrayData, int64, error) {
	at, perRow := int64(data.Offset())+from, int64(1)
	t := storageType(data.DataType())
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
		t = storageType(list.Elem())
	}
}

// storageType unwraps extension types.
func storageType(t arrow.DataType) arrow.DataType {
	for {
		ext, ok := t.(arrow.ExtensionType)
		if !ok {
			return t
		}
		t = ext.StorageType()
	}
}

const (
	extensionName     = "ARROW:extension:name"
	extensionMetadata = "ARROW:extension:metadata"
)

// tensorTypeOf returns the type of a field that is Arrow's fixed_shape_tensor, or
// nil for another. arrow-go does not know the extension type, so it comes as
// field metadata.
func tensorTypeOf(field arrow.Field) (*ndview.TensorType, error) {
	name, ok := field.Metadata.GetValue(extensionName)
	if !ok || name != (&ndview.TensorType{}).ExtensionName() {
		return nil, nil
	}
	text, _ := field.Metadata.GetValue(extensionMetadata)
	t, err := (&ndview.TensorType{}).Deserialize(storageType(field.Type), text)
	if err != nil {
		return nil, err
	}
	return t.(*ndview.TensorType), nil
}

// setTensorShape replaces the one axis of the storage, a fixed_size_list, by the
// axes of the tensor.
func (l *fixedLayout) setTensorShape(t *ndview.TensorType) error {
	if len(l.row) != 1 {
		return fmt.Errorf("fixed_shape_tensor of shape %v over a list of %v elements", t.Shape(), l.row)
	}
	l.row = t.Shape()
	return nil
}

// Attribute names. Those of the anndata on-disk format
// (encoding-type, encoding-version, ordered, na-value, column-order) mean what
// they mean there.
const (
	attrSchema  = "arrow_schema" // base64 of the schema as an encapsulated IPC message
	attrRows    = "num_rows"
	attrType    = "arrow_type" // the Arrow type, for people
	attrOrder   = "column-order"
	attrEncType = "encoding-type"
	attrEncVer  = "encoding-version"
)

// rootAttributes are those of the group of all columns.
func rootAttributes(schema *arrow.Schema, columns []*column, rows int64) (map[string]any, error) {
	message, err := schemaMessage(schema)
	if err != nil {
		return nil, fmt.Errorf("writing the Arrow schema: %w", err)
	}
	order := make([]string, len(columns))
	for i, c := range columns {
		order[i] = c.name
	}
	return map[string]any{
		attrSchema: base64.StdEncoding.EncodeToString(message),
		attrRows:   rows,
		attrOrder:  order,
	}, nil
}

// schemaMessage is the schema as Arrow's IPC format encapsulates it: what a
// stream starts with, and what Parquet files keep under ARROW:schema.
func schemaMessage(schema *arrow.Schema) ([]byte, error) {
	var buf bytes.Buffer
	w := ipc.NewWriter(&buf, ipc.WithSchema(schema), ipc.WithAllocator(memory.DefaultAllocator))
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// attributes are those of a column's node: an array, or, where values are
// missing, a group of arrays.
func (c *column) attributes(missing bool) map[string]any {
	attrs := map[string]any{attrType: c.field.Type.String()}
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

// encoding is anndata's name for the column's layout, or "" where it has none.
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

// isPlainArray tells whether anndata's "array" covers values of the type: those
// that its readers know, which times and decimals are not.
func isPlainArray(id arrow.Type) bool {
	return id == arrow.BOOL || arrow.IsInteger(id) || arrow.IsFloating(id) || id == arrow.FIXED_SIZE_LIST
}

// dataType is what Zarr calls the elements of the column's values.
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

// isList tells whether the column is a fixed_size_list, whose elements can be
// missing one by one.
func (c *column) isList() bool {
	_, ok := c.storage.(*arrow.FixedSizeListType)
	return ok
}

// dimensionNames are those of a tensor's axes, behind that of the rows.
func (c *column) dimensionNames() []string {
	if c.tensor == nil || len(c.tensor.DimNames()) == 0 {
		return nil
	}
	return append([]string{""}, c.tensor.DimNames()...)
}
