// Package arraytest makes random arrays of every type for the tests of arrowbuf and
// the packages in it.
package arraytest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
)

// Types are all types, one at least of every kind.
var Types = []arrow.DataType{
	arrow.Null, arrow.FixedWidthTypes.Boolean,
	arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64,
	arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Uint64,
	arrow.FixedWidthTypes.Float16, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64,
	&arrow.Decimal32Type{Precision: 9, Scale: 2}, &arrow.Decimal64Type{Precision: 18, Scale: 2},
	&arrow.Decimal128Type{Precision: 38, Scale: 5}, &arrow.Decimal256Type{Precision: 76, Scale: 5},
	arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Date64,
	arrow.FixedWidthTypes.Time32s, arrow.FixedWidthTypes.Time32ms, arrow.FixedWidthTypes.Time64us, arrow.FixedWidthTypes.Time64ns,
	&arrow.TimestampType{Unit: arrow.Microsecond}, &arrow.TimestampType{Unit: arrow.Second, TimeZone: "Europe/Berlin"},
	arrow.FixedWidthTypes.Duration_ms,
	arrow.FixedWidthTypes.MonthInterval, arrow.FixedWidthTypes.DayTimeInterval, arrow.FixedWidthTypes.MonthDayNanoInterval,
	&arrow.FixedSizeBinaryType{ByteWidth: 3}, &arrow.FixedSizeBinaryType{ByteWidth: 0},
	arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString, arrow.BinaryTypes.StringView,
	arrow.BinaryTypes.Binary, arrow.BinaryTypes.LargeBinary, arrow.BinaryTypes.BinaryView,
	&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint8, ValueType: arrow.BinaryTypes.String},
	&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int16, ValueType: arrow.BinaryTypes.StringView, Ordered: true},
	&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int64, ValueType: arrow.PrimitiveTypes.Int32},
	arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Float32),
	arrow.FixedSizeListOf(2, arrow.FixedWidthTypes.Boolean),
	arrow.FixedSizeListOf(2, arrow.BinaryTypes.String),
	arrow.FixedSizeListOf(2, arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Int16)),
	arrow.FixedSizeListOf(2, &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}),
	&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint64, ValueType: arrow.ListOf(arrow.BinaryTypes.StringView)},
	arrow.ListOf(arrow.PrimitiveTypes.Int16), arrow.ListOf(arrow.Null), arrow.LargeListOf(arrow.BinaryTypes.String),
	arrow.ListOf(arrow.ListOf(arrow.FixedWidthTypes.Boolean)),
	arrow.ListOf(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}),
	arrow.ListViewOf(arrow.PrimitiveTypes.Int32), arrow.LargeListViewOf(arrow.BinaryTypes.StringView),
	arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Float64), arrow.MapOf(arrow.PrimitiveTypes.Int8, arrow.ListOf(arrow.PrimitiveTypes.Int8)),
	arrow.StructOf(), arrow.StructOf(pair...), arrow.StructOf(arrow.Field{Name: "deep", Type: arrow.StructOf(pair...), Nullable: true}),
	arrow.SparseUnionOf(pair, []arrow.UnionTypeCode{5, 9}), arrow.DenseUnionOf(pair, []arrow.UnionTypeCode{0, 1}),
	arrow.DenseUnionOf([]arrow.Field{{Name: "u", Type: arrow.ListOf(arrow.PrimitiveTypes.Int8), Nullable: true}, {Name: "v", Type: arrow.Null, Nullable: true}}, []arrow.UnionTypeCode{126, 3}),
	arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int16, arrow.BinaryTypes.String),
	arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Float32),
	arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int64, arrow.StructOf(pair...)),
	arrow.FixedSizeListOf(2, arrow.ListOf(arrow.PrimitiveTypes.Int8)), arrow.FixedSizeListOf(2, arrow.StructOf(pair...)),
	Tagged(arrow.StructOf(pair...)), Tagged(arrow.ListOf(extensions.NewBool8Type())),
	extensions.NewUUIDType(), extensions.NewBool8Type(),
	Tagged(arrow.BinaryTypes.LargeString),
	Tagged(arrow.FixedSizeListOf(4, arrow.PrimitiveTypes.Float64)),
	Tagged(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.Binary}),
}

