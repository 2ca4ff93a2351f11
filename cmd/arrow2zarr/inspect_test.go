package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
)

// inputs returns the paths of the weather in every format.
func inputs(t *testing.T) map[string]string {
	t.Helper()
	batch := weather()
	var file, columns bytes.Buffer
	w, err := ipc.NewFileWriter(&file, ipc.WithSchema(batch.Schema()))
	require.NoError(t, err)
	require.NoError(t, w.Write(batch))
	require.NoError(t, w.Close())
	p, err := pqarrow.NewFileWriter(batch.Schema(), &columns, parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Snappy)), pqarrow.DefaultWriterProps())
	require.NoError(t, err)
	require.NoError(t, p.Write(batch))
	require.NoError(t, p.Close())
	stream := inputFile(t, stream(t, batch))
	output := outputPath(t)
	mustRun(t, "convert", stream, output, "--chunk-rows", "2", "--shard-rows", "4", "--index", "none")
	return map[string]string{
		"Arrow IPC file": inputFile(t, file.Bytes()), "Arrow IPC stream": stream,
		"Parquet": inputFile(t, columns.Bytes()), "Zarr v3": output,
	}
}

func TestInspectPrintsColumns(t *testing.T) {
	found := inputs(t)
	type column = arrowzarr.ColumnStats
	form := func(node, form string) *arrowzarr.ZarrForm {
		return &arrowzarr.ZarrForm{Node: node, Form: form, Codec: "zstd:1"}
	}
	for format, want := range map[string][]column{
		"Arrow IPC file": {
			{Name: "station", Type: "utf8", Shape: []int64{4}, Nulls: 1, Becomes: form("station", "string and mask")},
			{Name: "temp", Type: "float32", Shape: []int64{4}, Becomes: form("temp", "float32")},
			{Name: "when", Type: "timestamp[s, tz=UTC]", Shape: []int64{4}, Becomes: form("when", "datetime64[s]")},
		},
		"Arrow IPC stream": {
			{Name: "station", Type: "utf8", Shape: []int64{4}, Nulls: 1, Becomes: form("station", "string and mask")},
			{Name: "temp", Type: "float32", Shape: []int64{4}, Becomes: form("temp", "float32")},
			{Name: "when", Type: "timestamp[s, tz=UTC]", Shape: []int64{4}, Becomes: form("when", "datetime64[s]")},
		},
		"Parquet": {
			{Name: "station", Type: "utf8", Shape: []int64{4}, Nulls: 1, Codecs: []string{"SNAPPY"}, Becomes: form("station", "string and mask")},
			{Name: "temp", Type: "float32", Shape: []int64{4}, Codecs: []string{"SNAPPY"}, Becomes: form("temp", "float32")},
			{Name: "when", Type: "timestamp[ms, tz=UTC]", Shape: []int64{4}, Codecs: []string{"SNAPPY"}, Becomes: form("when", "datetime64[ms]")},
		},
		"Zarr v3": {
			{Name: "station/mask", Type: "bool", Shape: []int64{4}, Nulls: -1, Chunks: []int64{2}, Shards: []int64{4}, Codecs: []string{"bytes", "zstd"}, RawBytes: 4},
			{Name: "station/values", Type: "string", Shape: []int64{4}, Nulls: -1, Chunks: []int64{2}, Shards: []int64{4}, Codecs: []string{"vlen-utf8", "zstd"}, RawBytes: -1},
			{Name: "temp", Type: "float32", Shape: []int64{4}, Nulls: -1, Chunks: []int64{2}, Shards: []int64{4}, Codecs: []string{"bytes", "zstd"}, RawBytes: 16},
			{Name: "when", Type: "datetime64[s]", Shape: []int64{4}, Nulls: -1, Chunks: []int64{2}, Shards: []int64{4}, Codecs: []string{"bytes", "zstd"}, RawBytes: 32},
		},
	} {
		t.Run(format, func(t *testing.T) {
			e := mustRun(t, "inspect", found[format], "--json")
			var got arrowzarr.Contents
			require.NoError(t, json.Unmarshal([]byte(e.stdout), &got))
			assert.Equal(t, format, got.Format)
			assert.Equal(t, int64(4), got.Rows)
			assert.Equal(t, found[format], got.Path)
			assert.Positive(t, got.StoredBytes)
			require.Len(t, got.Columns, len(want))
			for i, w := range want {
				g := got.Columns[i]
				if format != "Zarr v3" { // sizes depend on the library
					assert.Positive(t, g.RawBytes)
					g.RawBytes = 0
				} else {
					assert.Positive(t, g.StoredBytes)
				}
				g.StoredBytes = 0
				assert.Equal(t, w, g)
			}
			table := mustRun(t, "inspect", found[format]).stdout
			assert.Contains(t, table, found[format]+": "+format+", 4 rows, ")
			for _, w := range want {
				assert.Contains(t, table, "\n"+w.Name+" ")
				assert.Contains(t, table, w.Type)
			}
			if format == "Zarr v3" {
				assert.Regexp(t, `(?m)^ARRAY +TYPE +SHAPE +CHUNKS +SHARDS +CODECS +STORED +RAW +RATIO$`, table)
				assert.Regexp(t, `(?m)^COLUMN +TYPE +NODE$`, table)
				assert.Regexp(t, `(?m)^when +timestamp\[s, tz=UTC\] +when$`, table)
				assert.Len(t, lines(table), 3+len(want)+2+3)
				assert.Len(t, got.Table, 3)
				return
			}
			assert.Regexp(t, `(?m)^COLUMN +TYPE +NULLS +CODECS +STORED +RAW +BECOMES$`, table)
			assert.Regexp(t, `(?m)^station .* string and mask, zstd:1$`, table)
			assert.Len(t, lines(table), 3+len(want))
		})
	}
}

