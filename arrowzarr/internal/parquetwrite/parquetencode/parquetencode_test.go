package parquetencode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fill appends a value made of a number to a builder.
func fill(b array.Builder, x uint64) {
	switch b := b.(type) {
	case *array.BooleanBuilder:
		b.Append(x%3 == 0)
	case *array.Int8Builder:
		b.Append(int8(x))
	case *array.Uint8Builder:
		b.Append(uint8(x))
	case *array.Int16Builder:
		b.Append(int16(x))
	case *array.Uint16Builder:
		b.Append(uint16(x))
	case *array.Int32Builder:
		b.Append(int32(x))
	case *array.Uint32Builder:
		b.Append(uint32(x))
	case *array.Int64Builder:
		b.Append(int64(x))
	case *array.Uint64Builder:
		b.Append(x)
	case *array.Float16Builder:
		b.Append(float16.New(float32(x % 1000)))
	case *array.Float32Builder:
		b.Append(float32(int32(x)))
	case *array.Float64Builder:
		b.Append(float64(int64(x)))
	case *array.Date32Builder:
		b.Append(arrow.Date32(int32(x)))
	case *array.Time64Builder:
		b.Append(arrow.Time64(x % 86_400_000_000))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(int64(x)))
	case *array.FixedSizeBinaryBuilder:
		b.Append(binary.LittleEndian.AppendUint64(nil, x)[:b.Type().(*arrow.FixedSizeBinaryType).ByteWidth])
	case *array.Decimal128Builder:
		b.Append(decimal128.FromI64(int64(x) % 1_000_000))
	case *array.Decimal256Builder:
		b.Append(decimal256.FromI64(int64(x) % 1_000_000))
	case *array.StringBuilder:
		b.Append(fmt.Sprint(x))
	case *array.LargeStringBuilder:
		b.Append(fmt.Sprint(x))
	case *array.BinaryBuilder:
		b.Append([]byte(fmt.Sprint(x)))
	case *array.BinaryDictionaryBuilder:
		_ = b.AppendString(fmt.Sprint(x))
	default:
		panic(fmt.Sprintf("%T", b))
	}
}

// newArray returns n values of which at most distinct differ, a slice of more.
func newArray(rng *rand.Rand, t arrow.DataType, n, distinct int, nulls float64) arrow.Array {
	values := make([]uint64, distinct)
	for i := range values {
		values[i] = rng.Uint64() >> rng.IntN(64)
	}
	b := array.NewBuilder(memory.DefaultAllocator, t)
	for range n + 5 {
		if rng.Float64() < nulls {
			b.AppendNull()
		} else {
			fill(b, values[rng.IntN(distinct)])
		}
	}
	return array.NewSlice(b.NewArray(), 3, int64(n)+3)
}

