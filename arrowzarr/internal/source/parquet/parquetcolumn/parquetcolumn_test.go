package parquetcolumn_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
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
)

// writeParquet returns a Parquet file of a column.
func writeParquet(tb testing.TB, values arrow.Array, properties ...parquet.WriterProperty) []byte {
	tb.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "a", Type: values.DataType(), Nullable: true}}, nil)
	var buf bytes.Buffer
	w, err := pqarrow.NewFileWriter(schema, &buf, parquet.NewWriterProperties(properties...), pqarrow.DefaultWriterProps())
	require.NoError(tb, err)
	require.NoError(tb, w.Write(array.NewRecordBatch(schema, []arrow.Array{values}, int64(values.Len()))))
	require.NoError(tb, w.Close())
	return buf.Bytes()
}

// readAll reads all columns, in batches of some rows, until the first error.
func readAll(content []byte, rows int64, mem memory.Allocator) (columns [][]arrow.Array, err error) {
	r, err := file.NewParquetReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	arrowReader, err := pqarrow.NewFileReader(r, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		return nil, err
	}
	options := &parquetcolumn.Options{Source: bytes.NewReader(content), Size: int64(len(content)), Memory: mem, MaxPage: 4 << 20, Buffer: 100, Release: rows < 1000}
	groups := make([]int, r.NumRowGroups())
	for g := range groups {
		groups[g] = g
	}
	for _, field := range arrowReader.Manifest.Fields {
		c, err := parquetcolumn.New(field, r.MetaData(), groups, options)
		if err != nil {
			return columns, err
		}
		defer c.Close()
		var batches []arrow.Array
		for g := range groups {
			for left := min(r.MetaData().RowGroup(g).NumRows(), 1000*rows); left > 0; left -= rows {
				for leaf := range c.Leaves() {
					if err := c.ReadLeaf(leaf, min(rows, left)); err != nil {
						return append(columns, batches), err
					}
				}
				batch, err := c.Array()
				if err != nil {
					return append(columns, batches), err
				}
				batches = append(batches, batch)
			}
		}
		columns = append(columns, batches)
	}
	return columns, nil
}

func numbers(tb testing.TB, n int) arrow.Array {
	tb.Helper()
	b := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int32)
	values := b.ValueBuilder().(*array.Int32Builder)
	for i := range n {
		if i%7 == 0 {
			b.AppendNull()
			continue
		}
		b.Append(true)
		for j := range i % 4 {
			values.Append(int32(i * j))
		}
	}
	return b.NewArray()
}

// A file that is cut off or has a wrong byte anywhere gives an error or an array, and no
// panic: not every byte is checked.
func TestDamagedFilesGiveErrors(t *testing.T) {
	for _, properties := range [][]parquet.WriterProperty{
		{parquet.WithCompression(compress.Codecs.Snappy), parquet.WithDataPageSize(100)},
		{parquet.WithDataPageVersion(parquet.DataPageV2), parquet.WithDictionaryDefault(false), parquet.WithDataPageSize(200)},
		{parquet.WithEncoding(parquet.Encodings.DeltaBinaryPacked), parquet.WithDictionaryDefault(false), parquet.WithDataPageSize(200)},
	} {
		content := writeParquet(t, numbers(t, 300), properties...)
		failures := 0
		for i := 4; i < len(content)-600; i++ {
			for _, flip := range []byte{0x01, 0x80, 0xff} {
				damaged := bytes.Clone(content)
				damaged[i] ^= flip
				mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
				columns, err := readAll(damaged, 64, mem)
				if err != nil {
					failures++
					assert.True(t, errors.Is(err, parquetcolumn.ErrMalformed) || errors.Is(err, errors.ErrUnsupported), "byte %d: %v", i, err)
				}
				for _, batches := range columns {
					for _, a := range batches {
						a.Release()
					}
				}
				mem.AssertSize(t, 0)
			}
		}
		assert.Greater(t, failures, 100)
	}
}

