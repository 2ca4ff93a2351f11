package tabletest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Types has every type that converts to plain or nullable arrays, in every unit and
// layout. Dictionaries have tests of their own.
var Types = []arrow.DataType{
	arrow.FixedWidthTypes.Boolean,
	arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64,
	arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Uint64,
	arrow.FixedWidthTypes.Float16, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64,
	arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString, arrow.BinaryTypes.StringView,
	arrow.BinaryTypes.Binary, arrow.BinaryTypes.LargeBinary, arrow.BinaryTypes.BinaryView,
	&arrow.FixedSizeBinaryType{ByteWidth: 5},
	arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Date64,
	arrow.FixedWidthTypes.Time32s, arrow.FixedWidthTypes.Time32ms, arrow.FixedWidthTypes.Time64us, arrow.FixedWidthTypes.Time64ns,
	&arrow.TimestampType{Unit: arrow.Second}, &arrow.TimestampType{Unit: arrow.Millisecond},
	&arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "Europe/Oslo"},
	arrow.FixedWidthTypes.Duration_s, arrow.FixedWidthTypes.Duration_ms, arrow.FixedWidthTypes.Duration_us, arrow.FixedWidthTypes.Duration_ns,
	&arrow.Decimal32Type{Precision: 9, Scale: 2}, &arrow.Decimal64Type{Precision: 18, Scale: 0},
	&arrow.Decimal128Type{Precision: 38, Scale: 10}, &arrow.Decimal256Type{Precision: 76, Scale: -3},
	arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Float32),
	arrow.FixedSizeListOf(5, arrow.FixedWidthTypes.Boolean),
	arrow.FixedSizeListOf(2, arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Int16)),
	arrow.Null,
	extensions.NewUUIDType(), extensions.NewBool8Type(),
	extensions.NewOpaqueType(arrow.BinaryTypes.String, "rope", "maker"),
}

// RandomTable returns a table of all Types with batches of these lengths. Each
// array is a slice of a longer one. Batch i has share i, modulo their number, of nulls.
func RandomTable(seed uint64, lengths []int, nulls ...float64) Table {
	rng := NewRand(seed)
	fields := make([]arrow.Field, len(Types))
	for i, t := range Types {
		fields[i] = arrow.Field{Name: fmt.Sprintf("%02d %s", i, t.ID()), Type: t, Nullable: true}
	}
	var batches [][]arrow.Array
	for b, n := range lengths {
		columns := make([]arrow.Array, len(fields))
		for i, f := range fields {
			before, after := rng.IntN(10), rng.IntN(10)
			whole := Random(rng, f.Type, before+n+after, nulls[b%len(nulls)])
			columns[i] = array.NewSlice(whole, int64(before), int64(before+n))
		}
		batches = append(batches, columns)
	}
	return New(fields, batches...)
}

// Random returns an array of random values, of which a share is null.
func Random(rng *rand.Rand, t arrow.DataType, n int, nulls float64) arrow.Array {
	if ext, ok := t.(arrow.ExtensionType); ok {
		return array.NewExtensionArrayWithStorage(ext, Random(rng, ext.StorageType(), n, nulls))
	}
	b := array.NewBuilder(memory.DefaultAllocator, t)
	for range n {
		appendRandom(rng, b, nulls)
	}
	return b.NewArray()
}

// words are the texts of random values.
var words = []string{"", "a", "straße", "日本語", "\x00", "NA", "a text that does not fit into a view's twelve bytes"}

