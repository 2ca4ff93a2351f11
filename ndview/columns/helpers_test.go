package columns_test

import (
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/stretchr/testify/require"
)

// on copies an array to a device buffer by buffer, and keeps all offsets.
func on(t testing.TB, dev arrowbuf.Device, arr arrow.Array) arrow.Array {
	t.Helper()
	moved := arrowbuf.NewArray(copied(t, dev, arr.Data()))
	t.Cleanup(moved.Release)
	return moved
}

// copied returns a copy of data on a device without validating it.
func copied(t testing.TB, dev arrowbuf.Device, data arrow.ArrayData) *array.Data {
	t.Helper()
	buffers := make([]*memory.Buffer, len(data.Buffers()))
	for i, b := range data.Buffers() {
		if b == nil {
			continue
		}
		moved, err := dev.Alloc(int64(b.Len()))
		require.NoError(t, err)
		_, err = moved.CopyFromHost(b.Bytes(), 0)
		require.NoError(t, err)
		buffers[i] = moved.Arrow()
		moved.Release()
	}
	children := make([]arrow.ArrayData, len(data.Children()))
	for i, child := range data.Children() {
		children[i] = copied(t, dev, child)
	}
	result := array.NewData(data.DataType(), data.Len(), buffers, children, data.NullN(), data.Offset())
	for _, b := range buffers {
		if b != nil {
			b.Release()
		}
	}
	if dictionary, ok := data.Dictionary().(*array.Data); ok && dictionary != nil {
		result.SetDictionary(copied(t, dev, dictionary))
	}
	t.Cleanup(result.Release)
	return result
}

// toHost validates a result and copies it to the host. The cleanup of the test releases
// both.
func toHost(t testing.TB, dev arrowbuf.Device, got arrow.Array, err error) arrow.Array {
	t.Helper()
	require.NoError(t, err)
	t.Cleanup(got.Release)
	require.Contains(t, []arrowbuf.Device{dev, arrowbuf.CPU()}, arrowbuf.DeviceOf(got)) // arrays without buffers are on the CPU
	host, err := arrowbuf.CopyArrayTo(got, arrowbuf.CPU())
	require.NoError(t, err)
	t.Cleanup(host.Release)
	if t, ok := host.DataType().(*arrow.FixedSizeBinaryType); ok && t.ByteWidth == 0 {
		return host // arrow-go considers it invalid
	}
	require.NoError(t, array.ValidateFull(host), "%s: %v", host.DataType(), host)
	return host
}

// requireElements requires that element j of an array is element from[j] of want, or
// null for -1.
func requireElements(t testing.TB, want arrow.Array, from []int, got arrow.Array) {
	t.Helper()
	require.True(t, arrow.TypeEqual(want.DataType(), got.DataType()), "%s, not %s", got.DataType(), want.DataType())
	require.Equal(t, len(from), got.Len())
	requireElementsAt(t, want, from, got, 0)
}

// requireElementsAt is requireElements for the elements of got that start at index at.
func requireElementsAt(t testing.TB, want arrow.Array, from []int, got arrow.Array, at int) {
	t.Helper()
	for j, i := range from {
		j += at
		if i < 0 || want.DataType().ID() == arrow.NULL { // arrow-go does not count nulls of slices
			require.True(t, isNull(got, j), "element %d of %s", j, want.DataType())
			continue
		}
		if !same(want, i, got, j) {
			require.Failf(t, "elements differ", "element %d of %s: want %s, got %s", j, want.DataType(), want.ValueStr(i), got.ValueStr(j))
		}
	}
}

// same reports whether two elements are equal. arrow-go compares dictionaries as a
// whole, so elements with dictionaries are compared by their JSON values.
func same(a arrow.Array, i int, b arrow.Array, j int) bool {
	if strings.Contains(a.DataType().String(), "dictionary<") {
		return a.IsNull(i) == b.IsNull(j) && reflect.DeepEqual(a.GetOneForMarshal(i), b.GetOneForMarshal(j))
	}
	return array.SliceEqual(a, int64(i), int64(i+1), b, int64(j), int64(j+1))
}

// isNull reports whether an element is null, directly or through a child.
func isNull(arr arrow.Array, i int) bool {
	switch a := arr.(type) {
	case array.Union:
		at := i
		if dense, ok := a.(*array.DenseUnion); ok {
			at = int(dense.ValueOffset(i))
		}
		return isNull(a.Field(a.ChildID(i)), at)
	case *array.RunEndEncoded:
		return isNull(a.Values(), a.GetPhysicalIndex(i))
	case array.ExtensionArray:
		return isNull(a.Storage(), i)
	default:
		return arr.IsNull(i) || arr.DataType().ID() == arrow.NULL
	}
}