// A column without memory between two batches gives the same batches, of pages that end
// inside of a batch and batches that end inside of a page.
func TestReleasedColumnsContinueWhereTheyWere(t *testing.T) {
	content := writeParquet(t, numbers(t, 1000), parquet.WithDataPageSize(300), parquet.WithDictionaryPageSizeLimit(400))
	want, err := readAll(content, 1000, memory.DefaultAllocator)
	require.NoError(t, err)
	for _, rows := range []int64{1, 7, 50, 999} {
		got, err := readAll(content, rows, memory.DefaultAllocator)
		require.NoError(t, err)
		joined, err := array.Concatenate(got[0], memory.DefaultAllocator)
		require.NoError(t, err)
		assert.True(t, array.Equal(want[0][0], joined), rows)
	}
}

// Each value of a physical type in each encoding gives what arrow-go reads.
func TestEncodingsGiveTheValuesOfArrowGo(t *testing.T) {
	const n = 1000
	r := rand.New(rand.NewPCG(1, 2))
	isNull := func(i int) bool { return i%7 == 3 }
	make := func(to arrow.DataType, value func(i int, b array.Builder)) arrow.Array {
		b := array.NewBuilder(memory.DefaultAllocator, to)
		defer b.Release()
		for i := range n {
			if isNull(i) {
				b.AppendNull()
			} else {
				value(i, b)
			}
		}
		return b.NewArray()
	}
	integers := make(arrow.PrimitiveTypes.Int64, func(i int, b array.Builder) {
		b.(*array.Int64Builder).Append(int64(r.Uint64()) >> r.IntN(64))
	})
	small := make(arrow.PrimitiveTypes.Int32, func(i int, b array.Builder) {
		b.(*array.Int32Builder).Append(int32(r.Uint32()) >> r.IntN(32))
	})
	text := make(arrow.BinaryTypes.String, func(i int, b array.Builder) {
		b.(*array.StringBuilder).Append(strings.Repeat("prefix", r.IntN(4)) + strconv.Itoa(r.IntN(300)))
	})
	floats := make(arrow.PrimitiveTypes.Float32, func(i int, b array.Builder) { b.(*array.Float32Builder).Append(r.Float32()) })
	for _, c := range []struct {
		values   arrow.Array
		encoding parquet.Encoding
	}{
		{integers, parquet.Encodings.DeltaBinaryPacked}, {small, parquet.Encodings.DeltaBinaryPacked},
		{integers, parquet.Encodings.ByteStreamSplit}, {small, parquet.Encodings.ByteStreamSplit}, {floats, parquet.Encodings.ByteStreamSplit},
		{text, parquet.Encodings.DeltaLengthByteArray}, {text, parquet.Encodings.DeltaByteArray},
	} {
		for _, version := range []parquet.DataPageVersion{parquet.DataPageV1, parquet.DataPageV2} {
			content := writeParquet(t, c.values, parquet.WithDictionaryDefault(false), parquet.WithEncoding(c.encoding), parquet.WithDataPageVersion(version), parquet.WithDataPageSize(2000))
			for _, rows := range []int64{33, n} {
				got, err := readAll(content, rows, memory.DefaultAllocator)
				require.NoError(t, err, "%s as %s", c.values.DataType(), c.encoding)
				joined, err := array.Concatenate(got[0], memory.DefaultAllocator)
				require.NoError(t, err)
				assert.True(t, array.Equal(c.values, joined), "%s as %s", c.values.DataType(), c.encoding)
			}
		}
	}
}

// appendRandom appends a value of a type: a null, or one whose lists have few elements or
// many.
func appendRandom(r *rand.Rand, b array.Builder) {
	if r.IntN(8) == 0 {
		b.AppendNull()
		return
	}
	switch b := b.(type) {
	case *array.Int32Builder:
		b.Append(int32(r.IntN(1 << r.IntN(12))))
	case *array.StructBuilder:
		b.Append(true)
		for i := range b.NumField() {
			appendRandom(r, b.FieldBuilder(i))
		}
	case *array.ListBuilder:
		b.Append(true)
		for range r.IntN(1 + r.IntN(20)) {
			appendRandom(r, b.ValueBuilder())
		}
	}
}

