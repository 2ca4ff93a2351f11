package arrowzarr_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
	"github.com/quiver-gpu/quiver/zarr"
)

func TestCodecsAreParsedAndPrinted(t *testing.T) {
	type codec = arrowzarr.Codec
	for text, want := range map[string]codec{
		"none":                    {Name: "none"},
		"zstd":                    {Name: "zstd", Level: 1},
		"zstd:-5":                 {Name: "zstd", Level: -5},
		"gzip":                    {Name: "gzip", Level: 6},
		"gzip:0":                  {Name: "gzip"},
		"lz4":                     {Name: "lz4"},
		"blosc:zstd":              {Name: "blosc", Inner: "zstd", Level: 5},
		"blosc:lz4hc:9":           {Name: "blosc", Inner: "lz4hc", Level: 9},
		"blosc:zlib:0:noshuffle":  {Name: "blosc", Inner: "zlib", Shuffle: "noshuffle"},
		"blosc:lz4:5:bitshuffle":  {Name: "blosc", Inner: "lz4", Level: 5, Shuffle: "bitshuffle"},
		"blosc:blosclz:1:shuffle": {Name: "blosc", Inner: "blosclz", Level: 1, Shuffle: "shuffle"},
		"auto":                    {Name: "auto", Effort: arrowzarr.Balanced},
		"auto:small":              {Name: "auto", Effort: arrowzarr.Small},
	} {
		c, err := arrowzarr.ParseCodec(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, c, text)
		again, err := arrowzarr.ParseCodec(c.String())
		require.NoError(t, err, c.String())
		assert.Equal(t, c, again)
	}
	for text, want := range map[string]string{
		"":                      "expected none, zstd",
		"lzma":                  "expected none, zstd",
		"none:1":                "expected nothing after",
		"lz4:1":                 "expected nothing after",
		"zstd:":                 "expected a level that is a number",
		"zstd:x":                "expected a level that is a number",
		"zstd:23":               "expected a level from -131072 to 22, not 23",
		"zstd:1:2":              "expected nothing after",
		"gzip:10":               "expected a level from 0 to 9",
		"blosc":                 "expected blosclz, lz4",
		"blosc:brotli":          "expected blosclz, lz4",
		"blosc:zstd:10":         "expected a level from 0 to 9",
		"blosc:zstd:1:":         "expected shuffle, bitshuffle or noshuffle",
		"blosc:zstd:1:mix":      "expected shuffle, bitshuffle or noshuffle",
		"blosc:zstd:shuffle":    "expected a level that is a number",
		"blosc:zstd:1:shuffle:": "expected nothing after",
		"auto:best":             "expected fast, balanced or small",
		"auto:":                 "expected fast, balanced or small",
	} {
		_, err := arrowzarr.ParseCodec(text)
		assert.ErrorContains(t, err, want, text)
	}
}

func TestCodecRulesAreAdded(t *testing.T) {
	var o arrowzarr.Options
	for _, text := range []string{"gzip", "float=none", "temp=lz4", "column:float=zstd:3", "a=b=zstd:4", "gzip:7"} {
		require.NoError(t, o.AddCodec(text), text)
	}
	assert.Equal(t, "gzip:7", o.Codec.String())
	assert.Equal(t, map[arrowzarr.Class]arrowzarr.Codec{"float": {Name: "none"}}, o.ClassCodecs)
	assert.Equal(t, map[string]arrowzarr.Codec{
		"temp": {Name: "lz4"}, "float": {Name: "zstd", Level: 3}, "a=b": {Name: "zstd", Level: 4},
	}, o.ColumnCodecs)
	assert.ErrorContains(t, o.AddCodec("float=best"), `codec "best"`)
}

// codecs returns the names of the codecs of an output's arrays, with their settings.
func codecs(tb testing.TB, output string) map[string]string {
	tb.Helper()
	found := map[string]string{}
	for path, node := range openRoot(tb, output).Metadata().Consolidated {
		if m, ok := node.(*zarr.ArrayMetadata); ok {
			last := m.Codecs[len(m.Codecs)-1]
			found[path] = fmt.Sprintf("%s %v", last.Name(), last.Configuration())
		}
	}
	return found
}

