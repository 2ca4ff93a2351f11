//go:build linux || darwin

package cdevice

import (
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestImportRejectsMalformedSchemas(t *testing.T) {
	var pinned runtime.Pinner
	defer pinned.Unpin()
	text := func(s string) uintptr { return pinSlice(&pinned, append([]byte(s), 0)) }
	number := func(n int32) uintptr { return pinSlice(&pinned, binary.NativeEndian.AppendUint32(nil, uint32(n))) }
	format := func(at int, f string) func(s *Schema) {
		return func(s *Schema) { s.childStructs()[at].format = text(f) }
	}
	for name, tt := range map[string]struct {
		wrong func(s *Schema)
		path  string
	}{
		"no format":               {func(s *Schema) { s.childStructs()[0].format = 0 }, `"text"`},
		"an empty format":         {format(0, ""), `"text"`},
		"an unknown format":       {format(0, "q"), `"text"`},
		"an unknown nested one":   {format(0, "+q"), `"text"`},
		"an unknown parameter":    {format(0, "i:3"), `"text"`},
		"a type without its own":  {format(0, "w"), `"text"`},
		"a negative width":        {format(0, "w:-1"), `"text"`},
		"a width that is none":    {format(0, "w:a"), `"text"`},
		"a width too many":        {format(0, "w:99999999999"), `"text"`},
		"half a decimal":          {format(0, "d:5"), `"text"`},
		"a decimal of words":      {format(0, "d:a,b"), `"text"`},
		"a decimal of 7 bits":     {format(0, "d:5,2,7"), `"text"`},
		"a decimal too precise":   {format(0, "d:99,2"), `"text"`},
		"a time zone of nothing":  {format(0, "tsx:"), `"text"`},
		"lists of nothing":        {format(1, "+w:0"), `"lists"`},
		"lists without a size":    {format(1, "+w"), `"lists"`},
		"a list without items":    {format(0, "+l"), `"text"`},
		"a struct with a child":   {format(1, "i"), `"lists"`},
		"runs with a child":       {format(1, "+r"), `"lists"`},
		"a map of a number":       {format(1, "+m"), `"lists"`},
		"a union without ids":     {format(4, "+us:"), `"union"`},
		"a union of 200":          {format(4, "+us:200"), `"union"`},
		"a union of words":        {format(4, "+ud:x"), `"union"`},
		"a union with -1":         {format(4, "+us:-1"), `"union"`},
		"run ends of int64 text":  {func(s *Schema) { s.childStructs()[5].childStructs()[0].format = text("u") }, `"runs"`},
		"no children":             {func(s *Schema) { s.childStructs()[1].children = 0 }, `"lists"`},
		"a missing child":         {func(s *Schema) { *(*uintptr)(pointer(s.childStructs()[1].children)) = 0 }, `"lists"`},
		"a negative child count":  {func(s *Schema) { s.childStructs()[1].nChildren = -1 }, `"lists"`},
		"a schema in itself":      {func(s *Schema) { *(*uintptr)(pointer(s.childStructs()[1].children)) = addressOf(s.childStructs()[1]) }, "nested deeper"},
		"negative metadata":       {func(s *Schema) { s.childStructs()[0].metadata = number(-1) }, `"text"`},
		"text as indices":         {func(s *Schema) { s.childStructs()[0].dictionary = addressOf(s.childStructs()[1]) }, `"text"`},
		"a malformed dictionary":  {func(s *Schema) { (*Schema)(pointer(s.childStructs()[3].dictionary)).format = text("?") }, `"codes.dictionary"`},
		"an extension of its own": {func(s *Schema) { s.childStructs()[0].metadata = addressOf(&badTag[0]) }, `"text"`},
	} {
		t.Run(name, func(t *testing.T) {
			requireNoHandles(t)
			var s Schema
			require.NoError(t, ExportSchema(arrow.NewSchema(everything.Fields(), nil), &s))
			tt.wrong(&s)
			_, err := ImportSchema(&s)
			require.ErrorIs(t, err, arrow.ErrInvalid)
			assert.ErrorContains(t, err, tt.path)
			assert.True(t, s.Released())
		})
	}
}

// badTag is metadata that the test's extension type rejects.
var badTag, _ = encodeMetadata(arrow.NewMetadata([]string{extensionName, extensionData}, []string{"quiver.test.cdevice.tagged", "?"}))

func TestImportRejectsReleasedSchemas(t *testing.T) {
	requireNoHandles(t)
	for _, in := range []*Schema{nil, {}} {
		_, err := ImportSchema(in)
		assert.ErrorIs(t, err, arrow.ErrInvalid)
		_, err = ImportField(in)
		assert.ErrorIs(t, err, arrow.ErrInvalid)
	}
	var s Schema
	require.NoError(t, ExportField(arrow.Field{Type: arrow.Null}, &s))
	_, err := ImportSchema(&s)
	assert.ErrorIs(t, err, arrow.ErrInvalid)
	assert.ErrorContains(t, err, "got a schema of null, want a struct")
}

func TestUnknownExtensionTypeStaysInMetadata(t *testing.T) {
	requireNoHandles(t)
	field := arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int8,
		Metadata: arrow.NewMetadata([]string{extensionName, extensionData, "k"}, []string{"nobody.knows", "", "v"})}
	var s Schema
	require.NoError(t, ExportField(field, &s))
	back, err := ImportField(&s)
	require.NoError(t, err)
	assert.True(t, field.Equal(back))
}