// encode returns a file with columns of the arrays, a row group each.
func encode(t *testing.T, schema *arrow.Schema, groups ...[]arrow.Array) []byte {
	t.Helper()
	columns, err := pqarrow.ToParquet(schema, nil, pqarrow.DefaultWriterProps())
	require.NoError(t, err)
	var out bytes.Buffer
	w, err := NewWriter(&out, columns, metadata.NewKeyValueMetadata())
	require.NoError(t, err)
	for _, arrays := range groups {
		g, err := w.NewGroup(arrays[0].Len())
		require.NoError(t, err)
		for i, a := range arrays {
			leaf := Leaf{Values: a}
			if schema.Field(i).Nullable && a.NullN() > 0 {
				for row := range a.Len() {
					leaf.Definition = append(leaf.Definition, map[bool]int16{true: 1}[a.IsValid(row)])
				}
			}
			require.NoError(t, g.Encode(i, leaf), schema.Field(i))
		}
		require.NoError(t, g.Close())
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

func testTypes() []arrow.DataType {
	return []arrow.DataType{
		arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Uint16,
		arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Uint64,
		arrow.FixedWidthTypes.Float16, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64,
		arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Time64us, arrow.FixedWidthTypes.Timestamp_ns,
		&arrow.FixedSizeBinaryType{ByteWidth: 1}, &arrow.FixedSizeBinaryType{ByteWidth: 7},
		&arrow.Decimal128Type{Precision: 7, Scale: 2}, &arrow.Decimal128Type{Precision: 38, Scale: 2}, &arrow.Decimal256Type{Precision: 60},
		arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString, arrow.BinaryTypes.Binary,
		&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String},
	}
}

// arrow-go reads what was encoded, of every type, in several pages and row groups, and the
// statistics are those that it computes.
func TestArrowGoReadsWhatIsEncoded(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		rows     []int
		distinct int
		nulls    float64
	}{{[]int{1}, 1, 0}, {[]int{100, 7}, 3, 0.3}, {[]int{50}, 50, 1}, {[]int{3000}, 1, 0}, {[]int{400_000, 20}, 300_000, 0}, {[]int{300_000}, 1000, 0.01}} {
		if testing.Short() && c.rows[0] > 100_000 {
			continue
		}
		var fields []arrow.Field
		groups := make([][]arrow.Array, len(c.rows))
		for i, kind := range testTypes() {
			if c.distinct > 100_000 && i%2 == 0 { // each kind of value is among the types at odd places
				continue
			}
			fields = append(fields, arrow.Field{Name: fmt.Sprint(len(fields)), Type: kind, Nullable: c.nulls > 0})
			for g, n := range c.rows {
				groups[g] = append(groups[g], newArray(rng, kind, n, c.distinct, c.nulls))
			}
		}
		schema := arrow.NewSchema(fields, nil)
		encoded := encode(t, schema, groups...)
		reader, err := file.NewParquetReader(bytes.NewReader(encoded))
		require.NoError(t, err)
		open, err := pqarrow.NewFileReader(reader, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
		require.NoError(t, err)
		for g, arrays := range groups {
			var all []int
			for i := range arrays {
				all = append(all, i)
			}
			got, err := open.RowGroup(g).ReadTable(t.Context(), all)
			require.NoError(t, err)
			for i, want := range arrays {
				requireEqual(t, fields[i], want, got.Column(i).Data())
				if want.DataType().ID() != arrow.DICTIONARY { // arrow-go takes those of values that are not used
					requireStatistics(t, fields[i], want, reader, g, i)
				}
			}
		}
	}
}

func requireEqual(t *testing.T, f arrow.Field, want arrow.Array, got *arrow.Chunked) {
	t.Helper()
	require.Equal(t, want.Len(), got.Len())
	row := 0
	for _, chunk := range got.Chunks() {
		for i := range chunk.Len() {
			if want.ValueStr(row) != chunk.ValueStr(i) {
				require.Equal(t, want.ValueStr(row), chunk.ValueStr(i), "%s, row %d", f.Type, row)
			}
			row++
		}
	}
}

// requireStatistics compares statistics with those of a file by arrow-go.
func requireStatistics(t *testing.T, f arrow.Field, values arrow.Array, got *file.Reader, g, i int) {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{f}, nil)
	var out bytes.Buffer
	w, err := pqarrow.NewFileWriter(schema, &out, parquet.NewWriterProperties(), pqarrow.DefaultWriterProps())
	require.NoError(t, err)
	require.NoError(t, w.Write(array.NewRecordBatch(schema, []arrow.Array{values}, int64(values.Len()))))
	require.NoError(t, w.Close())
	reader, err := file.NewParquetReader(bytes.NewReader(out.Bytes()))
	require.NoError(t, err)
	statistics := func(r *file.Reader, g, i int) (all metadata.EncodedStatistics) {
		chunk, err := r.MetaData().RowGroup(g).ColumnChunk(i)
		require.NoError(t, err)
		s, err := chunk.Statistics()
		require.NoError(t, err)
		if s == nil {
			return all
		}
		all, err = s.Encode()
		require.NoError(t, err)
		return all
	}
	want, have := statistics(reader, 0, 0), statistics(got, g, i)
	assert.Equal(t, want.NullCount, have.NullCount, f.Type)
	assert.Equal(t, want.HasMin, have.HasMin, f.Type)
	assert.Equal(t, want.Min, have.Min, f.Type)
	assert.Equal(t, want.Max, have.Max, f.Type)
}