func TestInspectSaysWhatColumnsBecome(t *testing.T) {
	tensor := arrow.NewMetadata([]string{"ARROW:extension:name", "ARROW:extension:metadata"}, []string{"arrow.fixed_shape_tensor", `{"shape": [7]}`})
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "a/b", Type: arrow.PrimitiveTypes.Int8}, {Name: "image", Type: arrow.FixedSizeListOf(6, arrow.PrimitiveTypes.Int8), Metadata: tensor},
		{Name: "other", Type: arrow.PrimitiveTypes.Int8}, {Name: "list", Type: arrow.ListOf(arrow.BinaryTypes.String)},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	path := inputFile(t, stream(t, b.NewRecordBatch()))
	flags := []string{"inspect", path, "--exclude", "other", "--codec", "a/b=none"}
	text := mustRun(t, flags...).stdout
	assert.Regexp(t, `(?m)^a/b .* int8, none, at a_b$`, text)
	assert.Regexp(t, `(?m)^image .* refused: .*fixed_shape_tensor`, text)
	assert.Regexp(t, `(?m)^other .* left out$`, text)
	assert.Regexp(t, `(?m)^list .* awkward array, zstd:1$`, text)
	var got arrowzarr.Contents
	require.NoError(t, json.Unmarshal([]byte(mustRun(t, append(flags, "--json")...).stdout), &got))
	assert.Equal(t, &arrowzarr.ZarrForm{Node: "a_b", Form: "int8", Codec: "none"}, got.Columns[0].Becomes)
	assert.Contains(t, got.Columns[1].Becomes.Refused, "fixed_shape_tensor")
	assert.Equal(t, exitUsage, arrow2zarr(t, "inspect", path, "--codec", "best").code)
	assert.Equal(t, exitUsage, arrow2zarr(t, "inspect", path, "--columns", "z").code)
}

func TestInspectPrintsStatistics(t *testing.T) {
	for format, path := range inputs(t) {
		text := mustRun(t, "inspect", path, "--stats").stdout
		assert.Regexp(t, `(?m)^COLUMN +TYPE +NULLS +MIN +MAX +CATEGORIES `, text, format)
		assert.Regexp(t, `(?m)^station +utf8 +1 +EWR +LGA +- `, text, format)
		assert.Regexp(t, `(?m)^temp +float32 +0 +-4 +23 +- `, text, format)
		assert.Regexp(t, `(?m)^when .* +0 +1970-01-01T00:00:01Z +2038-01-19T03:14:08Z`, text, format)
	}
}

func TestInspectReadsStandardInput(t *testing.T) {
	c := command(t, "inspect", "-")
	c.Stdin = bytes.NewReader(stream(t, weather()))
	out, err := c.Output()
	require.NoError(t, err)
	assert.Contains(t, string(out), "-: Arrow IPC stream, 4 rows")
}

func TestInspectRefusesInvalidInputs(t *testing.T) {
	empty := t.TempDir()
	whole := stream(t, weather())
	broken := outputPath(t)
	require.NoError(t, os.Mkdir(broken, 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(broken, "zarr.json"), []byte("{"), 0o666))
	for path, want := range map[string]string{
		empty:                                empty + " has no files: expected files of Arrow, Parquet, CSV or JSON lines",
		broken:                               broken + ": ",
		filepath.Join(empty, "missing"):      filepath.Join(empty, "missing") + " does not exist",
		inputFile(t, []byte("a,b\n")):        "is neither an Arrow IPC file or stream nor a Parquet file",
		inputFile(t, nil):                    "is empty",
		inputFile(t, whole[:len(whole)-100]): "record batch 0",
	} {
		for _, flag := range []string{"--json=false", "--json"} {
			e := arrow2zarr(t, "inspect", path, flag)
			assert.Equal(t, exitInput, e.code, want)
			assert.Contains(t, e.stderr, want)
			assert.Empty(t, e.stdout)
		}
	}
}