// upTo returns 0, 1, ..., n-1.
func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

var pair = []arrow.Field{
	{Name: "x", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
	{Name: "y", Type: arrow.BinaryTypes.LargeString, Nullable: true},
}

// types has every layout at least once, and nested types.
var types = []arrow.DataType{
	arrow.Null, arrow.FixedWidthTypes.Boolean,
	arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Uint64,
	arrow.FixedWidthTypes.Float16, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64,
	&arrow.Decimal32Type{Precision: 9, Scale: 2}, &arrow.Decimal64Type{Precision: 18, Scale: 2},
	&arrow.Decimal128Type{Precision: 38, Scale: 5}, &arrow.Decimal256Type{Precision: 76, Scale: 5},
	arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Time64ns, &arrow.TimestampType{Unit: arrow.Second, TimeZone: "Europe/Berlin"},
	arrow.FixedWidthTypes.Duration_ms, arrow.FixedWidthTypes.DayTimeInterval, arrow.FixedWidthTypes.MonthDayNanoInterval,
	&arrow.FixedSizeBinaryType{ByteWidth: 3}, &arrow.FixedSizeBinaryType{ByteWidth: 0},
	arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString, arrow.BinaryTypes.StringView,
	arrow.BinaryTypes.Binary, arrow.BinaryTypes.LargeBinary, arrow.BinaryTypes.BinaryView,
	&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint8, ValueType: arrow.BinaryTypes.String},
	&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int64, ValueType: arrow.PrimitiveTypes.Int32},
	arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Float32), arrow.FixedSizeListOf(2, arrow.BinaryTypes.String),
	arrow.FixedSizeListOf(2, arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Int16)), arrow.FixedSizeListOf(2, arrow.FixedWidthTypes.Boolean),
	arrow.ListOf(arrow.PrimitiveTypes.Int16), arrow.LargeListOf(arrow.BinaryTypes.String), arrow.ListOf(arrow.Null),
	arrow.ListOf(arrow.ListOf(arrow.FixedWidthTypes.Boolean)),
	arrow.ListOf(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}),
	arrow.ListViewOf(arrow.PrimitiveTypes.Int32), arrow.LargeListViewOf(arrow.BinaryTypes.StringView),
	arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Float64), arrow.MapOf(arrow.PrimitiveTypes.Int8, arrow.ListOf(arrow.PrimitiveTypes.Int8)),
	arrow.StructOf(), arrow.StructOf(pair...), arrow.StructOf(arrow.Field{Name: "deep", Type: arrow.StructOf(pair...), Nullable: true}),
	arrow.SparseUnionOf(pair, []arrow.UnionTypeCode{5, 9}), arrow.DenseUnionOf(pair, []arrow.UnionTypeCode{0, 1}),
	arrow.DenseUnionOf([]arrow.Field{{Name: "u", Type: arrow.ListOf(arrow.PrimitiveTypes.Int8), Nullable: true},
		{Name: "v", Type: arrow.Null, Nullable: true}}, []arrow.UnionTypeCode{126, 3}),
	arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int16, arrow.BinaryTypes.String),
	arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Float32),
	arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int64, arrow.StructOf(pair...)),
	arrow.FixedSizeListOf(2, arrow.StructOf(pair...)), arrow.ListOf(arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String)),
	arrow.ListOf(arrow.DenseUnionOf(pair, []arrow.UnionTypeCode{0, 1})),
	arrow.ListOf(arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int8)),
	arrow.StructOf(
		arrow.Field{Name: "lists", Type: arrow.LargeListOf(arrow.BinaryTypes.BinaryView), Nullable: true},
		arrow.Field{Name: "words", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint16, ValueType: arrow.BinaryTypes.LargeString}, Nullable: true},
		arrow.Field{Name: "runs", Type: arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.ListOf(arrow.PrimitiveTypes.Int8)), Nullable: true},
		arrow.Field{Name: "either", Type: arrow.DenseUnionOf(pair, []arrow.UnionTypeCode{3, 7}), Nullable: true},
	),
	extensions.NewUUIDType(), extensions.NewBool8Type(), newTagged(arrow.StructOf(pair...)), newTagged(arrow.BinaryTypes.LargeString),
}

