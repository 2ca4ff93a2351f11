//go:build linux || darwin

package cdevice

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// onDevices runs a test on the CPU, and on each kind of CUDA device and its host. It
// fails if structs are not released at the end.
func onDevices(t *testing.T, test func(t *testing.T, dev arrowbuf.Device)) {
	t.Helper()
	t.Run("cpu", func(t *testing.T) { requireNoHandles(t); test(t, arrowbuf.CPU()) })
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		requireNoHandles(t)
		t.Run("device", func(t *testing.T) { test(t, dev) })
		t.Run("host", func(t *testing.T) { test(t, dev.Host()) })
	})
}

// requireNoHandles checks at the end of a test that C has released all structs.
func requireNoHandles(t *testing.T) {
	t.Cleanup(func() { assert.Zero(t, handleCount(), "structs that C has not released") })
}

// handleCount returns the number of structs that C has not released.
func handleCount() (n int) {
	handles.Range(func(any, any) bool { n++; return true })
	return n
}

// copyDataTo copies data to a device, buffer by buffer, with its offsets.
func copyDataTo(t testing.TB, dev arrowbuf.Device, data arrow.ArrayData) *array.Data {
	t.Helper()
	return transform(data, func(b *memory.Buffer) *memory.Buffer {
		moved, err := dev.Alloc(int64(b.Len()))
		require.NoError(t, err)
		defer moved.Release()
		_, err = moved.CopyFromHost(b.Bytes(), 0)
		require.NoError(t, err)
		return moved.Arrow()
	})
}

// toHost copies an array of any device.
func toHost(t testing.TB, arr arrow.Array) arrow.Array {
	t.Helper()
	data := transform(arr.Data(), func(b *memory.Buffer) *memory.Buffer {
		return memory.NewBufferBytes(download(t, b))
	})
	defer data.Release()
	return array.MakeFromData(data)
}

func download(t testing.TB, b *memory.Buffer) []byte {
	t.Helper()
	from, err := arrowbuf.BufferOf(b)
	require.NoError(t, err)
	defer from.Release()
	raw := make([]byte, b.Len())
	_, err = from.CopyToHost(raw, 0)
	require.NoError(t, err)
	return raw
}

func transform(data arrow.ArrayData, change func(*memory.Buffer) *memory.Buffer) *array.Data {
	buffers := make([]*memory.Buffer, len(data.Buffers()))
	for i, b := range data.Buffers() {
		if b != nil {
			buffers[i] = change(b)
			defer buffers[i].Release()
		}
	}
	var children []arrow.ArrayData
	for _, child := range data.Children() {
		children = append(children, transform(child, change))
	}
	defer releaseData(children)
	made := array.NewData(data.DataType(), data.Len(), buffers, children, data.NullN(), data.Offset())
	if d, ok := data.Dictionary().(*array.Data); ok && d != nil {
		dictionary := transform(d, change)
		defer dictionary.Release()
		made.SetDictionary(dictionary)
	}
	return made
}

// upload copies an array of the host to a device.
func upload(t testing.TB, dev arrowbuf.Device, arr arrow.Array) arrow.Array {
	t.Helper()
	data := copyDataTo(t, dev, arr.Data())
	defer data.Release()
	return arrowbuf.NewArray(data)
}

func requireEqual(t testing.TB, want, got arrow.Array) {
	t.Helper()
	host := toHost(t, got)
	defer host.Release()
	require.True(t, array.Equal(want, host), "of %s: want %v\ngot %v", want.DataType(), want, host)
}

func exported(t testing.TB, arr arrow.Array, dev arrowbuf.Device) *DeviceArray {
	t.Helper()
	out := &DeviceArray{}
	require.NoError(t, ExportArray(arr, dev, out))
	return out
}

// childStructs returns the children of the struct.
func (a *Array) childStructs() []*Array {
	var parts []*Array
	for _, address := range readPointers(a.children, a.nChildren) {
		parts = append(parts, (*Array)(pointer(address)))
	}
	return parts
}

func (s *Schema) childStructs() []*Schema {
	var parts []*Schema
	for _, address := range readPointers(s.children, s.nChildren) {
		parts = append(parts, (*Schema)(pointer(address)))
	}
	return parts
}

