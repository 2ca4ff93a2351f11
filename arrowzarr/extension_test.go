package arrowzarr_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/variant"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
)

// crs is the metadata of a column of GeoArrow, and geo that of a file of GeoParquet.
const (
	crs = `{"crs": {"type": "GeographicCRS", "id": {"authority": "EPSG", "code": 4326}}, "edges": "spherical"}`
	geo = `{"version": "1.1.0", "primary_column": "wkb", "columns": {"wkb": {"encoding": "WKB", "geometry_types": ["Point"], "crs": {"id": {"authority": "EPSG", "code": 4326}}}}}`
)

// geoField returns a field of GeoArrow, whose extension types arrow-go does not know.
func geoField(name, extension string, storage arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: storage, Nullable: true, Metadata: arrow.NewMetadata(
		[]string{"ARROW:extension:name", "ARROW:extension:metadata"}, []string{extension, crs})}
}

// geometries returns a table of geometries in the forms of GeoArrow.
func geometries(tb testing.TB) tabletest.Table {
	tb.Helper()
	number := arrow.PrimitiveTypes.Float64
	point := arrow.StructOf(arrow.Field{Name: "x", Type: number}, arrow.Field{Name: "y", Type: number})
	pair := arrow.FixedSizeListOfNonNullable(2, number)
	fields := []arrow.Field{
		geoField("wkb", "geoarrow.wkb", arrow.BinaryTypes.Binary), geoField("wkt", "geoarrow.wkt", arrow.BinaryTypes.String),
		geoField("point", "geoarrow.point", point), geoField("interleaved", "geoarrow.point", pair),
		geoField("line", "geoarrow.linestring", arrow.ListOfNonNullable(point)),
		geoField("polygon", "geoarrow.polygon", arrow.ListOfNonNullable(arrow.ListOfNonNullable(pair))),
	}
	columns := []arrow.Array{
		tabletest.FromJSON(tb, fields[0].Type, `["AQEAAAAAAAAAAADwPwAAAAAAAABA", null]`), tabletest.Texts("POINT (1 2)", "-"),
		tabletest.FromJSON(tb, point, `[{"x": 1, "y": 2}, null]`), tabletest.FromJSON(tb, pair, `[[1, 2], null]`),
		tabletest.FromJSON(tb, fields[4].Type, `[[{"x": 1, "y": 2}, {"x": 3, "y": 4}], null]`),
		tabletest.FromJSON(tb, fields[5].Type, `[[[[1, 2], [3, 4], [5, 6], [1, 2]]], null]`),
	}
	metadata := arrow.NewMetadata([]string{"geo", "other"}, []string{geo, "kept"})
	return withSchema(tabletest.New(fields, columns), arrow.NewSchema(fields, &metadata))
}

// requireKept converts an input, and checks that the restored table has the schema that
// Convert saw, with all metadata, and the values.
func requireKept(t *testing.T, input string) *arrow.Schema {
	t.Helper()
	output, _ := convertFile(t, input, arrowzarr.Options{ChunkRows: 1})
	report, err := arrowzarr.Verify(t.Context(), input, output, arrowzarr.Options{})
	require.NoError(t, err)
	require.Empty(t, report.Difference)
	restored := filepath.Join(t.TempDir(), "restored.arrow")
	_, err = arrowzarr.Restore(t.Context(), output, restored, arrowzarr.RestoreOptions{})
	require.NoError(t, err)
	report, err = arrowzarr.Verify(t.Context(), restored, output, arrowzarr.Options{})
	require.NoError(t, err)
	require.Empty(t, report.Difference)
	return readTable(t, restored).Schema
}

func TestGeometriesKeepTheirReferenceSystem(t *testing.T) {
	whole := geometries(t)
	for name, content := range map[string][]byte{"stream": whole.Stream(t), "file": whole.File(t), "Parquet": whole.Parquet(t), "Parquet without a schema": whole.ParquetWithoutSchema(t)} {
		t.Run(name, func(t *testing.T) {
			schema := requireKept(t, inputFile(t, content))
			if name == "Parquet without a schema" { // its columns have no metadata; the file does
				kept, ok := schema.Metadata().GetValue("geo")
				assert.True(t, ok)
				assert.Equal(t, geo, kept)
				return
			}
			kept, _ := schema.Metadata().GetValue("geo")
			assert.Equal(t, geo, kept)
			for i, field := range whole.Schema.Fields() {
				for _, key := range field.Metadata.Keys() {
					want, _ := field.Metadata.GetValue(key)
					got, ok := schema.Field(i).Metadata.GetValue(key)
					assert.True(t, ok, "%s of %s", key, field.Name)
					assert.Equal(t, want, got)
				}
			}
		})
	}
}

