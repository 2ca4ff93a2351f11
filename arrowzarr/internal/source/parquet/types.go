package parquet

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
)

// fieldIDKey is the metadata key of Parquet's field_id in an Arrow field.
const fieldIDKey = "PARQUET:field_id"

// storedSchema returns the Arrow schema in a Parquet file, or nil if it has none with types
// that arrow-go has. It refuses a malformed
// one, for whose lengths arrow-go would allocate memory.
func storedSchema(f *file.Reader) (*arrow.Schema, error) {
	kept := f.MetaData().KeyValueMetadata().FindValue(arrowdata.StoredSchemaKey)
	if kept == nil {
		return nil, nil
	}
	raw, err := base64.StdEncoding.DecodeString(*kept)
	if err != nil { // some writers omit the padding
		raw, err = base64.RawStdEncoding.DecodeString(*kept)
	}
	var message []byte
	if err == nil {
		message, err = arrowipc.ReadMetadata(bytes.NewReader(raw))
	}
	if err == nil {
		_, err = arrowipc.Inspect(message)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", arrowdata.StoredSchemaKey, err)
	}
	d, err := arrowipc.NewDecoder(message, arrowbuf.CPU())
	if err != nil { // a type that this version does not know: Parquet's types do
		return nil, nil
	}
	defer d.Release()
	return d.Schema(), nil
}

// hiddenSchemaKey is the key of a stored schema that arrow-go cannot read. No other key
// begins with a zero byte.
const hiddenSchemaKey = "\x00" + arrowdata.StoredSchemaKey

// replaceStoredSchema gives arrow-go a stored schema that it can read: none if the file's
// has types that it does not know, such as integers of 128 bits by polars, and one with
// lists instead of list_views, inside of which it would not look, and of lists of size 0,
// which it refuses. It returns the stored schema, with lists for the latter: pyarrow writes
// each as a list of one missing element.
func replaceStoredSchema(f *file.Reader, stored *arrow.Schema) (*arrow.Schema, error) {
	var fields []arrow.Field
	written := stored
	if stored != nil {
		stored = arrowdata.MapTypes(stored, arrowdata.WithoutEmptyLists)
		fields = stored.Fields()
	}
	changed := stored == nil
	for i, field := range fields {
		fields[i].Type = arrowdata.WithoutListViews(withoutExtensions(field.Type))
		changed = changed || !arrow.TypeEqual(fields[i].Type, written.Field(i).Type)
	}
	for _, pair := range f.MetaData().KeyValueMetadata() {
		switch {
		case pair.Key != arrowdata.StoredSchemaKey || !changed:
		case stored == nil:
			pair.Key = hiddenSchemaKey
		default:
			metadata := stored.Metadata()
			message, err := arrowdata.SchemaMessage(arrow.NewSchema(fields, &metadata))
			if err != nil {
				return nil, err
			}
			text := base64.StdEncoding.EncodeToString(message)
			pair.Value = &text
		}
	}
	return stored, nil
}

// withoutExtensions returns a type with the storage of extension types. Of a field that has
// metadata, too, arrow-go refuses an extension type whose storage Parquet does not have.
func withoutExtensions(t arrow.DataType) arrow.DataType {
	return arrowdata.MapChildren(arrowdata.StorageType(t), withoutExtensions)
}

// storedTypes returns the types of columns: those of the stored schema where Parquet's
// types can hold them, which arrow-go reads as others.
type storedTypes struct {
	columns *schema.Schema
	stored  *arrow.Schema // nil if the file has none
}

// field returns what a field that arrow-go infers is. Unless it is nil, want is the stored
// field.
func (p storedTypes) field(got arrow.Field, want *arrow.Field, node pqarrow.SchemaField) arrow.Field {
	if id, ok := got.Metadata.GetValue(fieldIDKey); ok && id == "-1" { // it stands for no ID
		values := got.Metadata.ToMap()
		delete(values, fieldIDKey)
		if got.Metadata = (arrow.Metadata{}); len(values) > 0 {
			got.Metadata = arrow.MetadataFrom(values)
		}
	}
	var stored arrow.DataType
	if want != nil {
		stored = want.Type
	}
	got.Type = p.dataType(got.Type, stored, node)
	if want != nil && arrow.TypeEqual(got.Type, want.Type) {
		got.Metadata = keepMetadata(got.Metadata, want.Metadata)
	}
	return got
}