func TestExportRejectsTypesWithoutFormat(t *testing.T) {
	requireNoHandles(t)
	var s Schema
	for _, tt := range []struct {
		field arrow.Field
		want  error
	}{
		{arrow.Field{Name: "a\x00b", Type: arrow.Null}, arrow.ErrInvalid},
		{arrow.Field{Type: &arrow.TimestampType{TimeZone: "a\x00b"}}, arrow.ErrInvalid},
		{arrow.Field{}, arrow.ErrInvalid},
		{arrow.Field{Type: newTagged(newTagged(arrow.Null))}, arrow.ErrNotImplemented},
		{arrow.Field{Type: &arrow.TimestampType{Unit: 9}}, arrow.ErrNotImplemented},
	} {
		err := ExportField(arrow.Field{Name: "outer", Type: arrow.StructOf(arrow.Field{Name: "x", Type: arrow.Null})}, &s)
		require.NoError(t, err)
		s.Release()
		assert.ErrorIs(t, ExportField(tt.field, &s), tt.want)
		assert.True(t, s.Released())
	}
	nested := arrow.Field{Name: "outer", Type: arrow.ListOfField(arrow.Field{Name: "in\x00ner", Type: arrow.Null})}
	err := ExportField(nested, &s)
	assert.ErrorContains(t, err, `"in\x00ner"`)
}

func TestFieldsRoundTrip(t *testing.T) {
	requireNoHandles(t)
	for _, dtype := range types {
		for _, field := range []arrow.Field{
			{Name: "", Type: dtype},
			{Name: "näme", Type: dtype, Nullable: true, Metadata: arrow.NewMetadata([]string{"k", "", "k"}, []string{"v", "\x00\xff", ""})},
		} {
			var s Schema
			require.NoError(t, ExportField(field, &s))
			back, err := ImportField(&s)
			require.NoError(t, err)
			assert.True(t, s.Released())
			assert.True(t, field.Equal(back), "want %v\ngot %v", field, back)
			assert.Equal(t, dtype.String(), back.Type.String())
		}
	}
}

func TestSchemasRoundTrip(t *testing.T) {
	requireNoHandles(t)
	var fields []arrow.Field
	for _, dtype := range types {
		fields = append(fields, arrow.Field{Name: dtype.Name(), Type: dtype, Nullable: true})
	}
	meta := arrow.MetadataFrom(map[string]string{"made by": "a test"})
	for _, want := range []*arrow.Schema{arrow.NewSchema(fields, &meta), arrow.NewSchema(nil, nil)} {
		var s Schema
		require.NoError(t, ExportSchema(want, &s))
		assert.Equal(t, "+s", cString(s.format))
		assert.Zero(t, s.flags)
		back, err := ImportSchema(&s)
		require.NoError(t, err)
		assert.True(t, want.Equal(back), back)
		assert.True(t, want.Metadata().Equal(back.Metadata()))
	}
}