func TestExtensionTypesAreRestored(t *testing.T) {
	json := func(storage arrow.DataType) arrow.ExtensionType {
		kind, err := extensions.NewJSONType(storage)
		require.NoError(t, err)
		return kind
	}
	opaque := extensions.NewOpaqueType(arrow.BinaryTypes.Binary, "vector", "maker")
	storages := []struct {
		kind   arrow.ExtensionType
		values string
	}{
		{extensions.NewUUIDType(), `["MDEyMzQ1Njc4OWFiY2RlZg==", null]`}, {extensions.NewBool8Type(), `[3, null]`},
		{json(arrow.BinaryTypes.String), `["{\"a\": 1}", null]`}, {json(arrow.BinaryTypes.LargeString), `["{\"a\": 1}", null]`},
		{opaque, `["YQ==", null]`},
	}
	var fields []arrow.Field
	var columns []arrow.Array
	for _, s := range storages {
		storage := tabletest.FromJSON(t, s.kind.StorageType(), s.values)
		fields = append(fields, arrow.Field{Name: fmt.Sprint(s.kind), Type: s.kind, Nullable: true})
		columns = append(columns, array.NewExtensionArrayWithStorage(s.kind, storage))
	}
	tensor := tensors(t, `{"shape": [2, 3], "dim_names": ["y", "x"]}`, 6, `[[1, 2, 3, 4, 5, 6], null]`)
	fields, columns = append(fields, tensor.Schema.Field(0)), append(columns, tensor.Batches[0].Column(0))
	whole := tabletest.New(fields, columns)
	for name, content := range map[string][]byte{"stream": whole.Stream(t), "file": whole.File(t), "Parquet": whole.Parquet(t)} {
		t.Run(name, func(t *testing.T) {
			schema := requireKept(t, inputFile(t, content))
			for i, f := range whole.Schema.Fields() {
				assert.True(t, arrow.TypeEqual(f.Type, schema.Field(i).Type), "%s: got %s, expected %s", f.Name, schema.Field(i).Type, f.Type)
				want, _ := f.Metadata.GetValue("ARROW:extension:metadata")
				got, _ := schema.Field(i).Metadata.GetValue("ARROW:extension:metadata")
				assert.Equal(t, want, got)
			}
		})
	}
}

// Variants are the structs that Parquet stores, shredded ones with their typed values.
func TestVariantsAreStructs(t *testing.T) {
	for name, kind := range map[string]*extensions.VariantType{
		"plain": extensions.NewDefaultVariantType(), "shredded": extensions.NewShreddedVariantType(arrow.PrimitiveTypes.Int64),
	} {
		t.Run(name, func(t *testing.T) {
			b := extensions.NewVariantBuilder(memory.DefaultAllocator, kind)
			for _, text := range []string{`{"a": [1, "x"]}`, `42`, `"text"`} {
				value, err := variant.ParseJSON(text, false)
				require.NoError(t, err)
				b.Append(value)
			}
			b.AppendNull()
			values := b.NewArray()
			whole := tabletest.New([]arrow.Field{{Name: "v", Type: kind, Nullable: true}}, []arrow.Array{values})
			for format, content := range map[string][]byte{"stream": whole.Stream(t), "Parquet": whole.Parquet(t)} {
				input := inputFile(t, content)
				schema := requireKept(t, input)
				assert.Equal(t, kind.ExtensionName(), schema.Field(0).Type.(arrow.ExtensionType).ExtensionName(), format)
				output, _ := convertFile(t, input, arrowzarr.Options{})
				found := codecs(t, output)
				assert.Contains(t, found, "v/metadata-data", format)
				assert.Contains(t, found, "v/value-data", format)
				if name == "shredded" {
					assert.Contains(t, found, "v/typed_value-data", format)
				}
			}
		})
	}
}

// Parquet's form of a storage may differ from it. The types are the stored ones still, also
// of fields with metadata of their own, and over nested types.
func TestExtensionTypesPassThroughParquet(t *testing.T) {
	kept := arrow.MetadataFrom(map[string]string{"k": "v"})
	json, err := extensions.NewJSONType(arrow.BinaryTypes.String)
	require.NoError(t, err)
	opaque := func(storage arrow.DataType) arrow.ExtensionType { return extensions.NewOpaqueType(storage, "t", "v") }
	zoned := &arrow.TimestampType{Unit: arrow.Second, TimeZone: "Europe/Berlin"}
	var fields []arrow.Field
	var columns []arrow.Array
	for name, test := range map[string]struct {
		kind   arrow.ExtensionType
		values string
	}{
		"json": {json, `["{}", null]`}, "view": {opaque(arrow.BinaryTypes.StringView), `["a", null]`},
		"list": {opaque(arrow.ListOf(arrow.PrimitiveTypes.Int8)), `[[1, 2], null]`}, "zoned": {opaque(zoned), `["2020-01-01T00:00:00Z", null]`},
		"struct": {opaque(arrow.StructOf(arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int8, Nullable: true})), `[{"a": 1}, null]`},
	} {
		fields = append(fields, arrow.Field{Name: name, Type: test.kind, Nullable: true, Metadata: kept})
		columns = append(columns, array.NewExtensionArrayWithStorage(test.kind, tabletest.FromJSON(t, test.kind.StorageType(), test.values)))
	}
	output, _ := convertFile(t, inputFile(t, tabletest.New(fields, columns).Stream(t)), arrowzarr.Options{})
	restored := filepath.Join(t.TempDir(), "restored.parquet")
	_, err = arrowzarr.Restore(t.Context(), output, restored, arrowzarr.RestoreOptions{})
	require.NoError(t, err)
	got := requireKept(t, restored)
	for i, f := range fields {
		if f.Name == "zoned" { // Parquet has no seconds
			f.Type = &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: "Europe/Berlin"}
		}
		assert.True(t, arrow.TypeEqual(f.Type, got.Field(i).Type), "%s: got %s, expected %s", f.Name, got.Field(i).Type, f.Type)
		value, _ := got.Field(i).Metadata.GetValue("k")
		assert.Equal(t, "v", value, f.Name)
	}
}
