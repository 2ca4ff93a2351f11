package arrowzarr_test

import (
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/zarr"
)

func TestDictionariesBecomeCategoricals(t *testing.T) {
	i8, u8 := arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Uint8
	tests := []struct {
		name    string
		batches []arrow.Array
		options []ipc.Option
	}{
		{"one", []arrow.Array{tabletest.Dictionary(i8, tabletest.Texts("b", "a"), 1, 0, 0)}, nil},
		{"nulls in indices", []arrow.Array{tabletest.Dictionary(i8, tabletest.Texts("b", "a"), 1, -1, 0, -1)}, nil},
		{"nulls in values", []arrow.Array{tabletest.Dictionary(i8, tabletest.Texts("b", "-", "a"), 1, 2, -1, 0, 1)}, nil},
		{"only nulls", []arrow.Array{tabletest.Dictionary(i8, tabletest.Texts("-"), 0, -1, 0)}, nil},
		{"no values", []arrow.Array{tabletest.Dictionary(i8, tabletest.Texts(), -1, -1)}, nil},
		{"no values, and numbers at that", []arrow.Array{tabletest.Dictionary(i8, tabletest.FromJSON(t, arrow.PrimitiveTypes.Int32, `[]`), -1, -1)}, nil},
		{"values that no row has", []arrow.Array{tabletest.Dictionary(i8, tabletest.Texts("x", "y", "z"), 2)}, nil},
		{"values that occur twice", []arrow.Array{tabletest.Dictionary(i8, tabletest.Texts("x", "y", "x"), 2, 1, 0)}, nil},
		{"replaced", []arrow.Array{
			tabletest.Dictionary(i8, tabletest.Texts("a", "b"), 0, 1), tabletest.Dictionary(i8, tabletest.Texts("c", "b"), 0, 1, -1), tabletest.Dictionary(i8, tabletest.Texts("a"), 0, 0, 0),
		}, nil},
		{"growing by replacement", []arrow.Array{
			tabletest.Dictionary(u8, tabletest.Texts("a", "b"), 0, 1), tabletest.Dictionary(u8, tabletest.Texts("a", "b", "c"), 2, 0, -1), tabletest.Dictionary(u8, tabletest.Texts("a", "b", "c", "d"), 3),
		}, nil},
		{"growing by deltas", []arrow.Array{
			tabletest.Dictionary(i8, tabletest.Texts("a", "b"), 0, 1), tabletest.Dictionary(i8, tabletest.Texts("a", "b", "c"), 2, 0, -1), tabletest.Dictionary(i8, tabletest.Texts("a", "b", "c", "-", "d"), 3, 4),
		}, []ipc.Option{ipc.WithDictionaryDeltas(true)}},
		{"the same for all batches", []arrow.Array{
			tabletest.Dictionary(i8, tabletest.Texts("a", "b"), 0, 1, 1), tabletest.Dictionary(i8, tabletest.Texts("a", "b"), 0), tabletest.Dictionary(i8, tabletest.Texts("a", "b"), 1, 0),
		}, nil},
		{"a slice of rows", []arrow.Array{array.NewSlice(tabletest.Dictionary(i8, tabletest.Texts("a", "b", "c"), 2, 1, -1, 0, 2, 2), 1, 5)}, nil},
		{"a slice of values", []arrow.Array{tabletest.Dictionary(i8, array.NewSlice(tabletest.Texts("a", "b", "c"), 1, 3), 1, 0, -1)}, nil},
		{"no rows", []arrow.Array{tabletest.Dictionary(i8, tabletest.Texts("a"))}, nil},
		{"128 values of int8", []arrow.Array{tabletest.Dictionary(i8, tabletest.Numbered(0, 128), 127, 0)}, nil},
		{"256 values of uint8", []arrow.Array{tabletest.Dictionary(u8, tabletest.Numbered(0, 256), 255, 0, 128)}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			want := tabletest.Single("c", test.batches...)
			input := inputFile(t, want.Stream(t, test.options...))
			for _, options := range []arrowzarr.Options{{}, {ChunkRows: 2}, {ChunkRows: 2, ShardRows: 4}} {
				output, _ := convertFile(t, input, options)
				requireTable(t, want, output)
			}
			cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
				output, _ := convertFile(t, input, arrowzarr.Options{Device: dev, ChunkRows: 3})
				requireTable(t, want, output)
			})
		})
	}
}