func TestFormatsMatchSpecification(t *testing.T) {
	for dtype, want := range map[arrow.DataType]string{
		arrow.Null: "n", arrow.FixedWidthTypes.Boolean: "b", arrow.PrimitiveTypes.Int8: "c", arrow.PrimitiveTypes.Uint8: "C",
		arrow.PrimitiveTypes.Int16: "s", arrow.PrimitiveTypes.Uint16: "S", arrow.PrimitiveTypes.Int32: "i", arrow.PrimitiveTypes.Uint32: "I",
		arrow.PrimitiveTypes.Int64: "l", arrow.PrimitiveTypes.Uint64: "L", arrow.FixedWidthTypes.Float16: "e",
		arrow.PrimitiveTypes.Float32: "f", arrow.PrimitiveTypes.Float64: "g",
		arrow.BinaryTypes.Binary: "z", arrow.BinaryTypes.LargeBinary: "Z", arrow.BinaryTypes.BinaryView: "vz",
		arrow.BinaryTypes.String: "u", arrow.BinaryTypes.LargeString: "U", arrow.BinaryTypes.StringView: "vu",
		&arrow.Decimal32Type{Precision: 9, Scale: 2}: "d:9,2,32", &arrow.Decimal64Type{Precision: 12, Scale: 2}: "d:12,2,64",
		&arrow.Decimal128Type{Precision: 19, Scale: 10}: "d:19,10", &arrow.Decimal256Type{Precision: 19, Scale: -1}: "d:19,-1,256",
		&arrow.FixedSizeBinaryType{ByteWidth: 42}: "w:42",
		arrow.FixedWidthTypes.Date32:              "tdD", arrow.FixedWidthTypes.Date64: "tdm", arrow.FixedWidthTypes.Time32s: "tts",
		arrow.FixedWidthTypes.Time32ms: "ttm", arrow.FixedWidthTypes.Time64us: "ttu", arrow.FixedWidthTypes.Time64ns: "ttn",
		&arrow.TimestampType{Unit: arrow.Second}: "tss:", &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: "UTC"}: "tsm:UTC",
		&arrow.TimestampType{Unit: arrow.Microsecond}: "tsu:", &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "+01:00"}: "tsn:+01:00",
		arrow.FixedWidthTypes.Duration_s: "tDs", arrow.FixedWidthTypes.Duration_ms: "tDm", arrow.FixedWidthTypes.Duration_us: "tDu", arrow.FixedWidthTypes.Duration_ns: "tDn",
		arrow.FixedWidthTypes.MonthInterval: "tiM", arrow.FixedWidthTypes.DayTimeInterval: "tiD", arrow.FixedWidthTypes.MonthDayNanoInterval: "tin",
		arrow.ListOf(arrow.Null): "+l", arrow.LargeListOf(arrow.Null): "+L", arrow.ListViewOf(arrow.Null): "+vl", arrow.LargeListViewOf(arrow.Null): "+vL",
		arrow.FixedSizeListOf(123, arrow.Null): "+w:123", arrow.StructOf(): "+s", arrow.MapOf(arrow.BinaryTypes.String, arrow.Null): "+m",
		arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.Null): "+r",
		arrow.DenseUnionOf(nil, nil):                                  "+ud:",
		arrow.SparseUnionOf([]arrow.Field{{Name: "a", Type: arrow.Null}, {Name: "b", Type: arrow.Null}}, []arrow.UnionTypeCode{4, 2}): "+us:4,2",
		&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int16, ValueType: arrow.BinaryTypes.String}:                             "s",
	} {
		format, _, err := formatOf(dtype)
		require.NoError(t, err)
		assert.Equal(t, want, format, dtype)
	}
	decimal, err := parseFormat("d:19,10,128", 0, nil)
	require.NoError(t, err)
	assert.Equal(t, &arrow.Decimal128Type{Precision: 19, Scale: 10}, decimal)
}