// types has at least one type of each layout that arrow-go knows.
var types = func() []arrow.DataType {
	i32, text := arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String
	field := func(name string, t arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: t, Nullable: true, Metadata: arrow.MetadataFrom(map[string]string{"unit": name})}
	}
	sorted := arrow.MapOf(arrow.PrimitiveTypes.Int16, text)
	sorted.KeysSorted = true
	strict := arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int16, i32)
	strict.ValueNullable = false
	return []arrow.DataType{
		arrow.Null, arrow.FixedWidthTypes.Boolean,
		arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, i32, arrow.PrimitiveTypes.Int64,
		arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Uint64,
		arrow.FixedWidthTypes.Float16, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64,
		&arrow.Decimal32Type{Precision: 9, Scale: 2}, &arrow.Decimal64Type{Precision: 18, Scale: -2},
		&arrow.Decimal128Type{Precision: 38, Scale: 5}, &arrow.Decimal256Type{Precision: 76, Scale: 5},
		arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Date64,
		arrow.FixedWidthTypes.Time32s, arrow.FixedWidthTypes.Time32ms, arrow.FixedWidthTypes.Time64us, arrow.FixedWidthTypes.Time64ns,
		&arrow.TimestampType{Unit: arrow.Second}, &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: "Europe/Berlin"},
		&arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "+01:30"}, &arrow.TimestampType{Unit: arrow.Nanosecond},
		arrow.FixedWidthTypes.Duration_s, arrow.FixedWidthTypes.Duration_ms, arrow.FixedWidthTypes.Duration_us, arrow.FixedWidthTypes.Duration_ns,
		arrow.FixedWidthTypes.MonthInterval, arrow.FixedWidthTypes.DayTimeInterval, arrow.FixedWidthTypes.MonthDayNanoInterval,
		&arrow.FixedSizeBinaryType{ByteWidth: 3}, &arrow.FixedSizeBinaryType{ByteWidth: 0},
		text, arrow.BinaryTypes.LargeString, arrow.BinaryTypes.StringView,
		arrow.BinaryTypes.Binary, arrow.BinaryTypes.LargeBinary, arrow.BinaryTypes.BinaryView,
		&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint8, ValueType: text},
		&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int16, ValueType: arrow.BinaryTypes.StringView, Ordered: true},
		&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int64, ValueType: arrow.ListOf(i32)},
		arrow.ListOfField(field("item", i32)), arrow.LargeListOf(text), arrow.ListOfNonNullable(arrow.PrimitiveTypes.Float64),
		arrow.ListViewOf(i32), arrow.LargeListViewOf(text),
		arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Float32), arrow.FixedSizeListOf(2, arrow.FixedWidthTypes.Boolean),
		arrow.StructOf(), arrow.StructOf(field("a", i32), field("b", text), field("a", arrow.ListOf(text))),
		arrow.MapOf(text, i32), sorted,
		arrow.SparseUnionOf([]arrow.Field{field("i", i32), field("s", text)}, []arrow.UnionTypeCode{5, 0}),
		arrow.DenseUnionOf([]arrow.Field{field("i", i32), field("s", text), field("n", arrow.Null)}, []arrow.UnionTypeCode{0, 7, 127}),
		arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, text), strict,
		arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int64, arrow.StructOf(field("x", i32))),
		arrow.ListOf(arrow.StructOf(field("m", sorted), field("d", &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: text}))),
		extensions.NewUUIDType(), extensions.NewBool8Type(),
		newTagged(arrow.ListOf(text)),
		newTagged(&arrow.DictionaryType{IndexType: i32, ValueType: arrow.BinaryTypes.Binary}),
		arrow.StructOf(field("tagged", newTagged(i32))),
		&arrow.DictionaryType{IndexType: i32, ValueType: newTagged(text)},
	}
}()

// generator makes arrays of any type.
type generator struct {
	t   testing.TB
	mem memory.Allocator
	rng *rand.Rand
}

func newGenerator(t testing.TB) *generator {
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	t.Cleanup(func() { mem.AssertSize(t, 0) })
	return &generator{t, mem, rand.New(rand.NewPCG(7, 9))}
}

func (g *generator) array(dtype arrow.DataType, n int, nulls bool) arrow.Array {
	data := g.data(dtype, n, nulls)
	defer data.Release()
	return array.MakeFromData(data)
}