// mixed returns a table of a column of each class, and of columns of several arrays.
func mixed(tb testing.TB) tabletest.Table {
	tb.Helper()
	dictionary := tabletest.Dictionary(arrow.PrimitiveTypes.Int8, tabletest.Texts("x", "y"), 0, 1, 0)
	columns := []struct {
		name   string
		values arrow.Array
	}{
		{"i", tabletest.FromJSON(tb, arrow.PrimitiveTypes.Int32, "[1, 2, 3]")},
		{"f", tabletest.FromJSON(tb, arrow.PrimitiveTypes.Float32, "[1, null, 3]")},
		{"b", tabletest.FromJSON(tb, arrow.FixedWidthTypes.Boolean, "[true, false, true]")},
		{"s", tabletest.Texts("a", "b", "c")},
		{"y", tabletest.FromJSON(tb, arrow.BinaryTypes.Binary, `["YQ==", "Yg==", "Yw=="]`)},
		{"t", tabletest.FromJSON(tb, arrow.FixedWidthTypes.Date32, `["2020-01-01", "2020-01-02", "2020-01-03"]`)},
		{"m", tabletest.FromJSON(tb, &arrow.Decimal128Type{Precision: 5, Scale: 1}, `["1.5", "2.5", "3.5"]`)},
		{"d", dictionary},
		{"v", tabletest.FromJSON(tb, arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float64), "[[1, 2], [3, 4], [5, 6]]")},
		{"n", tabletest.FromJSON(tb, arrow.ListOf(arrow.PrimitiveTypes.Float32), "[[1], null, [2, 3]]")},
		{"r", tabletest.FromJSON(tb, arrow.ListOf(arrow.BinaryTypes.String), `[["a"], [], ["b", "c"]]`)},
	}
	var fields []arrow.Field
	var arrays []arrow.Array
	for _, c := range columns {
		fields, arrays = append(fields, arrow.Field{Name: c.name, Type: c.values.DataType(), Nullable: true}), append(arrays, c.values)
	}
	return tabletest.New(fields, arrays)
}

func TestCodecsFollowClassesAndColumns(t *testing.T) {
	whole := mixed(t)
	input := inputFile(t, whole.File(t))
	options := arrowzarr.Options{NoIndex: true}
	level := map[string]int{}
	for i, class := range []string{"int", "float", "bool", "text", "binary", "time", "decimal"} {
		level[class] = i + 2
		require.NoError(t, options.AddCodec(fmt.Sprintf("%s=zstd:%d", class, i+2)))
	}
	require.NoError(t, options.AddCodec("v=zstd:9"))
	want := map[string]int{
		"i": level["int"], "f/values": level["float"], "f/mask": level["bool"], "b": level["bool"], "s": level["text"], "y": level["binary"],
		"t": level["time"], "m": level["decimal"], "d/codes": level["int"], "d/categories": level["text"], "v": 9,
		"n/list-mask": level["bool"], "n/list-offsets": level["int"], "n/item-data": level["float"],
		"r/list-offsets": level["int"], "r/item-offsets": level["int"], "r/item-data": level["text"],
	}
	for name, shardRows := range map[string]int64{"chunks": 0, "shards": 4} {
		t.Run(name, func(t *testing.T) {
			options.ChunkRows, options.ShardRows = 2, shardRows
			output, report := convertFile(t, input, options)
			requireTable(t, whole, output)
			requireVerified(t, input, output)
			wantTexts := map[string]string{}
			for path, level := range want {
				wantTexts[path] = fmt.Sprintf("zstd:%d", level)
			}
			assert.Equal(t, wantTexts, report.Codecs)
			if shardRows == 0 {
				for path, found := range codecs(t, output) {
					assert.Contains(t, found, fmt.Sprintf("zstd [{level %d}", want[path]), path)
				}
			}
			assert.Equal(t, "zstd:1 binary=zstd:6 bool=zstd:4 decimal=zstd:8 float=zstd:3 int=zstd:2 text=zstd:5 time=zstd:7 v=zstd:9", report.Codec)
		})
	}
	assert.Contains(t, refuse(t, arrowzarr.PartUsage, input, arrowzarr.Options{ColumnCodecs: map[string]arrowzarr.Codec{"z": arrowzarr.DefaultCodec}}), `codec: no column is named "z"`)
	assert.Contains(t, refuse(t, arrowzarr.PartUsage, input, arrowzarr.Options{ClassCodecs: map[arrowzarr.Class]arrowzarr.Codec{"z": arrowzarr.DefaultCodec}}), `codec of the class "z"`)
}