// maker makes random arrays. If nulls is set, about a third of the elements are null,
// and the null count is unknown.
type maker struct {
	t     testing.TB
	rng   *rand.Rand
	nulls bool
}

func newMaker(t testing.TB, seed int, nulls bool) maker {
	return maker{t, rand.New(rand.NewPCG(11, uint64(seed))), nulls}
}

// array returns n elements of a type. If sliced is true, they are the middle of a
// longer array.
func (m maker) array(dtype arrow.DataType, n int, sliced bool) arrow.Array {
	m.t.Helper()
	extra := 0
	if sliced {
		extra = 1 + m.rng.IntN(20)
	}
	data := m.data(dtype, n+2*extra)
	defer data.Release()
	whole := array.MakeFromData(data)
	defer whole.Release()
	part := array.NewSlice(whole, int64(extra), int64(extra+n))
	m.t.Cleanup(part.Release)
	return part
}

func (m maker) data(dtype arrow.DataType, n int) *array.Data {
	m.t.Helper()
	switch t := dtype.(type) {
	case *arrow.NullType:
		return array.NewData(dtype, n, []*memory.Buffer{nil}, nil, n, 0)
	case arrow.ExtensionType:
		data := m.data(t.StorageType(), n)
		data.Reset(dtype, n, data.Buffers(), data.Children(), data.NullN(), 0)
		return data
	case arrow.BinaryViewDataType, *arrow.StringType, *arrow.BinaryType, *arrow.LargeStringType, *arrow.LargeBinaryType:
		return m.text(dtype.(arrow.BinaryDataType), n)
	}
	unknown, valid := 0, (*memory.Buffer)(nil)
	if id := dtype.ID(); m.nulls && id != arrow.SPARSE_UNION && id != arrow.DENSE_UNION && id != arrow.RUN_END_ENCODED {
		unknown, valid = array.UnknownNullCount, m.bitmap(n)
	}
	buffers, children := []*memory.Buffer{valid}, []arrow.ArrayData{}
	child := func(t arrow.DataType, n int) {
		skip := int64(m.rng.IntN(2) * m.rng.IntN(12)) // some children are slices
		data := m.data(t, n+2*int(skip))
		m.t.Cleanup(data.Release)
		part := array.NewSliceData(data, skip, skip+int64(n))
		m.t.Cleanup(part.Release)
		children = append(children, part)
	}
	list := func(width int, elem arrow.DataType) {
		to := make([]int, n+1)
		to[0] = 2
		for i := range n {
			to[i+1] = to[i] + m.rng.IntN(4)
		}
		buffers = append(buffers, integers(width, to))
		child(elem, to[n]+3)
	}
	switch t := dtype.(type) {
	case *arrow.BooleanType:
		buffers = append(buffers, m.bitmap(n))
	case *arrow.DictionaryType:
		buffers = append(buffers, integers(t.Bytes(), m.below(n, 11)))
		m.nulls = m.nulls && m.rng.IntN(2) == 0
		values := m.data(t.ValueType, 11)
		defer values.Release()
		return array.NewDataWithDictionary(dtype, n, buffers, unknown, 0, values)
	case *arrow.ListType:
		list(4, t.Elem())
	case *arrow.LargeListType:
		list(8, t.Elem())
	case *arrow.MapType:
		m.nulls = false
		list(4, t.Elem())
	case *arrow.ListViewType:
		buffers = append(buffers, integers(4, m.below(n, 20)), integers(4, m.below(n, 4)))
		child(t.Elem(), 25)
	case *arrow.LargeListViewType:
		buffers = append(buffers, integers(8, m.below(n, 20)), integers(8, m.below(n, 4)))
		child(t.Elem(), 25)
	case *arrow.FixedSizeListType:
		child(t.Elem(), n*int(t.Len()))
	case *arrow.StructType:
		for _, f := range t.Fields() {
			child(f.Type, n)
		}
	case *arrow.SparseUnionType:
		buffers = append(buffers, m.codes(n, t.TypeCodes()))
		for _, f := range t.Fields() {
			child(f.Type, n)
		}
	case *arrow.DenseUnionType:
		ids := m.codes(n, t.TypeCodes())
		counts, offsets := map[byte]int{}, make([]int, n)
		for i, id := range ids.Bytes() {
			offsets[i] = counts[id]
			counts[id]++
		}
		buffers = append(buffers, ids, integers(4, offsets))
		for i, f := range t.Fields() {
			child(f.Type, counts[byte(t.TypeCodes()[i])])
		}
	case *arrow.RunEndEncodedType:
		var ends []int
		for end := 0; end < n; ends = append(ends, end) {
			end += 1 + m.rng.IntN(5)
		}
		runs := array.NewData(t.RunEnds(), len(ends), []*memory.Buffer{nil, integers(t.RunEnds().(arrow.FixedWidthDataType).Bytes(), ends)}, nil, 0, 0)
		m.t.Cleanup(runs.Release)
		children = append(children, runs)
		child(t.Encoded(), len(ends))
		return array.NewData(dtype, n, []*memory.Buffer{nil}, children, 0, 0)
	case arrow.FixedWidthDataType:
		b := make([]byte, n*t.Bytes(), n*t.Bytes()+64)
		for i := range b {
			if b[i] = byte(m.rng.Uint32()); i%t.Bytes() >= t.Bytes()-t.Bytes()/4-1 {
				b[i] &= 0x1f // avoids NaN and years that cannot be formatted
			}
		}
		buffers = append(buffers, memory.NewBufferBytes(b))
	default:
		require.FailNow(m.t, "no generator", dtype)
	}
	return array.NewData(dtype, n, buffers, children, unknown, 0)
}