// keepMetadata adds the metadata of a stored field which arrow-go drops from fields inside
// of others: those of large lists, and the names of extension types that it does not know.
func keepMetadata(got, want arrow.Metadata) arrow.Metadata {
	keys, values := slices.Clone(got.Keys()), slices.Clone(got.Values())
	for i, key := range want.Keys() {
		if key != fieldIDKey && !slices.Contains(keys, key) {
			keys, values = append(keys, key), append(values, want.Values()[i])
		}
	}
	return arrow.NewMetadata(keys, values)
}

// child returns field i of a nested type, nil if the type is nil or of another kind.
func childOf(t arrow.DataType, kind arrow.Type, i, n int) *arrow.Field {
	nested, ok := t.(arrow.NestedType)
	if !ok || t.ID() != kind || len(nested.Fields()) != n {
		return nil
	}
	return &nested.Fields()[i]
}

// dataType is field for types.
func (p storedTypes) dataType(got, want arrow.DataType, node pqarrow.SchemaField) arrow.DataType {
	if ext, ok := want.(arrow.ExtensionType); ok {
		if arrow.TypeEqual(got, want) {
			return want
		}
		storage := p.dataType(got, ext.StorageType(), node)
		if arrow.TypeEqual(storage, ext.StorageType()) {
			return want
		}
		return storage
	}
	if node.IsLeaf() {
		return p.leafType(got, want, p.columns.Column(node.ColIndex))
	}
	only := func(kind arrow.Type) arrow.Field { // the element of a list
		stored := childOf(want, kind, 0, 1)
		element := p.field(got.(arrow.ListLikeType).ElemField(), stored, node.Children[0])
		if stored != nil {
			element.Name = stored.Name
		}
		return element
	}
	switch t := got.(type) {
	case *arrow.StructType:
		if t.NumFields() != len(node.Children) {
			return got
		}
		fields := make([]arrow.Field, t.NumFields())
		for i := range fields {
			fields[i] = p.field(t.Field(i), childOf(want, arrow.STRUCT, i, len(fields)), node.Children[i])
		}
		return arrow.StructOf(fields...)
	case *arrow.MapType:
		entries := node.Children[0]
		if len(entries.Children) != 2 {
			return got
		}
		var keys, items *arrow.Field
		sorted := t.KeysSorted
		if m, ok := want.(*arrow.MapType); ok {
			key, item := m.KeyField(), m.ItemField()
			keys, items, sorted = &key, &item, m.KeysSorted
		}
		key := p.field(t.KeyField(), keys, entries.Children[0])
		item := p.field(t.ItemField(), items, entries.Children[1])
		made := arrow.MapOfFields(key, item)
		made.KeysSorted = sorted
		return made
	case *arrow.ListType:
		if _, ok := want.(*arrow.ListViewType); ok {
			return arrow.ListViewOfField(only(arrow.LIST_VIEW))
		}
		return arrow.ListOfField(only(arrow.LIST))
	case *arrow.LargeListType:
		if _, ok := want.(*arrow.LargeListViewType); ok {
			return arrow.LargeListViewOfField(only(arrow.LARGE_LIST_VIEW))
		}
		return arrow.LargeListOfField(only(arrow.LARGE_LIST))
	case *arrow.FixedSizeListType:
		return arrow.FixedSizeListOfField(t.Len(), only(arrow.FIXED_SIZE_LIST))
	}
	return got
}