// data returns n elements. If nulls is true, about a third of them are null, and the
// null count is unknown.
func (g *generator) data(dtype arrow.DataType, n int, nulls bool) *array.Data {
	g.t.Helper()
	var buffers []*memory.Buffer
	var children []arrow.ArrayData
	var dictionary *array.Data
	defer func() {
		for _, b := range buffers {
			if b != nil {
				b.Release()
			}
		}
		releaseData(children)
		if dictionary != nil {
			dictionary.Release()
		}
	}()
	child := func(t arrow.DataType, n int, nulls bool) {
		children = append(children, g.data(t, n, nulls))
	}
	unknown := 0
	validity := func() {
		buffers = append(buffers, nil)
		if nulls {
			buffers[0], unknown = g.bits(n), array.UnknownNullCount
		}
	}
	switch t := storageOf(dtype).(type) {
	case *arrow.NullType:
		buffers, unknown = append(buffers, nil), n
	case *arrow.BooleanType:
		validity()
		buffers = append(buffers, g.bits(n))
	case *arrow.StringType, *arrow.BinaryType, *arrow.LargeStringType, *arrow.LargeBinaryType:
		validity()
		width := 4
		if id := t.ID(); id == arrow.LARGE_STRING || id == arrow.LARGE_BINARY {
			width = 8
		}
		ends, size := g.offsets(n, width, 20)
		buffers = append(buffers, ends, g.buffer(size, func(b []byte) {
			for i := range b {
				b[i] = byte('a' + g.rng.IntN(26))
			}
		}))
	case arrow.BinaryViewDataType:
		return g.views(dtype, n, nulls)
	case *arrow.ListType:
		validity()
		ends, size := g.offsets(n, 4, 4)
		buffers = append(buffers, ends)
		child(t.Elem(), size, t.ElemField().Nullable && nulls)
	case *arrow.LargeListType:
		validity()
		ends, size := g.offsets(n, 8, 4)
		buffers = append(buffers, ends)
		child(t.Elem(), size, nulls)
	case *arrow.MapType:
		validity()
		ends, size := g.offsets(n, 4, 4)
		buffers = append(buffers, ends)
		entries := t.Elem().(*arrow.StructType)
		parts := []arrow.ArrayData{g.data(entries.Field(0).Type, size, false), g.data(entries.Field(1).Type, size, nulls)}
		children = append(children, array.NewData(entries, size, []*memory.Buffer{nil}, parts, 0, 0))
		releaseData(parts)
	case *arrow.ListViewType, *arrow.LargeListViewType:
		validity()
		width := 4
		if t.ID() == arrow.LARGE_LIST_VIEW {
			width = 8
		}
		const size = 40
		starts, lengths := make([]int64, n), make([]int64, n)
		for i := range n {
			starts[i] = int64(g.rng.IntN(size)) // values may be in any order
			lengths[i] = int64(g.rng.IntN(min(4, size-int(starts[i])+1)))
		}
		buffers = append(buffers, g.ints(starts, width), g.ints(lengths, width))
		child(fieldsOf(t)[0].Type, size, nulls)
	case *arrow.FixedSizeListType:
		validity()
		child(t.Elem(), n*int(t.Len()), nulls)
	case *arrow.StructType:
		validity()
		for i, f := range t.Fields() {
			child(f.Type, n+2*i, nulls) // longer than the struct
		}
	case arrow.UnionType:
		codes, places, used := make([]int64, n), make([]int64, n), map[int64]int64{}
		for i := range n {
			codes[i] = int64(t.TypeCodes()[g.rng.IntN(t.NumFields())])
			places[i] = used[codes[i]]
			used[codes[i]]++
		}
		buffers = append(buffers, nil, g.ints(codes, 1))
		if t.Mode() == arrow.DenseMode {
			buffers = append(buffers, g.ints(places, 4))
		}
		for _, f := range t.Fields() {
			child(f.Type, n, nulls)
		}
	case *arrow.RunEndEncodedType:
		var ends []int64
		for at := 0; at < n; {
			at += 1 + g.rng.IntN(5)
			ends = append(ends, int64(at))
		}
		run := g.ints(ends, t.RunEnds().(arrow.FixedWidthDataType).Bytes())
		children = append(children, array.NewData(t.RunEnds(), len(ends), []*memory.Buffer{nil, run}, nil, 0, 0))
		run.Release()
		buffers = append(buffers, nil)
		child(t.Encoded(), len(ends), t.ValueNullable && nulls)
	case *arrow.DictionaryType:
		validity()
		const size = 11
		indices := make([]int64, n)
		for i := range indices {
			indices[i] = int64(g.rng.IntN(size))
		}
		buffers = append(buffers, g.ints(indices, t.Bytes()))
		dictionary = g.data(t.ValueType, size, nulls)
	case arrow.FixedWidthDataType:
		validity()
		width := t.Bytes()
		buffers = append(buffers, g.buffer(n*width, func(b []byte) {
			for i := range b {
				if b[i] = byte(g.rng.Uint32()); i%width >= width-width/4-1 && width > 1 {
					b[i] &= 0x1f // no NaN
				}
			}
		}))
	default:
		require.FailNow(g.t, "no generator", dtype)
	}
	data := array.NewData(dtype, n, buffers, children, unknown, 0)
	if dictionary != nil {
		data.SetDictionary(dictionary)
	}
	return data
}