func (m maker) text(dtype arrow.BinaryDataType, n int) *array.Data {
	builder := array.NewBuilder(memory.DefaultAllocator, dtype)
	defer builder.Release()
	for range n {
		text := strings.Repeat(string(rune('a'+m.rng.IntN(26))), m.rng.IntN(30))
		if m.rng.IntN(50) == 0 {
			text = strings.Repeat(text, 40)
		}
		switch {
		case m.nulls && m.rng.IntN(3) == 0:
			builder.AppendNull()
		case dtype.IsUtf8():
			builder.(array.StringLikeBuilder).Append(text)
		default:
			builder.(array.BinaryLikeBuilder).Append([]byte(text))
		}
	}
	result := builder.NewArray()
	defer result.Release()
	result.Data().Retain()
	return result.Data().(*array.Data)
}

func (m maker) bitmap(n int) *memory.Buffer {
	b := make([]byte, bitutil.BytesForBits(int64(n)), n/8+64)
	for i := range n {
		bitutil.SetBitTo(b, i, m.rng.IntN(3) > 0)
	}
	return memory.NewBufferBytes(b)
}

func (m maker) below(n, limit int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = m.rng.IntN(limit)
	}
	return all
}

func (m maker) codes(n int, codes []arrow.UnionTypeCode) *memory.Buffer {
	ids := m.below(n, len(codes))
	for i := range ids {
		ids[i] = int(codes[ids[i]])
	}
	return integers(1, ids)
}

func integers(width int, values []int) *memory.Buffer {
	b := make([]byte, 0, width*len(values)+64)
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))[:len(b)+width]
	}
	return memory.NewBufferBytes(b)
}

// tagged is an extension type over any storage.
type tagged struct{ arrow.ExtensionBase }

type taggedArray struct{ array.ExtensionArrayBase }

func newTagged(storage arrow.DataType) *tagged {
	return &tagged{arrow.ExtensionBase{Storage: storage}}
}

func (a *taggedArray) ValueStr(i int) string { return "<" + a.Storage().ValueStr(i) + ">" }

func (*tagged) ArrayType() reflect.Type { return reflect.TypeFor[taggedArray]() }
func (*tagged) ExtensionName() string   { return "quiver.test.tagged" }
func (*tagged) Serialize() string       { return "" }
func (e *tagged) String() string        { return "tagged<" + e.Storage.String() + ">" }
func (*tagged) Deserialize(storage arrow.DataType, _ string) (arrow.ExtensionType, error) {
	return newTagged(storage), nil
}
func (e *tagged) ExtensionEquals(other arrow.ExtensionType) bool {
	o, ok := other.(*tagged)
	return ok && arrow.TypeEqual(e.Storage, o.Storage)
}

// part is an array of unvalidated data of any type.
type part struct {
	arrow.Array
	data *array.Data
}

func (p part) Data() arrow.ArrayData { return p.data }

func (p part) DataType() arrow.DataType { return p.data.DataType() }

func (p part) Len() int { return p.data.Len() }

func (p part) Retain() { p.data.Retain() }

func (p part) Release() { p.data.Release() }