func TestEveryCodecKeepsTheTable(t *testing.T) {
	whole := mixed(t)
	input := inputFile(t, whole.File(t))
	texts := []string{"none", "zstd:3", "gzip:1", "lz4", "auto:fast", "auto", "auto:small", "blosc:zstd"}
	for _, inner := range []string{"blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"} {
		for _, shuffle := range []string{"shuffle", "bitshuffle", "noshuffle"} {
			texts = append(texts, "blosc:"+inner+":5:"+shuffle)
		}
	}
	for _, text := range texts {
		t.Run(text, func(t *testing.T) {
			var o arrowzarr.Options
			require.NoError(t, o.AddCodec(text))
			o.ChunkRows = 2
			output, _ := convertFile(t, input, o)
			requireTable(t, whole, output)
		})
	}
	output, _ := convertFile(t, input, arrowzarr.Options{Codec: arrowzarr.Codec{Name: "blosc", Inner: "zstd", Level: 5}})
	found := codecs(t, output)
	for path, shuffle := range map[string]string{"s": "noshuffle", "y": "noshuffle", "r/item-data": "noshuffle", "b": "bitshuffle", "i": "shuffle"} {
		assert.Contains(t, found[path], "{shuffle "+shuffle+"}", path)
	}
}

// compressible returns a table of columns that different codecs suit: a smooth sequence,
// noise, and repeated text.
func compressible(rows int) tabletest.Table {
	rng := tabletest.NewRand(3)
	smooth, noise := make([]int64, rows), make([]byte, 0, 8*rows)
	text := array.NewStringBuilder(memory.DefaultAllocator)
	for i := range rows {
		smooth[i] = int64(i)*1000 + int64(rng.IntN(1000))
		noise = binary.LittleEndian.AppendUint64(noise, rng.Uint64())
		text.Append("a repeated text of several words")
	}
	ids := array.NewInt64Builder(memory.DefaultAllocator)
	ids.AppendValues(smooth, nil)
	floats := array.NewFloat64Builder(memory.DefaultAllocator)
	for i := range rows {
		floats.Append(math.Float64frombits(binary.LittleEndian.Uint64(noise[8*i:])))
	}
	columns := []arrow.Array{ids.NewArray(), floats.NewArray(), text.NewArray()}
	return tabletest.New([]arrow.Field{
		{Name: "smooth", Type: arrow.PrimitiveTypes.Int64}, {Name: "noise", Type: arrow.PrimitiveTypes.Float64}, {Name: "text", Type: arrow.BinaryTypes.String},
	}, columns)
}

// Auto stores every array within 2% of the best of its candidates, and no codec that
// helps nothing.
func TestAutoTakesTheSmallestOfItsCandidates(t *testing.T) {
	input := inputFile(t, compressible(1<<16).File(t))
	size := func(codec string) (map[string]int64, map[string]string) {
		var o arrowzarr.Options
		require.NoError(t, o.AddCodec(codec))
		output, report := convertFile(t, input, o)
		contents, err := arrowzarr.Inspect(t.Context(), output, arrowzarr.InspectOptions{})
		require.NoError(t, err)
		sizes := map[string]int64{}
		for _, c := range contents.Columns {
			sizes[c.Name] = c.StoredBytes
		}
		return sizes, report.Codecs
	}
	auto, chosen := size("auto")
	assert.Equal(t, "none", chosen["noise"])
	assert.Contains(t, chosen["smooth"], "shuffle")
	for _, codec := range []string{"zstd:1", "zstd:3", "blosc:zstd:5:shuffle", "blosc:zstd:5:bitshuffle", "blosc:lz4:5:shuffle", "none"} {
		other, _ := size(codec)
		for _, name := range []string{"smooth", "noise", "text"} {
			assert.LessOrEqual(t, float64(auto[name]), 1.02*float64(other[name]), "%s: %s, not %s", name, chosen[name], codec)
		}
	}
	small, _ := size("auto:small")
	assert.Less(t, small["smooth"], auto["smooth"]+1)
	fast, chosen := size("auto:fast")
	assert.Regexp(t, "^(blosc:lz4|none)", chosen["text"])
	assert.GreaterOrEqual(t, fast["smooth"], small["smooth"])
}

// The codecs of an output do not depend on the number of cores, or on the device.
func TestAutoIsDeterministic(t *testing.T) {
	batches := []int{300, 100}
	if testing.Short() {
		batches = []int{100, 50}
	}
	input := inputFile(t, nestedTable(4, batches, 0.2).Stream(t))
	want, report := convertFile(t, input, arrowzarr.Options{Codec: arrowzarr.Codec{Name: "auto", Effort: arrowzarr.Balanced}, Jobs: 1, ChunkRows: 64})
	require.NotEmpty(t, report.Codecs)
	got, again := convertFile(t, input, arrowzarr.Options{Codec: arrowzarr.Codec{Name: "auto", Effort: arrowzarr.Balanced}, Jobs: 4, ChunkRows: 64})
	assert.Equal(t, report.Codecs, again.Codecs)
	assert.Equal(t, documents(t, want), documents(t, got))
	requireVerified(t, input, got)
}
