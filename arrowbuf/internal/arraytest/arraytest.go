// Package arraytest makes random arrays of all types for the tests of arrowbuf and
// the packages below it.
package arraytest

import (
	"encoding/binary"
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

// Types has at least one type of each layout.
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

// Random returns n random elements. If nulls is true, about a third of them are
// null, and the null count is unknown.
func Random(t testing.TB, mem memory.Allocator, rng *rand.Rand, dtype arrow.DataType, n int, nulls bool) arrow.Array {
	t.Helper()
	switch dt := dtype.(type) {
	case *arrow.NullType:
		return array.NewNull(n)
	case arrow.ExtensionType:
		storage := Random(t, mem, rng, dt.StorageType(), n, nulls)
		defer storage.Release()
		data := storage.Data().(*array.Data).Copy() // NewExtensionArrayWithStorage drops the dictionary
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
					b[i] &= 0x1f // no NaN, and no year that cannot be printed
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

// Buffer returns a buffer of n bytes, zeroed and then passed to fill.
func Buffer(mem memory.Allocator, n int, fill func([]byte)) *memory.Buffer {
	b := memory.NewResizableBuffer(mem)
	b.Reserve(n + 1) // arrow-go prints elements of 0 bytes differently if there is no memory
	b.ResizeNoShrink(n)
	clear(b.Bytes())
	fill(b.Bytes())
	return b
}

// tagged is the extension type that Tagged returns.
type tagged struct{ arrow.ExtensionBase }

type taggedArray struct{ array.ExtensionArrayBase }

// Tagged returns an extension type over any storage type.
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

// randomNested returns n elements of a nested type. The children have more elements
// than the parent shows.
func randomNested(t testing.TB, mem memory.Allocator, rng *rand.Rand, dtype arrow.NestedType, n int, nulls bool) *array.Data {
	t.Helper()
	const spare = 3
	buffers, unknown := []*memory.Buffer{nil}, 0
	var children []arrow.ArrayData
	defer func() {
		for _, b := range buffers {
			if b != nil {
				b.Release()
			}
		}
		for _, child := range children {
			child.Release()
		}
	}()
	add := func(dtype arrow.DataType, n int, nulls bool) {
		child := Random(t, mem, rng, dtype, n, nulls)
		defer child.Release()
		child.Data().Retain()
		children = append(children, child.Data())
	}
	integers := func(width int, values []int) {
		buffers = append(buffers, Buffer(mem, width*len(values), func(b []byte) {
			for i, v := range values {
				var wide [8]byte
				binary.LittleEndian.PutUint64(wide[:], uint64(v))
				copy(b[i*width:(i+1)*width], wide[:])
			}
		}))
	}
	if nulls && dtype.ID() != arrow.SPARSE_UNION && dtype.ID() != arrow.DENSE_UNION && dtype.ID() != arrow.RUN_END_ENCODED {
		buffers[0], unknown = randomBits(mem, rng, n), array.UnknownNullCount
	}
	list := func(width int, elem arrow.DataType, nulls bool) {
		offsets := []int{spare}
		for range n {
			offsets = append(offsets, offsets[len(offsets)-1]+rng.IntN(4))
		}
		integers(width, offsets)
		add(elem, offsets[n]+spare, nulls)
	}
	views := func(width int, elem arrow.DataType) {
		const values = 20
		var offsets, sizes []int
		for range n {
			offsets, sizes = append(offsets, rng.IntN(values)), append(sizes, rng.IntN(4))
		}
		integers(width, offsets)
		integers(width, sizes)
		add(elem, values+spare, nulls)
	}
	switch dt := dtype.(type) {
	case *arrow.ListType:
		list(4, dt.Elem(), nulls)
	case *arrow.LargeListType:
		list(8, dt.Elem(), nulls)
	case *arrow.MapType:
		list(4, arrow.Null, false)
		count := children[0].Len()
		children[0].Release()
		children = nil
		keys := Random(t, mem, rng, dt.KeyType(), count, false)
		items := Random(t, mem, rng, dt.ItemType(), count, nulls)
		children = append(children, array.NewData(dt.Elem(), count, []*memory.Buffer{nil}, []arrow.ArrayData{keys.Data(), items.Data()}, 0, 0))
		keys.Release()
		items.Release()
	case *arrow.ListViewType:
		views(4, dt.Elem())
	case *arrow.LargeListViewType:
		views(8, dt.Elem())
	case *arrow.StructType:
		for _, f := range dt.Fields() {
			add(f.Type, n+spare, nulls)
		}
	case arrow.UnionType:
		var ids, offsets []int
		for range n {
			ids, offsets = append(ids, int(dt.TypeCodes()[rng.IntN(2)])), append(offsets, len(offsets)/2+rng.IntN(2))
		}
		integers(1, ids)
		if dt.Mode() == arrow.DenseMode {
			integers(4, offsets)
		}
		for _, f := range dt.Fields() {
			add(f.Type, n+spare, nulls)
		}
	case *arrow.RunEndEncodedType:
		var ends []int
		for last := 0; last < n+spare; {
			last += 1 + rng.IntN(5)
			ends = append(ends, last)
		}
		integers(dt.RunEnds().(arrow.FixedWidthDataType).Bytes(), ends)
		ends32 := array.NewData(dt.RunEnds(), len(ends), []*memory.Buffer{nil, buffers[1]}, nil, 0, 0)
		buffers[1].Release()
		buffers = buffers[:1]
		children = append(children, ends32)
		add(dt.Encoded(), len(ends), nulls)
	default:
		require.FailNow(t, "no generator", dtype)
	}
	return array.NewData(dtype, n, append([]*memory.Buffer(nil), buffers...), append([]arrow.ArrayData(nil), children...), unknown, 0)
}

// Wide returns a batch of about the given number of bytes, and their exact number. A
// quarter of the columns each are 64-bit integers, doubles with nulls, floats, and
// strings of four letters.
func Wide(t testing.TB, mem memory.Allocator, columns int, bytes int64) (arrow.RecordBatch, int64) {
	rng := rand.New(rand.NewPCG(1, 1))
	rows := int(bytes/int64(columns)) / 7 // four columns take 28 bytes and 1 bit per row
	var fields []arrow.Field
	var arrays []arrow.Array
	var size int64
	for i := range columns {
		var dtype arrow.DataType
		buffers, nulls := []*memory.Buffer{nil}, 0
		switch i % 4 {
		case 0:
			dtype = arrow.PrimitiveTypes.Int64
			buffers = append(buffers, randomWords(mem, rng, rows*8))
		case 1:
			dtype = arrow.PrimitiveTypes.Float64
			buffers = []*memory.Buffer{randomWords(mem, rng, (rows+7)/8), randomWords(mem, rng, rows*8)}
			nulls = array.UnknownNullCount
		case 2:
			dtype = arrow.PrimitiveTypes.Float32
			buffers = append(buffers, randomWords(mem, rng, rows*4))
		case 3:
			dtype = arrow.BinaryTypes.String
			buffers = append(buffers, shortOffsets(mem, rows), randomWords(mem, rng, rows*4))
		}
		data := array.NewData(dtype, rows, buffers, nil, nulls, 0)
		column := array.MakeFromData(data)
		data.Release()
		defer column.Release()
		for _, buffer := range buffers {
			if buffer != nil {
				size += int64(buffer.Len())
				buffer.Release()
			}
		}
		fields = append(fields, arrow.Field{Name: fmt.Sprintf("c%d", i), Type: dtype, Nullable: true})
		arrays = append(arrays, column)
	}
	made := array.NewRecordBatch(arrow.NewSchema(fields, nil), arrays, int64(rows))
	t.Cleanup(made.Release)
	return made, size
}

// randomWords returns a buffer of n random bytes, eight at a time: benchmarks need
// gigabytes.
func randomWords(mem memory.Allocator, rng *rand.Rand, n int) *memory.Buffer {
	return Buffer(mem, n, func(p []byte) {
		for ; len(p) >= 8; p = p[8:] {
			binary.LittleEndian.PutUint64(p, rng.Uint64()&0x7f7f7f7f7f7f7f7f) // ASCII, and no NaN
		}
		for i := range p {
			p[i] = 'a'
		}
	})
}

func shortOffsets(mem memory.Allocator, n int) *memory.Buffer {
	return Buffer(mem, 4*(n+1), func(p []byte) {
		for i := range n + 1 {
			binary.LittleEndian.PutUint32(p[4*i:], uint32(4*i))
		}
	})
}