// A dictionary is used only if it takes less memory than the values, and at most 1 MiB.
func TestDictionariesAreUsedWhereTheyPay(t *testing.T) {
	if testing.Short() {
		t.Skip("300,000 rows of one goroutine")
	}
	for distinct, want := range map[int]bool{1: true, 100: true, 30_000: true, 200_000: false, 5_000_000: false} {
		for _, kind := range []arrow.DataType{arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float64, arrow.BinaryTypes.String} {
			b := array.NewBuilder(memory.DefaultAllocator, kind)
			for i := range 300_000 {
				fill(b, uint64(i%distinct)*0x9e3779b97f4a7c15)
			}
			a := b.NewArray()
			encoded := encode(t, arrow.NewSchema([]arrow.Field{{Name: "x", Type: kind}}, nil), []arrow.Array{a})
			reader, err := file.NewParquetReader(bytes.NewReader(encoded))
			require.NoError(t, err)
			chunk, err := reader.MetaData().RowGroup(0).ColumnChunk(0)
			require.NoError(t, err)
			assert.Equal(t, want, chunk.HasDictionaryPage(), "%d different values of %s", distinct, kind)
		}
	}
}

// dictionaryArray returns n values of a dictionary, and these values as a plain array.
func dictionaryArray(rng *rand.Rand, values arrow.Array, n int, nulls float64) (encoded, plain arrow.Array) {
	indices := array.NewInt32Builder(memory.DefaultAllocator)
	for range n {
		if rng.Float64() < nulls {
			indices.AppendNull()
		} else {
			indices.Append(int32(rng.IntN(values.Len()/3*2) + 1)) // others are not used
		}
	}
	kind := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: values.DataType()}
	d := array.NewDictionaryArray(kind, indices.NewArray(), values)
	b := array.NewBuilder(memory.DefaultAllocator, values.DataType())
	for i := range n {
		if d.IsNull(i) {
			b.AppendNull()
		} else if err := b.AppendValueFromString(values.ValueStr(d.GetValueIndex(i))); err != nil {
			panic(err)
		}
	}
	return d, b.NewArray()
}

