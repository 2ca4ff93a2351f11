package arrowzarr_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
)

func TestInspectListsUnreadableNodesAndOverflows(t *testing.T) {
	root := t.TempDir()
	write := func(at, text string) {
		require.NoError(t, os.MkdirAll(filepath.Join(root, at), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(root, at, "zarr.json"), []byte(text), 0o666))
	}
	array := func(shape, codec string) string {
		return `{"zarr_format":3,"node_type":"array","shape":` + shape + `,"data_type":"int64","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[1,1]}},
			"chunk_key_encoding":{"name":"default"},"fill_value":0,"codecs":[{"name":"bytes","configuration":{"endian":"little"}}` + codec + `],"attributes":{}}`
	}
	write("", `{"zarr_format":3,"node_type":"group","attributes":{}}`)
	write("vast", array("[1099511627776,1073741824]", ""))
	write("strange", array("[2,2]", `,{"name":"n5_default"}`))
	contents, err := arrowzarr.Inspect(t.Context(), root, arrowzarr.InspectOptions{})
	require.NoError(t, err)
	found := map[string]arrowzarr.ColumnStats{}
	for _, c := range contents.Columns {
		found[c.Name] = c
	}
	assert.Equal(t, int64(-1), found["vast"].RawBytes)
	assert.Contains(t, found["strange"].Type, "n5_default")
	assert.Zero(t, contents.RawBytes)
}

// Nulls of the elements of a list, or of a field of a struct, are not nulls of the
// column.
func TestInspectDoesNotCountNullsOfElements(t *testing.T) {
	lists := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int8)
	structs := array.NewStructBuilder(memory.DefaultAllocator, arrow.StructOf(arrow.Field{Name: "v", Type: arrow.PrimitiveTypes.Int8, Nullable: true}))
	for range 2 {
		lists.Append(true)
		lists.ValueBuilder().AppendNulls(2)
		structs.Append(true)
		structs.FieldBuilder(0).AppendNull()
	}
	columns := []arrow.Array{lists.NewArray(), structs.NewArray(), tabletest.Texts("a", "-")}
	schema := arrow.NewSchema([]arrow.Field{{Name: "lists", Type: columns[0].DataType(), Nullable: true}, {Name: "structs", Type: columns[1].DataType(), Nullable: true}, {Name: "texts", Type: columns[2].DataType(), Nullable: true}}, nil)
	input := inputFile(t, tabletest.Table{Schema: schema, Batches: []arrow.RecordBatch{array.NewRecordBatch(schema, columns, 2)}}.Parquet(t))
	contents, err := arrowzarr.Inspect(t.Context(), input, arrowzarr.InspectOptions{})
	require.NoError(t, err)
	for i, nulls := range []int64{-1, -1, 1} {
		assert.Equal(t, nulls, contents.Columns[i].Nulls, contents.Columns[i].Name)
	}
}
