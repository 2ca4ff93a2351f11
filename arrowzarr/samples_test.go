package arrowzarr_test

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

// supported is every type that converts to plain or nullable arrays, in every
// unit and layout; dictionaries have tests of their own.
var supported = []arrow.DataType{
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

// sampleTable is a table of all supported types with batches of these lengths,
// each of them a slice of something longer. The shares of nulls go round.
func sampleTable(seed uint64, lengths []int, nulls ...float64) table {
	rng := newRand(seed)
	fields := make([]arrow.Field, len(supported))
	for i, t := range supported {
		fields[i] = arrow.Field{Name: fmt.Sprintf("%02d %s", i, t.ID()), Type: t, Nullable: true}
	}
	var batches [][]arrow.Array
	for b, n := range lengths {
		columns := make([]arrow.Array, len(fields))
		for i, f := range fields {
			before, after := rng.IntN(10), rng.IntN(10)
			whole := sample(rng, f.Type, before+n+after, nulls[b%len(nulls)])
			columns[i] = array.NewSlice(whole, int64(before), int64(before+n))
		}
		batches = append(batches, columns)
	}
	return newTable(fields, batches...)
}

// sample is an array of random values, of which a share is null.
func sample(rng *rand.Rand, t arrow.DataType, n int, nulls float64) arrow.Array {
	if ext, ok := t.(arrow.ExtensionType); ok {
		return array.NewExtensionArrayWithStorage(ext, sample(rng, ext.StorageType(), n, nulls))
	}
	b := array.NewBuilder(memory.DefaultAllocator, t)
	for range n {
		appendSample(rng, b, nulls)
	}
	return b.NewArray()
}

var words = []string{"", "a", "straße", "日本語", "\x00", "NA", "a text that does not fit into a view's twelve bytes"}

func appendSample(rng *rand.Rand, b array.Builder, nulls float64) {
	list, isList := b.(*array.FixedSizeListBuilder)
	if rng.Float64() < nulls {
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
	default:
		if !isList {
			panic(fmt.Sprintf("no sample for %T", b))
		}
		list.Append(true)
		elements := list.ValueBuilder()
		for range list.Type().(*arrow.FixedSizeListType).Len() {
			appendSample(rng, elements, nulls)
		}
	}
}

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint64())
	}
	return b
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }
