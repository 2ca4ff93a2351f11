package arrowzarr

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
)

// storedSchemaKey is the metadata key of the Arrow schema in a Parquet file.
const storedSchemaKey = "ARROW:schema"

// fieldIDKey is the metadata key of Parquet's field_id in an Arrow field.
const fieldIDKey = "PARQUET:field_id"

// storedSchema returns the Arrow schema in a Parquet file, or nil if it has none with types
// that arrow-go has. It refuses a malformed
// one, for whose lengths arrow-go would allocate memory.
func storedSchema(f *file.Reader) (*arrow.Schema, error) {
	kept := f.MetaData().KeyValueMetadata().FindValue(storedSchemaKey)
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
		return nil, fmt.Errorf("%s: %w", storedSchemaKey, err)
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
const hiddenSchemaKey = "\x00" + storedSchemaKey

// replaceStoredSchema gives arrow-go a stored schema that it can read: none if the file's
// has types that it does not know, such as integers of 128 bits by polars, and one with
// lists instead of list_views, inside of which it would not look, and of lists of size 0,
// which it refuses. It returns the stored schema, with lists for the latter: pyarrow writes
// each as a list of one missing element.
func replaceStoredSchema(f *file.Reader, stored *arrow.Schema) (*arrow.Schema, error) {
	var fields []arrow.Field
	written := stored
	if stored != nil {
		stored = mapTypes(stored, withoutEmptyLists)
		fields = stored.Fields()
	}
	changed := stored == nil
	for i, field := range fields {
		fields[i].Type = withoutListViews(field.Type)
		changed = changed || !arrow.TypeEqual(fields[i].Type, written.Field(i).Type)
	}
	for _, pair := range f.MetaData().KeyValueMetadata() {
		switch {
		case pair.Key != storedSchemaKey || !changed:
		case stored == nil:
			pair.Key = hiddenSchemaKey
		default:
			metadata := stored.Metadata()
			message, err := schemaMessage(arrow.NewSchema(fields, &metadata))
			if err != nil {
				return nil, err
			}
			text := base64.StdEncoding.EncodeToString(message)
			pair.Value = &text
		}
	}
	return stored, nil
}

// parquetTypes returns the types of columns: those of the stored schema where Parquet's
// types can hold them, which arrow-go reads as others.
type parquetTypes struct {
	columns *schema.Schema
	stored  *arrow.Schema // nil if the file has none
}

// field returns what a field that arrow-go infers is. Unless it is nil, want is the stored
// field.
func (p parquetTypes) field(got arrow.Field, want *arrow.Field, node pqarrow.SchemaField) arrow.Field {
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
func (p parquetTypes) dataType(got, want arrow.DataType, node pqarrow.SchemaField) arrow.DataType {
	if ext, ok := want.(arrow.ExtensionType); ok {
		if arrow.TypeEqual(got, want) {
			return want
		}
		if storage := p.dataType(got, ext.StorageType(), node); arrow.TypeEqual(storage, ext.StorageType()) {
			return want
		}
		return got
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
func (p parquetTypes) leafType(got, want arrow.DataType, column *schema.Column) arrow.DataType {
	isJSON := false
	if _, ok := column.LogicalType().(schema.JSONLogicalType); ok || column.ConvertedType() == schema.ConvertedTypes.JSON {
		isJSON = true
	}
	if isJSON && isBinary(got) {
		if want != nil && (want.ID() == arrow.BINARY || isTextType(want)) {
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

func isBinary(t arrow.DataType) bool { return t.ID() == arrow.BINARY || t.ID() == arrow.STRING }

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

// convertTo returns an array of a type that parquetTypes has for its own. The caller owns
// a reference.
func convertTo(a arrow.Array, t arrow.DataType, mem memory.Allocator) (arrow.Array, error) {
	if arrow.TypeEqual(a.DataType(), t) {
		a.Retain()
		return a, nil
	}
	if from, ok := a.(array.ExtensionArray); ok { // its storage is written in another form
		return convertTo(from.Storage(), t, mem)
	}
	if ext, ok := t.(arrow.ExtensionType); ok {
		storage, err := convertTo(a, ext.StorageType(), mem)
		if err != nil {
			return nil, err
		}
		defer storage.Release()
		return array.NewExtensionArrayWithStorage(ext, storage), nil
	}
	switch t.ID() {
	case arrow.DECIMAL32:
		return narrowDecimals(a.(*array.Decimal128), t, 4, mem)
	case arrow.DECIMAL64:
		return narrowDecimals(a.(*array.Decimal128), t, 8, mem)
	case arrow.STRING_VIEW, arrow.BINARY_VIEW:
		return makeViews(a, t, mem)
	case arrow.DECIMAL128, arrow.DECIMAL256:
		if from := a.DataType().(arrow.DecimalType); from.GetScale() < 0 && t.(arrow.DecimalType).GetScale() == 0 {
			return scaleDecimals(a, t, mem)
		}
		if t.ID() == arrow.DECIMAL128 {
			return widenDecimals(a, t, mem), nil
		}
	case arrow.STRING, arrow.BINARY:
		if id := a.DataType().ID(); id == arrow.STRING_VIEW || id == arrow.BINARY_VIEW {
			return readViews(a, mem), nil
		}
	case arrow.TIMESTAMP:
		if from, to := a.DataType().(*arrow.TimestampType), t.(*arrow.TimestampType); from.Unit != to.Unit {
			return nil, fmt.Errorf("%s as %s: %w", from, to, errors.ErrUnsupported)
		}
	case arrow.LARGE_STRING:
		if isBinary(a.DataType()) {
			return widenText(a, mem), nil
		}
	case arrow.LIST_VIEW, arrow.LARGE_LIST_VIEW:
		if lists, ok := a.(array.ListLike); ok && a.DataType().ID() != t.ID() {
			return toListViews(lists, t, mem)
		}
	case arrow.LIST, arrow.LARGE_LIST:
		switch a.DataType().ID() {
		case arrow.LIST_VIEW, arrow.LARGE_LIST_VIEW, arrow.FIXED_SIZE_LIST:
			return toLists(a.(array.ListLike), t, mem)
		}
	case arrow.DICTIONARY:
		if a.DataType().ID() != arrow.DICTIONARY {
			return makeDictionary(a, t.(*arrow.DictionaryType), mem)
		}
	}
	data := a.Data()
	children := make([]arrow.ArrayData, len(data.Children()))
	if nested, ok := t.(arrow.NestedType); ok && len(children) == len(nested.Fields()) {
		for i, f := range nested.Fields() {
			child := array.MakeFromData(data.Children()[i])
			made, err := convertTo(child, f.Type, mem)
			child.Release()
			if err != nil {
				return nil, err
			}
			defer made.Release()
			children[i] = made.Data()
		}
	} else {
		copy(children, data.Children())
	}
	renamed := array.NewData(t, data.Len(), data.Buffers(), children, data.NullN(), data.Offset())
	defer renamed.Release()
	return array.MakeFromData(renamed), nil
}

// narrowDecimals returns decimals of width bytes.
func narrowDecimals(a *array.Decimal128, t arrow.DataType, width int, mem memory.Allocator) (arrow.Array, error) {
	data := a.Data()
	values := memory.NewResizableBuffer(mem)
	defer values.Release()
	end := data.Offset() + data.Len()
	values.Resize(end * width)
	out := values.Bytes()
	for i := range a.Len() {
		at := (data.Offset() + i) * width
		n := int64(0)
		if !a.IsNull(i) {
			v := a.Value(i)
			if n = int64(v.LowBits()); v != decimal128.FromI64(n) || width == 4 && n != int64(int32(n)) {
				return nil, fmt.Errorf("a decimal of %s that does not fit: %w", t, errMalformed)
			}
		}
		if width == 4 {
			binary.NativeEndian.PutUint32(out[at:], uint32(n))
		} else {
			binary.NativeEndian.PutUint64(out[at:], uint64(n))
		}
	}
	made := array.NewData(t, data.Len(), []*memory.Buffer{data.Buffers()[0], values}, nil, data.NullN(), data.Offset())
	defer made.Release()
	return array.MakeFromData(made), nil
}

// widenDecimals returns decimals of 16 bytes.
func widenDecimals(a arrow.Array, t arrow.DataType, mem memory.Allocator) arrow.Array {
	b := array.NewDecimal128Builder(mem, t.(*arrow.Decimal128Type))
	defer b.Release()
	b.Reserve(a.Len())
	for i := range a.Len() {
		switch {
		case a.IsNull(i):
			b.AppendNull()
		case a.DataType().ID() == arrow.DECIMAL32:
			b.Append(decimal128.FromI64(int64(a.(*array.Decimal32).Value(i))))
		default:
			b.Append(decimal128.FromI64(int64(a.(*array.Decimal64).Value(i))))
		}
	}
	return b.NewArray()
}

// scaleDecimals returns decimals of a negative scale as ones of scale 0.
func scaleDecimals(a arrow.Array, t arrow.DataType, mem memory.Allocator) (arrow.Array, error) {
	from := a.DataType().(arrow.DecimalType)
	b := array.NewBuilder(mem, t)
	defer b.Release()
	b.Reserve(a.Len())
	for i := range a.Len() {
		if a.IsNull(i) {
			b.AppendNull()
			continue
		}
		var v decimal256.Num
		switch a := a.(type) {
		case *array.Decimal32:
			v = decimal256.FromI64(int64(a.Value(i)))
		case *array.Decimal64:
			v = decimal256.FromI64(int64(a.Value(i)))
		case *array.Decimal128:
			v = decimal256.FromDecimal128(a.Value(i))
		case *array.Decimal256:
			v = a.Value(i)
		}
		if !v.FitsInPrecision(from.GetPrecision()) {
			return nil, fmt.Errorf("a decimal that type %s cannot hold: %w", from, arrow.ErrInvalid)
		}
		v = v.IncreaseScaleBy(-from.GetScale())
		if narrow, ok := b.(*array.Decimal128Builder); ok {
			words := v.Array()
			narrow.Append(decimal128.New(int64(words[1]), words[0]))
		} else {
			b.(*array.Decimal256Builder).Append(v)
		}
	}
	return b.NewArray(), nil
}

// widenText returns text with offsets of 64 bits.
func widenText(a arrow.Array, mem memory.Allocator) arrow.Array {
	b := array.NewLargeStringBuilder(mem)
	defer b.Release()
	b.Reserve(a.Len())
	for i := range a.Len() {
		if a.IsNull(i) {
			b.AppendNull()
		} else {
			b.Append(textValue(a, i))
		}
	}
	return b.NewArray()
}

// textValue returns a value of text, or of bytes that are text.
func textValue(a arrow.Array, i int) string {
	if bytes, ok := a.(*array.Binary); ok {
		return bytes.ValueString(i)
	}
	return a.(*array.String).Value(i)
}

// readViews returns the text or bytes of an array of views.
func readViews(a arrow.Array, mem memory.Allocator) arrow.Array {
	var t arrow.BinaryDataType = arrow.BinaryTypes.Binary
	value := func(i int) []byte { return a.(*array.BinaryView).Value(i) }
	if text, ok := a.(*array.StringView); ok {
		value = func(i int) []byte { return []byte(text.Value(i)) }
		t = arrow.BinaryTypes.String
	}
	b := array.NewBinaryBuilder(mem, t)
	defer b.Release()
	b.Reserve(a.Len())
	for i := range a.Len() {
		if a.IsNull(i) {
			b.AppendNull()
		} else {
			b.Append(value(i))
		}
	}
	return b.NewArray()
}

// makeViews returns an array of views of text or bytes.
func makeViews(a arrow.Array, t arrow.DataType, mem memory.Allocator) (arrow.Array, error) {
	b := array.NewBuilder(mem, t)
	defer b.Release()
	b.Reserve(a.Len())
	for i := range a.Len() {
		switch {
		case a.IsNull(i):
			b.AppendNull()
		case t.ID() == arrow.STRING_VIEW:
			b.(*array.StringViewBuilder).Append(textValue(a, i))
		default:
			b.(*array.BinaryViewBuilder).Append(a.(*array.Binary).Value(i))
		}
	}
	return b.NewArray(), nil
}

// makeDictionary returns values as a dictionary with one for each row, if the indices can
// count them: they are compared only once, with those of all batches. Otherwise it has
// those that are different.
func makeDictionary(a arrow.Array, t *arrow.DictionaryType, mem memory.Allocator) (arrow.Array, error) {
	width := t.IndexType.(arrow.FixedWidthDataType).Bytes()
	if width < 4 || int64(a.Len()) > math.MaxInt32 {
		b := array.NewDictionaryBuilder(mem, t)
		defer b.Release()
		b.Reserve(a.Len())
		if err := b.AppendArray(a); err != nil {
			return nil, err
		}
		return b.NewArray(), nil
	}
	indices := memory.NewResizableBuffer(mem)
	defer indices.Release()
	indices.Resize(a.Len() * width)
	raw := indices.Bytes()
	for i := range a.Len() {
		if width == 4 {
			binary.LittleEndian.PutUint32(raw[4*i:], uint32(i))
		} else {
			binary.LittleEndian.PutUint64(raw[8*i:], uint64(i))
		}
	}
	data := array.NewDataWithDictionary(t, a.Len(), []*memory.Buffer{nil, indices}, 0, 0, a.Data().(*array.Data))
	defer data.Release()
	return array.MakeFromData(data), nil
}