// Lists and structs inside of each other give what was written: in runs of levels and among
// single ones, in batches and pages of any length.
func TestNestedColumnsGiveWhatWasWritten(t *testing.T) {
	leaf := arrow.PrimitiveTypes.Int32
	record := func(of arrow.DataType) arrow.DataType {
		return arrow.StructOf(arrow.Field{Name: "x", Type: of, Nullable: true}, arrow.Field{Name: "y", Type: leaf, Nullable: true})
	}
	for _, kind := range []arrow.DataType{
		record(leaf), record(record(leaf)), arrow.ListOf(leaf), arrow.ListOf(record(leaf)), record(arrow.ListOf(leaf)),
		arrow.ListOf(arrow.ListOf(leaf)), arrow.ListOf(record(arrow.ListOf(record(leaf)))), arrow.ListOf(arrow.ListOf(arrow.ListOf(leaf))),
	} {
		for seed := range uint64(4) {
			r := rand.New(rand.NewPCG(seed, 3))
			b := array.NewBuilder(memory.DefaultAllocator, kind)
			const n = 700
			for i := range n {
				if i > 300 && i < 400 { // a run
					b.AppendNull()
				} else {
					appendRandom(r, b)
				}
			}
			want := b.NewArray()
			content := writeParquet(t, want, parquet.WithDataPageSize(int64(100+r.IntN(5000))), parquet.WithBatchSize(64))
			for _, rows := range []int64{1, 19, 64, n} {
				got, err := readAll(content, rows, memory.DefaultAllocator)
				require.NoError(t, err, kind)
				joined, err := array.Concatenate(got[0], memory.DefaultAllocator)
				require.NoError(t, err)
				require.True(t, array.Equal(want, joined), "%s, seed %d, %d rows", kind, seed, rows)
			}
		}
	}
}

// Indices of every width that fits a test give the values of their dictionary.
func TestDictionariesOfEveryWidthGiveWhatWasWritten(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for width := range 17 {
		for _, nulls := range []int{0, 5} {
			b := array.NewInt64Builder(memory.DefaultAllocator)
			for i := range 1<<width + 1003 {
				switch {
				case nulls > 0 && r.IntN(nulls) == 0:
					b.AppendNull()
				case i < 1<<width:
					b.Append(int64(i) * 7)
				default:
					b.Append(r.Int64N(1<<width) * 7)
				}
			}
			want := b.NewArray()
			content := writeParquet(t, want, parquet.WithDictionaryDefault(true), parquet.WithDictionaryPageSizeLimit(1<<20), parquet.WithCompression(compress.Codecs.Snappy))
			for _, rows := range []int64{1003, 1 << 17} {
				got, err := readAll(content, rows, memory.DefaultAllocator)
				require.NoError(t, err)
				joined, err := array.Concatenate(got[0], memory.DefaultAllocator)
				require.NoError(t, err)
				assert.True(t, array.Equal(want, joined), "width %d", width)
			}
		}
	}
}

// A run of levels that have more bits than their width is an error.
func TestLevelsOverTheirWidthAreErrors(t *testing.T) {
	b := array.NewInt32Builder(memory.DefaultAllocator)
	for i := range 100 {
		b.Append(int32(i))
	}
	content := writeParquet(t, b.NewArray(), parquet.WithDictionaryDefault(false))
	levels := []byte{3, 0, 0, 0, 200, 1, 1} // 3 bytes: 100 times level 1
	require.Equal(t, 1, bytes.Count(content, levels))
	damaged := bytes.Replace(content, levels, []byte{3, 0, 0, 0, 200, 1, 0x81}, 1)
	_, err := readAll(damaged, 100, memory.DefaultAllocator)
	require.ErrorIs(t, err, parquetcolumn.ErrMalformed)
	assert.ErrorContains(t, err, "a run of 129 in 1 bits")
}