// The values of a dictionary that does not fit a page are in the pages of values, of any
// type, and unused ones are not in the statistics.
func TestLargeDictionariesAreEncodedAsTheirValues(t *testing.T) {
	if testing.Short() {
		t.Skip("400,000 rows of one goroutine")
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for _, nulls := range []float64{0, 0.2} {
		var fields []arrow.Field
		var encoded, plain []arrow.Array
		for _, kind := range []arrow.DataType{arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Int16, arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString, &arrow.FixedSizeBinaryType{ByteWidth: 8}} {
			b := array.NewBuilder(memory.DefaultAllocator, kind)
			for i := range 400_000 {
				fill(b, uint64(i)*0x9e3779b97f4a7c15)
			}
			d, values := dictionaryArray(rng, b.NewArray(), 300_000, nulls)
			fields = append(fields, arrow.Field{Name: kind.String(), Type: d.DataType(), Nullable: nulls > 0})
			encoded, plain = append(encoded, d), append(plain, values)
		}
		content := encode(t, arrow.NewSchema(fields, nil), encoded)
		reader, err := file.NewParquetReader(bytes.NewReader(content))
		require.NoError(t, err)
		open, err := pqarrow.NewFileReader(reader, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
		require.NoError(t, err)
		got, err := open.ReadTable(t.Context())
		require.NoError(t, err)
		for i, want := range plain {
			requireEqual(t, fields[i], want, got.Column(i).Data())
			fields[i].Type = want.DataType()
			requireStatistics(t, fields[i], want, reader, 0, i)
			chunk, err := reader.MetaData().RowGroup(0).ColumnChunk(i)
			require.NoError(t, err)
			assert.Equal(t, want.DataType().ID() == arrow.INT16, chunk.HasDictionaryPage(), fields[i].Name)
		}
	}
}

// Encoding a dictionary takes no memory for the values of all rows.
func TestLargeDictionariesAreNotDecodedWhole(t *testing.T) {
	if raceDetector {
		t.Skip("memory that is used again counts as allocated")
	}
	const values, size, rows = 1000, 4 << 10, 20_000
	b := array.NewStringBuilder(memory.DefaultAllocator)
	for i := range values {
		b.Append(strings.Repeat(fmt.Sprint(i%10), size))
	}
	d, _ := dictionaryArray(rand.New(rand.NewPCG(5, 6)), b.NewArray(), rows, 0)
	schema := arrow.NewSchema([]arrow.Field{{Name: "d", Type: d.DataType()}}, nil)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	encoded := encode(t, schema, []arrow.Array{d})
	runtime.ReadMemStats(&after)
	assert.Less(t, len(encoded), size*rows/10)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(size*rows/2))
}

// Parquet has no dictionaries of Booleans.
func TestDictionariesOfBooleansAreTheirValues(t *testing.T) {
	kind := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.FixedWidthTypes.Boolean}
	values, indices := array.NewBooleanBuilder(memory.DefaultAllocator), array.NewInt8Builder(memory.DefaultAllocator)
	values.AppendValues([]bool{true, false}, nil)
	indices.AppendValues([]int8{1, 0, 0, 1, 1}, nil)
	encoded := encode(t, arrow.NewSchema([]arrow.Field{{Name: "x", Type: kind}}, nil), []arrow.Array{array.NewDictionaryArray(kind, indices.NewArray(), values.NewArray())})
	reader, err := file.NewParquetReader(bytes.NewReader(encoded))
	require.NoError(t, err)
	open, err := pqarrow.NewFileReader(reader, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	require.NoError(t, err)
	table, err := open.ReadTable(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "[false true true false false]", table.Column(0).Data().Chunk(0).String())
}

// Runs and packed numbers of each width are decoded by the definition of Parquet's
// encoding.
func TestHybridNumbersAreDecoded(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for width := 1; width <= 32; width++ {
		for range 50 {
			var numbers []uint32
			for len(numbers) < 200 {
				v := rng.Uint32() >> (32 - width)
				for range 1 + rng.IntN([]int{1, 1, 9, 40}[rng.IntN(4)]) {
					numbers = append(numbers, v)
				}
			}
			require.Equal(t, numbers, decodeHybrid(t, appendHybrid(nil, numbers, width), width, len(numbers)))
		}
	}
}

func decodeHybrid(t *testing.T, in []byte, width, count int) (numbers []uint32) {
	t.Helper()
	for len(in) > 0 {
		head, n := binary.Uvarint(in)
		in = in[n:]
		if head&1 == 0 {
			var word [4]byte
			in = in[copy(word[:(width+7)/8], in):]
			for range head >> 1 {
				numbers = append(numbers, binary.LittleEndian.Uint32(word[:]))
			}
			continue
		}
		for i := range int(head>>1) * 8 {
			v := uint32(0)
			for b := range width {
				at := i*width + b
				v |= uint32(in[at/8]>>(at%8)&1) << b
			}
			numbers = append(numbers, v)
		}
		in = in[int(head>>1)*width:]
	}
	require.Less(t, len(numbers)-count, 8)
	return numbers[:count]
}

// A value that Parquet cannot hold is an error, and never another value.
func TestValuesThatParquetCannotHoldAreErrors(t *testing.T) {
	second := array.NewTimestampBuilder(memory.DefaultAllocator, &arrow.TimestampType{Unit: arrow.Second})
	second.Append(math.MaxInt64 / 100)
	clock := array.NewTime32Builder(memory.DefaultAllocator, &arrow.Time32Type{Unit: arrow.Second})
	clock.Append(math.MaxInt32 / 100)
	date := array.NewDate64Builder(memory.DefaultAllocator)
	date.Append(86_400_001)
	narrow := array.NewDecimal128Builder(memory.DefaultAllocator, &arrow.Decimal128Type{Precision: 4})
	narrow.Append(decimal128.FromI64(1 << 40))
	for _, b := range []array.Builder{second, clock, date, narrow} {
		a := b.NewArray()
		columns, err := pqarrow.ToParquet(arrow.NewSchema([]arrow.Field{{Name: "x", Type: a.DataType()}}, nil), nil, pqarrow.DefaultWriterProps())
		require.NoError(t, err)
		w, err := NewWriter(&bytes.Buffer{}, columns, metadata.NewKeyValueMetadata())
		require.NoError(t, err)
		g, err := w.NewGroup(1)
		require.NoError(t, err)
		assert.ErrorIs(t, g.Encode(0, Leaf{Values: a}), arrow.ErrInvalid, a.DataType())
	}
}