// Categories can have every supported type, and indices every integer type.
func TestDictionariesOfEveryType(t *testing.T) {
	rng := tabletest.NewRand(3)
	indexes := []arrow.DataType{
		arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64,
		arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Uint64,
	}
	var fields []arrow.Field
	var first, second []arrow.Array
	for i, value := range tabletest.Types {
		if value.ID() == arrow.NULL || value.ID() == arrow.EXTENSION {
			continue
		}
		index := indexes[i%len(indexes)]
		fields = append(fields, arrow.Field{Name: fmt.Sprintf("%02d", i), Type: &arrow.DictionaryType{IndexType: index, ValueType: value}, Nullable: true})
		first = append(first, tabletest.Dictionary(index, tabletest.Random(rng, value, 4, 0), 3, 0, -1, 1, 2))
		nulls := 0.4
		if value.ID() == arrow.FIXED_SIZE_LIST {
			nulls = 0 // see TestCategoriesWithMissingElementsAreRefused
		}
		second = append(second, tabletest.Dictionary(index, tabletest.Random(rng, value, 3, nulls), 2, 1, 0))
	}
	want := tabletest.New(fields, first, second)
	input := inputFile(t, want.Stream(t))
	output, _ := convertFile(t, input, arrowzarr.Options{ChunkRows: 4})
	requireTable(t, want, output)
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		output, _ := convertFile(t, input, arrowzarr.Options{Device: dev})
		requireTable(t, want, output)
	})
}

func TestTooManyCategoriesForTheCodesAreRefused(t *testing.T) {
	tests := map[string]struct {
		want    string
		batches []arrow.Array
	}{
		"int8, replaced": {"more than 128 different values", []arrow.Array{
			tabletest.Dictionary(arrow.PrimitiveTypes.Int8, tabletest.Numbered(0, 100), 99), tabletest.Dictionary(arrow.PrimitiveTypes.Int8, tabletest.Numbered(50, 100), 99),
		}},
		"int8, at once": {"more than 128 different values", []arrow.Array{
			tabletest.Dictionary(arrow.PrimitiveTypes.Int8, tabletest.Numbered(0, 129), 1),
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			message := refuse(t, arrowzarr.PartInput, inputFile(t, tabletest.Single("kinds", test.batches...).Stream(t)), arrowzarr.Options{})
			assert.Contains(t, message, `"kinds"`)
			assert.Contains(t, message, test.want)
		})
	}
}

func TestIndicesOutsideTheDictionaryAreRefused(t *testing.T) {
	for _, index := range []int{2, 127} {
		input := tabletest.Single("kinds", tabletest.Dictionary(arrow.PrimitiveTypes.Int8, tabletest.Texts("a", "b"), 0, index)).Stream(t)
		message := refuse(t, arrowzarr.PartInput, inputFile(t, input), arrowzarr.Options{})
		assert.Contains(t, message, "kinds")
	}
}

func TestOrderedDictionariesHaveTheAttribute(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		kind := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String, Ordered: ordered}
		of := tabletest.Dictionary(arrow.PrimitiveTypes.Int8, tabletest.Texts("low", "high"), 1, 0).(*array.Dictionary)
		input := tabletest.Single("c", array.NewDictionaryArray(kind, of.Indices(), of.Dictionary()))
		output, _ := convertCodes(t, input.File(t), arrowzarr.Options{})
		group, err := openRoot(t, output).OpenGroup(t.Context(), "c")
		require.NoError(t, err)
		attributes := group.Metadata().Attributes
		assert.Equal(t, ordered, attributes["ordered"])
		assert.Equal(t, "categorical", attributes["encoding-type"])
		assert.Equal(t, "0.2.0", attributes["encoding-version"])
	}
}