var pair = []arrow.Field{
	{Name: "x", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
	{Name: "y", Type: arrow.BinaryTypes.LargeString, Nullable: true},
}

// Random makes n elements; about a third of them are null if nulls is set,
// in an array that does not know how many.
func Random(t testing.TB, mem memory.Allocator, rng *rand.Rand, dtype arrow.DataType, n int, nulls bool) arrow.Array {
	t.Helper()
	switch dt := dtype.(type) {
	case *arrow.NullType:
		return array.NewNull(n)
	case arrow.ExtensionType:
		storage := Random(t, mem, rng, dt.StorageType(), n, nulls)
		defer storage.Release()
		data := storage.Data().(*array.Data).Copy() // NewExtensionArrayWithStorage forgets the dictionary
		defer data.Release()
		data.Reset(dt, data.Len(), data.Buffers(), data.Children(), data.NullN(), 0)
		data.SetDictionary(storage.Data().Dictionary())
		return array.MakeFromData(data)
	case arrow.BinaryDataType:
		return randomBinary(mem, rng, dt, n, nulls)
	}
	data := randomData(t, mem, rng, dtype, n, nulls)
	defer data.Release()
	return array.MakeFromData(data)
}

func randomData(t testing.TB, mem memory.Allocator, rng *rand.Rand, dtype arrow.DataType, n int, nulls bool) *array.Data {
	t.Helper()
	buffers, unknown := []*memory.Buffer{nil}, 0
	defer func() {
		for _, b := range buffers {
			if b != nil {
				b.Release()
			}
		}
	}()
	if nulls {
		buffers[0], unknown = randomBits(mem, rng, n), array.UnknownNullCount
	}
	switch dt := dtype.(type) {
	case *arrow.DictionaryType:
		const size = 11
		buffers = append(buffers, Buffer(mem, n*dt.Bytes(), func(b []byte) {
			for i := range n {
				b[i*dt.Bytes()] = byte(rng.IntN(size))
			}
		}))
		values := Random(t, mem, rng, dt.ValueType, size, false)
		defer values.Release()
		return array.NewDataWithDictionary(dt, n, buffers, unknown, 0, values.Data().(*array.Data))
	case *arrow.FixedSizeListType:
		values := Random(t, mem, rng, dt.Elem(), n*int(dt.Len()), nulls)
		defer values.Release()
		return array.NewData(dt, n, buffers, []arrow.ArrayData{values.Data()}, unknown, 0)
	case arrow.NestedType:
		return randomNested(t, mem, rng, dt, n, nulls)
	case *arrow.BooleanType:
		buffers = append(buffers, randomBits(mem, rng, n))
	case arrow.FixedWidthDataType:
		width := dt.Bytes()
		buffers = append(buffers, Buffer(mem, n*width, func(b []byte) {
			for i := range b {
				b[i] = byte(rng.Uint32())
				if i%width >= width-width/4-1 && width > 1 {
					b[i] &= 0x1f // no NaN, no year beyond printing
				}
				if i%width == 0 && dtype.ID() == arrow.EXTENSION {
					b[i] &= 1
				}
			}
		}))
	default:
		require.FailNow(t, "no generator", dtype)
	}
	return array.NewData(dtype, n, buffers, nil, unknown, 0)
}

func randomBinary(mem memory.Allocator, rng *rand.Rand, dtype arrow.BinaryDataType, n int, nulls bool) arrow.Array {
	builder := array.NewBuilder(mem, dtype)
	defer builder.Release()
	for range n {
		text := strings.Repeat(string(rune('a'+rng.IntN(26))), rng.IntN(30))
		switch {
		case nulls && rng.IntN(3) == 0:
			builder.AppendNull()
		case dtype.IsUtf8():
			builder.(array.StringLikeBuilder).Append(text)
		default:
			builder.(array.BinaryLikeBuilder).Append([]byte(text))
		}
	}
	return builder.NewArray()
}

func randomBits(mem memory.Allocator, rng *rand.Rand, n int) *memory.Buffer {
	return Buffer(mem, int(bitutil.BytesForBits(int64(n))), func(b []byte) {
		for i := range n {
			bitutil.SetBitTo(b, i, rng.IntN(3) > 0)
		}
	})
}

// Buffer makes a buffer of n bytes, which fill finds cleared.
func Buffer(mem memory.Allocator, n int, fill func([]byte)) *memory.Buffer {
	b := memory.NewResizableBuffer(mem)
	b.Reserve(n + 1) // arrow-go prints elements of no bytes by whether there is memory
	b.ResizeNoShrink(n)
	clear(b.Bytes())
	fill(b.Bytes())
	return b
}

// tagged is what Tagged makes.
type tagged struct{ arrow.ExtensionBase }

type taggedArray struct{ array.ExtensionArrayBase }

// Tagged is an extension type over any storage.
func Tagged(storage arrow.DataType) *tagged {
	return &tagged{arrow.ExtensionBase{Storage: storage}}
}

func (*tagged) ArrayType() reflect.Type      { return reflect.TypeFor[taggedArray]() }
func (*tagged) ExtensionName() string        { return "quiver.test.tagged" }
func (*tagged) Serialize() string            { return "" }
func (e *tagged) String() string             { return fmt.Sprintf("tagged<%s>", e.Storage) }
func (a *taggedArray) ValueStr(i int) string { return "<" + a.Storage().ValueStr(i) + ">" }
func (e *tagged) Deserialize(storage arrow.DataType, _ string) (arrow.ExtensionType, error) {
	return Tagged(storage), nil
}
func (e *tagged) ExtensionEquals(other arrow.ExtensionType) bool {
	o, ok := other.(*tagged)
	return ok && arrow.TypeEqual(e.Storage, o.Storage)
}