func appendRandom(rng *rand.Rand, b array.Builder, nulls float64) {
	_, isRuns := b.(*array.RunEndEncodedBuilder)
	if rng.Float64() < nulls && !isRuns {
		b.AppendNull()
		return
	}
	bits := rng.Uint64()
	word := words[rng.IntN(len(words))]
	switch b := b.(type) {
	case *array.NullBuilder:
		b.AppendNull()
	case *array.BooleanBuilder:
		b.Append(bits&1 == 1)
	case *array.Int8Builder:
		b.Append(int8(bits))
	case *array.Int16Builder:
		b.Append(int16(bits))
	case *array.Int32Builder:
		b.Append(int32(bits))
	case *array.Int64Builder:
		b.Append(int64(bits))
	case *array.Uint8Builder:
		b.Append(uint8(bits))
	case *array.Uint16Builder:
		b.Append(uint16(bits))
	case *array.Uint32Builder:
		b.Append(uint32(bits))
	case *array.Uint64Builder:
		b.Append(bits)
	case *array.Float16Builder:
		b.Append(float16.FromBits(uint16(bits)))
	case *array.Float32Builder:
		b.Append(math.Float32frombits(uint32(bits)))
	case *array.Float64Builder:
		b.Append(math.Float64frombits(bits))
	case interface{ Append(string) }:
		b.Append(word)
	case interface{ AppendString(string) }:
		b.AppendString(word + "\xff") // bytes need not be text
	case *array.FixedSizeBinaryBuilder:
		b.Append(randomBytes(rng, b.Type().(*arrow.FixedSizeBinaryType).ByteWidth))
	case *array.Date32Builder:
		b.Append(arrow.Date32(bits))
	case *array.Date64Builder:
		b.Append(arrow.Date64(int32(bits)) * 86_400_000)
	case *array.Time32Builder:
		b.Append(arrow.Time32(bits % 86_400))
	case *array.Time64Builder:
		b.Append(arrow.Time64(bits % 86_400_000_000))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(bits >> 1))
	case *array.DurationBuilder:
		b.Append(-arrow.Duration(bits >> 1))
	case *array.Decimal32Builder:
		b.Append(decimal.Decimal32(bits))
	case *array.Decimal64Builder:
		b.Append(decimal.Decimal64(bits))
	case *array.Decimal128Builder:
		b.Append(decimal128.New(int64(rng.Uint64()), bits))
	case *array.Decimal256Builder:
		b.Append(decimal256.New(rng.Uint64(), rng.Uint64(), rng.Uint64(), bits))
	case *array.MonthIntervalBuilder:
		b.Append(arrow.MonthInterval(bits))
	case *array.DayTimeIntervalBuilder:
		b.Append(arrow.DayTimeInterval{Days: int32(bits), Milliseconds: int32(bits >> 32)})
	case *array.MonthDayNanoIntervalBuilder:
		b.Append(arrow.MonthDayNanoInterval{Months: int32(bits), Days: int32(bits >> 32), Nanoseconds: int64(rng.Uint64())})
	case *array.Int32DictionaryBuilder:
		if err := b.Append(int32(bits % 9)); err != nil {
			panic(err)
		}
	case *array.BinaryDictionaryBuilder:
		if err := b.AppendString(word); err != nil {
			panic(err)
		}
	case *array.MapBuilder:
		b.Append(true)
		for range rng.IntN(4) {
			appendRandom(rng, b.KeyBuilder(), 0)
			appendRandom(rng, b.ItemBuilder(), nulls)
		}
	case *array.StructBuilder:
		b.Append(true)
		for i := range b.NumField() {
			appendRandom(rng, b.FieldBuilder(i), nulls)
		}
	case array.UnionBuilder:
		t := b.Type().(arrow.UnionType)
		child := rng.IntN(len(t.Fields()))
		b.Append(t.TypeCodes()[child])
		for i := range t.Fields() {
			if i == child {
				appendRandom(rng, b.Child(i), nulls)
			} else if t.Mode() == arrow.SparseMode {
				b.Child(i).AppendEmptyValue()
			}
		}
	case *array.RunEndEncodedBuilder:
		b.Append(1 + bits%3)
		appendRandom(rng, b.ValueBuilder(), nulls)
	case *array.FixedSizeListBuilder:
		b.Append(true)
		for range b.Type().(*arrow.FixedSizeListType).Len() {
			appendRandom(rng, b.ValueBuilder(), nulls)
		}
	case array.VarLenListLikeBuilder:
		n := rng.IntN(4)
		b.AppendWithSize(true, n)
		for range n {
			appendRandom(rng, b.ValueBuilder(), nulls)
		}
	default:
		panic(fmt.Sprintf("no sample for %T", b))
	}
}

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint64())
	}
	return b
}

// NewRand returns a generator whose numbers the seed determines.
func NewRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }
