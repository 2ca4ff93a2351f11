package parquetcolumn_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/parquet/parquetcolumn"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
)

// compareColumns reads each column of a Parquet file by parquetcolumn, in batches of some
// rows, and compares it with what was written or, if that is nil, with what arrow-go
// reads. It returns how many columns parquetcolumn has read. Those that it does not read
// must say so.
func compareColumns(tb testing.TB, content []byte, written *tabletest.Table, batch int64, release bool) (read int) {
	tb.Helper()
	r, err := file.NewParquetReader(bytes.NewReader(content))
	require.NoError(tb, err)
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer mem.AssertSize(tb, 0)
	options := &parquetcolumn.Options{Source: bytes.NewReader(content), Size: int64(len(content)), Memory: mem, MaxPage: 1 << 28, Buffer: 512, Release: release}
	whole, err := pqarrow.NewFileReader(r, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	require.NoError(tb, err)
	groups := make([]int, r.NumRowGroups())
	for g := range groups {
		groups[g] = g
	}
	for i, field := range whole.Manifest.Fields {
		column, err := parquetcolumn.New(field, r.MetaData(), groups, options)
		if errors.Is(err, errors.ErrUnsupported) {
			continue
		}
		require.NoError(tb, err)
		var got []arrow.Array
		for _, g := range groups {
			for left := r.MetaData().RowGroup(g).NumRows(); left > 0 && err == nil; {
				rows := min(batch, left)
				for leaf := range column.Leaves() {
					err = errors.Join(err, column.ReadLeaf(leaf, rows))
				}
				if err == nil {
					var a arrow.Array
					if a, err = column.Array(); err == nil {
						require.Equal(tb, int(rows), a.Len())
						got = append(got, a)
					}
				}
				left -= rows
			}
		}
		column.Close()
		if errors.Is(err, errors.ErrUnsupported) {
			for _, a := range got {
				a.Release()
			}
			continue
		}
		require.NoError(tb, err, field.Field)
		var all *arrow.Chunked
		if written != nil {
			all = arrow.NewChunked(written.Schema.Field(i).Type, written.Column(i))
		} else {
			want, err := whole.GetColumn(tb.Context(), i)
			require.NoError(tb, err)
			all, err = want.NextBatch(r.NumRows())
			require.NoError(tb, err)
			want.Release()
		}
		at := int64(0)
		for _, a := range got {
			assert.True(tb, arrow.TypeEqual(field.Field.Type, a.DataType()), "%s, expected %s", a.DataType(), field.Field.Type)
			want := rowStrings(plainValues(tb, array.NewChunkedSlice(all, at, at+int64(a.Len()))))
			part := arrow.NewChunked(a.DataType(), []arrow.Array{a})
			require.Equal(tb, want, rowStrings(plainValues(tb, part)), "%s: rows from %d on", field.Field, at)
			at += int64(a.Len())
			part.Release()
			a.Release()
		}
		assert.Equal(tb, r.NumRows(), at)
		all.Release()
		read++
	}
	return read
}

// rowStrings returns each row as text, in which NaNs are equal.
func rowStrings(c *arrow.Chunked) (rows []string) {
	for _, chunk := range c.Chunks() {
		for i := range chunk.Len() {
			row := array.NewSlice(chunk, int64(i), int64(i)+1)
			rows = append(rows, fmt.Sprint(row))
			row.Release()
		}
	}
	return rows
}

// plainValues decodes dictionaries, of which two may have the same values in another order.
func plainValues(tb testing.TB, c *arrow.Chunked) *arrow.Chunked {
	tb.Helper()
	if c.DataType().ID() != arrow.DICTIONARY {
		return c
	}
	t := c.DataType().(*arrow.DictionaryType).ValueType
	b := array.NewBuilder(memory.DefaultAllocator, t)
	for _, chunk := range c.Chunks() {
		d := chunk.(*array.Dictionary)
		for i := range d.Len() {
			if d.IsNull(i) {
				b.AppendNull()
			} else {
				require.NoError(tb, b.AppendValueFromString(d.Dictionary().ValueStr(d.GetValueIndex(i))))
			}
		}
	}
	return arrow.NewChunked(t, []arrow.Array{b.NewArray()})
}

// randomParquetType returns a type that parquetcolumn reads, to a depth. Unless it is
// nullable, some fields inside of it may not be.
func randomParquetType(rng *rand.Rand, depth int, nullable bool) arrow.DataType {
	flat := []arrow.DataType{
		arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Uint64,
		arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64, arrow.FixedWidthTypes.Float16, arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Timestamp_us,
		arrow.FixedWidthTypes.Time32ms, arrow.FixedWidthTypes.Time64ns, arrow.BinaryTypes.String, arrow.BinaryTypes.Binary, arrow.BinaryTypes.LargeString,
		&arrow.FixedSizeBinaryType{ByteWidth: 5}, &arrow.Decimal128Type{Precision: 38, Scale: 4},
	}
	field := func(name string) arrow.Field {
		return arrow.Field{Name: name, Type: randomParquetType(rng, depth-1, nullable), Nullable: nullable || rng.IntN(2) > 0}
	}
	if depth > 0 {
		switch rng.IntN(5) {
		case 0:
			return arrow.ListOfField(field("element"))
		case 1:
			return arrow.LargeListOfField(field("element"))
		case 2:
			return arrow.StructOf(field("a"), field("b"))
		case 3:
			return arrow.MapOf(arrow.BinaryTypes.String, randomParquetType(rng, depth-1, nullable))
		}
	}
	return flat[rng.IntN(len(flat))]
}

// Random tables in the forms that Parquet's writers have are read as they were written, in
// batches of any size, with and without memory between two batches.
func TestParquetColumnsAreThoseThatWereWritten(t *testing.T) {
	codecs := []compress.Compression{
		compress.Codecs.Uncompressed, compress.Codecs.Snappy, compress.Codecs.Gzip, compress.Codecs.Zstd, compress.Codecs.Lz4Raw, compress.Codecs.Brotli,
	}
	read, seeds := 0, 150
	if testing.Short() {
		seeds = 30
	}
	for seed := range uint64(seeds) {
		t.Log("seed", seed)
		rng := tabletest.NewRand(seed)
		var fields []arrow.Field
		var batches [][]arrow.Array
		nullable := rng.IntN(4) > 0
		for i := range 1 + rng.IntN(4) {
			fields = append(fields, arrow.Field{Name: fmt.Sprint(i), Type: randomParquetType(rng, rng.IntN(4), nullable), Nullable: nullable})
		}
		for range 1 + rng.IntN(3) {
			n := rng.IntN(400)
			nulls := 0.0
			if nullable {
				nulls = []float64{0, 0.2, 1}[rng.IntN(3)]
			}
			var columns []arrow.Array
			for _, f := range fields {
				columns = append(columns, tabletest.Random(rng, f.Type, n, nulls))
			}
			batches = append(batches, columns)
		}
		properties := []parquet.WriterProperty{
			parquet.WithCompression(codecs[rng.IntN(len(codecs))]), parquet.WithDictionaryDefault(rng.IntN(2) == 0),
			parquet.WithDataPageSize(64 << rng.IntN(8)), parquet.WithDictionaryPageSizeLimit(64 << rng.IntN(12)),
		}
		if rng.IntN(2) == 0 {
			properties = append(properties, parquet.WithDataPageVersion(parquet.DataPageV2))
		}
		written := tabletest.New(fields, batches...)
		read += compareColumns(t, written.Parquet(t, properties...), &written, 1+rng.Int64N(300), rng.IntN(2) == 0)
	}
	assert.Greater(t, read, seeds)
}

// Every Parquet file of other projects is read as arrow-go reads it.
func TestParquetFilesOfOthersEqualThoseOfArrowGo(t *testing.T) {
	root := filepath.Join("..", "..", "..", "..", "..", "..", "shared", "data")
	read, files := 0, 0
	if _, err := os.Stat(root); err != nil && os.Getenv("CI") == "" {
		t.Skip("no test data of other projects")
	}
	require.NoError(t, fs.WalkDir(os.DirFS(root), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".parquet") || strings.Contains(path, "/bad/") {
			return err
		}
		content, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		if r, err := file.NewParquetReader(bytes.NewReader(content)); err != nil || r.NumRows() > 100_000 {
			return nil //nolint:nilerr // encrypted files
		}
		files++
		t.Run(path, func(t *testing.T) {
			defer func() {
				if r := recover(); r != nil { // arrow-go's
					t.Skip(r)
				}
			}()
			read += compareColumns(t, content, nil, 1000, false)
		})
		return nil
	}))
	t.Logf("%d columns of %d files", read, files)
	assert.GreaterOrEqual(t, read, 40)
}