func (g *generator) views(dtype arrow.DataType, n int, nulls bool) *array.Data {
	builder := array.NewBuilder(g.mem, dtype)
	defer builder.Release()
	builder.(interface{ SetBlockSize(uint) }).SetBlockSize(64) // so that the views use several buffers
	for range n {
		text := make([]byte, g.rng.IntN(30))
		for i := range text {
			text[i] = byte('a' + g.rng.IntN(26))
		}
		switch b := builder.(type) {
		case *array.StringViewBuilder:
			b.Append(string(text))
		case *array.BinaryViewBuilder:
			b.Append(text)
		}
	}
	made := builder.NewArray()
	defer made.Release()
	buffers := append([]*memory.Buffer{}, made.Data().Buffers()...)
	if !nulls {
		return array.NewData(dtype, n, buffers, nil, 0, 0)
	}
	buffers[0] = g.bits(n)
	defer buffers[0].Release()
	return array.NewData(dtype, n, buffers, nil, array.UnknownNullCount, 0)
}

// offsets returns the offsets of n elements of at most most values each.
func (g *generator) offsets(n, width, most int) (*memory.Buffer, int) {
	ends := []int64{int64(g.rng.IntN(3))}
	for range n {
		ends = append(ends, ends[len(ends)-1]+int64(g.rng.IntN(most)))
	}
	return g.ints(ends, width), int(ends[n])
}

func (g *generator) ints(all []int64, width int) *memory.Buffer {
	return g.buffer(len(all)*width, func(b []byte) {
		for i, v := range all {
			for j := range width {
				b[i*width+j] = byte(v >> (8 * j))
			}
		}
	})
}

func (g *generator) bits(n int) *memory.Buffer {
	return g.buffer(int(bitutil.BytesForBits(int64(n))), func(b []byte) {
		for i := range n {
			bitutil.SetBitTo(b, i, g.rng.IntN(3) > 0)
		}
	})
}

func (g *generator) buffer(n int, fill func([]byte)) *memory.Buffer {
	b := memory.NewResizableBuffer(g.mem)
	b.Resize(n)
	clear(b.Bytes())
	fill(b.Bytes())
	return b
}

// tagged is an extension type over any storage type, which is registered with
// arrow-go.
type tagged struct{ arrow.ExtensionBase }

type taggedArray struct{ array.ExtensionArrayBase }

func newTagged(storage arrow.DataType) *tagged {
	return &tagged{arrow.ExtensionBase{Storage: storage}}
}

func init() {
	if err := arrow.RegisterExtensionType(newTagged(arrow.Null)); err != nil {
		panic(err)
	}
}

func (*tagged) ArrayType() reflect.Type { return reflect.TypeFor[taggedArray]() }
func (*tagged) ExtensionName() string   { return "quiver.test.cdevice.tagged" }
func (*tagged) Serialize() string       { return "tag" }
func (e *tagged) String() string        { return fmt.Sprintf("tagged<%s>", e.Storage) }
func (e *tagged) Deserialize(storage arrow.DataType, data string) (arrow.ExtensionType, error) {
	if data != "tag" {
		return nil, fmt.Errorf("not a tag: %q", data)
	}
	return newTagged(storage), nil
}
func (e *tagged) ExtensionEquals(other arrow.ExtensionType) bool {
	o, ok := other.(*tagged)
	return ok && arrow.TypeEqual(e.Storage, o.Storage)
}