// Categories have no mask, so a dictionary of lists is a nested column.
func TestDictionariesOfFixedSizeListsKeepMissingElements(t *testing.T) {
	for _, kind := range []arrow.DataType{arrow.PrimitiveTypes.Int8, arrow.FixedWidthTypes.Boolean} {
		pairs := tabletest.FromJSON(t, arrow.FixedSizeListOf(2, kind), `[[1, 0], [1, null], [null, null]]`)
		input := inputFile(t, tabletest.Single("pairs", tabletest.Dictionary(arrow.PrimitiveTypes.Int8, pairs, 0, 1, -1, 2, 1)).Stream(t))
		output, report := convertFile(t, input, arrowzarr.Options{ChunkRows: 2})
		assert.Equal(t, 1, report.Nested)
		requireVerified(t, input, output)
	}
}

// anndata makes an index of categories, which cannot have all values.
func TestDictionariesWithNaNsOrEqualValuesAreNotCategoricals(t *testing.T) {
	decimals := array.NewDecimal128Builder(memory.DefaultAllocator, &arrow.Decimal128Type{Precision: 5})
	decimals.Append(decimal128.FromI64(7))
	times := func(values ...arrow.Timestamp) arrow.Array {
		b := array.NewTimestampBuilder(memory.DefaultAllocator, &arrow.TimestampType{Unit: arrow.Second})
		b.AppendValues(values, nil)
		return b.NewArray()
	}
	for name, c := range map[string]struct {
		values arrow.Array
		index  bool
	}{
		"times":      {times(1, math.MaxInt64), true},
		"NaT":        {times(1, math.MinInt64), false},
		"text":       {tabletest.Texts("a", "b"), true},
		"floats":     {tabletest.Floats(1.5, 2), true},
		"a NaN":      {tabletest.Floats(1.5, math.NaN()), false},
		"two zeros":  {tabletest.Floats(0, math.Copysign(0, -1)), false},
		"decimals":   {decimals.NewArray(), false},
		"infinities": {tabletest.Floats(math.Inf(1), math.Inf(-1)), true},
	} {
		output, _ := convertCodes(t, tabletest.Single("x", tabletest.Dictionary(arrow.PrimitiveTypes.Int8, c.values, 0, -1)).File(t), arrowzarr.Options{})
		column := openRoot(t, output).Metadata().Consolidated["x"].(*zarr.GroupMetadata)
		assert.Equal(t, c.index, column.Attributes["encoding-type"] == "categorical", name)
	}
}

func TestRunsOfRunsBecomeTheirValues(t *testing.T) {
	ends := func(values ...int32) arrow.Array {
		b := array.NewInt32Builder(memory.DefaultAllocator)
		b.AppendValues(values, nil)
		return b.NewArray()
	}
	for _, values := range []arrow.Array{tabletest.Texts("a", "-", "b"), tabletest.Floats(1, 2, 3)} {
		inner := array.NewRunEndEncodedArray(ends(2, 3, 5), values, 5, 0)
		outer := array.NewRunEndEncodedArray(ends(1, 3, 4, 6, 7), inner, 7, 0)
		input := inputFile(t, tabletest.Single("x", outer).Stream(t))
		output, _ := convertFile(t, input, arrowzarr.Options{ChunkRows: 2})
		requireVerified(t, input, output)
	}
}

// The values take more than their share of the memory, so some are kept in a file.
func TestCategoriesOverMaxMemoryAreConverted(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	values := array.NewStringBuilder(memory.DefaultAllocator)
	var first, second []int
	for i := range 600_000 {
		values.Append(fmt.Sprintf("%040d", i))
		first, second = append(first, i), append(second, i/2)
	}
	dictionary := values.NewArray()
	// The second dictionary has values of the first, which are found in the file.
	half := array.NewSlice(dictionary, 0, 300_000)
	input := inputFile(t, tabletest.Single("x", tabletest.Dictionary(arrow.PrimitiveTypes.Int32, dictionary, first...), tabletest.Dictionary(arrow.PrimitiveTypes.Int32, half, second...)).Stream(t))
	output, _ := convertFile(t, input, arrowzarr.Options{MaxMemory: 256 << 20})
	report, err := arrowzarr.Verify(t.Context(), input, output, arrowzarr.Options{})
	require.NoError(t, err)
	require.Empty(t, report.Difference)
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	assert.Empty(t, left)
}