// leafType is dataType for a column of Parquet.
func (p storedTypes) leafType(got, want arrow.DataType, column *schema.Column) arrow.DataType {
	isJSON := false
	if _, ok := column.LogicalType().(schema.JSONLogicalType); ok || column.ConvertedType() == schema.ConvertedTypes.JSON {
		isJSON = true
	}
	if isJSON && arrowdata.IsBinary(got) {
		if want != nil && (want.ID() == arrow.BINARY || arrowdata.IsText(want)) {
			return want
		}
		if json, err := extensions.NewJSONType(arrow.BinaryTypes.String); err == nil && p.stored == nil {
			return json
		}
		return arrow.BinaryTypes.String
	}
	if t, ok := got.(*arrow.TimestampType); ok && column.PhysicalType() == parquet.Types.Int96 {
		zone := "" // it has none, and arrow-go says UTC
		if stored, ok := want.(*arrow.TimestampType); ok {
			zone = stored.TimeZone
		}
		return &arrow.TimestampType{Unit: t.Unit, TimeZone: zone}
	}
	if want == nil {
		return got
	}
	switch want := want.(type) {
	case *arrow.TimestampType: // Parquet has no seconds, and only reports whether there is a zone
		if t, ok := got.(*arrow.TimestampType); ok && t.TimeZone != "" && want.TimeZone != "" {
			return &arrow.TimestampType{Unit: t.Unit, TimeZone: want.TimeZone}
		}
	case *arrow.Decimal32Type, *arrow.Decimal64Type:
		from, ok := got.(*arrow.Decimal128Type)
		if to := want.(arrow.DecimalType); ok && from.Precision == to.GetPrecision() && from.Scale == to.GetScale() {
			return want
		}
	case *arrow.StringViewType:
		if got.ID() == arrow.STRING {
			return want
		}
	case *arrow.BinaryViewType:
		if got.ID() == arrow.BINARY {
			return want
		}
	}
	return got
}

// makeReadable changes the types of a field that arrow-go cannot read to what Parquet
// stores: durations and bool8 to integers, and JSON in large text or views to text.
func makeReadable(f *pqarrow.SchemaField) {
	t := f.Field.Type
	if t.ID() == arrow.DURATION {
		f.Field.Type = arrow.PrimitiveTypes.Int64
		return
	}
	if _, ok := t.(*extensions.Bool8Type); ok {
		f.Field.Type = arrow.PrimitiveTypes.Int8
		return
	}
	if json, ok := t.(*extensions.JSONType); ok && json.StorageType().ID() != arrow.STRING {
		f.Field.Type = arrow.BinaryTypes.String
		return
	}
	for i := range f.Children {
		makeReadable(&f.Children[i])
	}
	nested, ok := t.(arrow.NestedType)
	if !ok || !hasIntegers(t) {
		return
	}
	fields := make([]arrow.Field, len(f.Children))
	for i, child := range f.Children {
		fields[i] = *child.Field
	}
	switch t := nested.(type) {
	case *arrow.StructType:
		f.Field.Type = arrow.StructOf(fields...)
	case *arrow.ListType:
		f.Field.Type = arrow.ListOfField(fields[0])
	case *arrow.LargeListType:
		f.Field.Type = arrow.LargeListOfField(fields[0])
	case *arrow.FixedSizeListType:
		f.Field.Type = arrow.FixedSizeListOfField(t.Len(), fields[0])
	case *arrow.MapType:
		entries := fields[0].Type.(*arrow.StructType)
		made := arrow.MapOfFields(entries.Field(0), entries.Field(1))
		made.KeysSorted = t.KeysSorted
		f.Field.Type = made
	}
}

// hasIntegers reports whether makeReadable changes a type inside of another to integers.
func hasIntegers(t arrow.DataType) bool {
	if nested, ok := t.(arrow.NestedType); ok {
		for _, f := range nested.Fields() {
			if hasIntegers(f.Type) {
				return true
			}
		}
	}
	_, isBool := t.(*extensions.Bool8Type)
	return isBool || t.ID() == arrow.DURATION
}