// An index that its dictionary does not have is an error, for each form of values.
func TestIndicesOutsideOfADictionaryAreErrors(t *testing.T) {
	appends := map[arrow.DataType]func(b array.Builder, i int){
		arrow.PrimitiveTypes.Int32:               func(b array.Builder, i int) { b.(*array.Int32Builder).Append(int32(i)) },
		arrow.PrimitiveTypes.Int64:               func(b array.Builder, i int) { b.(*array.Int64Builder).Append(int64(i)) },
		arrow.BinaryTypes.String:                 func(b array.Builder, i int) { b.(*array.StringBuilder).Append(strconv.Itoa(i)) },
		&arrow.FixedSizeBinaryType{ByteWidth: 5}: func(b array.Builder, i int) { b.(*array.FixedSizeBinaryBuilder).Append([]byte(fmt.Sprintf("%05d", i))) },
	}
	for kind, appendTo := range appends {
		for _, nulls := range []int{0, 1} {
			b := array.NewBuilder(memory.DefaultAllocator, kind)
			b.AppendNulls(nulls)
			for i := range 63 * 8 {
				appendTo(b, i%3)
			}
			content := writeParquet(t, b.NewArray())
			packed := []byte{2, 127, 0x24, 0x49, 0x92} // 63 groups of 8 indices 0, 1, 2, 0...
			require.Equal(t, 1, bytes.Count(content, packed), kind)
			damaged := bytes.Replace(content, packed, []byte{2, 127, 0x24, 0x49, 0xd2}, 1)
			_, err := readAll(damaged, 1000, memory.DefaultAllocator)
			require.ErrorIs(t, err, parquetcolumn.ErrMalformed, kind)
			assert.ErrorContains(t, err, "index 3 into a dictionary of 3 values", kind)
		}
	}
}

// The arrays of a row group keep its dictionary when that of the next one is read. Theirs
// are large, and compress well.
func TestBatchesKeepTheDictionaryOfTheirRowGroup(t *testing.T) {
	const groups, n = 3, 20_000
	kind := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}
	schema := arrow.NewSchema([]arrow.Field{{Name: "a", Type: kind, Nullable: true}}, nil)
	text := func(g, i int) string { return fmt.Sprintf("%s%d of %d", strings.Repeat("common ", 10), i, g) }
	var buf bytes.Buffer
	w, err := pqarrow.NewFileWriter(schema, &buf, parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd), parquet.WithDictionaryPageSizeLimit(4<<20)),
		pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	require.NoError(t, err)
	for g := range groups {
		b := array.NewDictionaryBuilder(memory.DefaultAllocator, kind).(*array.BinaryDictionaryBuilder)
		for i := range n {
			require.NoError(t, b.AppendString(text(g, i)))
		}
		require.NoError(t, w.Write(array.NewRecordBatch(schema, []arrow.Array{b.NewArray()}, n)))
	}
	require.NoError(t, w.Close())
	columns, err := readAll(buf.Bytes(), n, memory.DefaultAllocator)
	require.NoError(t, err)
	require.Len(t, columns[0], groups)
	for g, a := range columns[0] {
		for i := range n {
			require.Equal(t, text(g, i), a.ValueStr(i), "row group %d", g)
		}
	}
}

func FuzzColumns(f *testing.F) {
	paths, err := filepath.Glob(filepath.Join("..", "testdata", "*.parquet"))
	require.NoError(f, err)
	require.NotEmpty(f, paths, "seeds")
	for _, path := range paths {
		content, err := os.ReadFile(path)
		require.NoError(f, err)
		f.Add(content, int64(3))
	}
	f.Add(writeParquet(f, numbers(f, 50), parquet.WithDataPageSize(50)), int64(8))
	f.Add(writeParquet(f, numbers(f, 50), parquet.WithDataPageVersion(parquet.DataPageV2)), int64(64))
	f.Add(writeParquet(f, numbers(f, 50), parquet.WithDictionaryDefault(false), parquet.WithEncoding(parquet.Encodings.DeltaBinaryPacked)), int64(9))
	f.Fuzz(func(t *testing.T, content []byte, rows int64) {
		rows = max(min(rows, 1<<12), 1)
		opened := func() bool { // arrow-go reads the footer, and panics for some
			defer func() { _ = recover() }()
			r, err := file.NewParquetReader(bytes.NewReader(content))
			if err == nil {
				_, err = pqarrow.NewFileReader(r, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
			}
			return err == nil
		}()
		if !opened {
			return
		}
		columns, err := readAll(content, rows, memory.DefaultAllocator)
		if err != nil {
			return
		}
		for _, batches := range columns {
			for _, a := range batches {
				_ = a.String()
			}
		}
	})
}
