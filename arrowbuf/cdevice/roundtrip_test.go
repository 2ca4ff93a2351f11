//go:build linux || darwin

package cdevice

import (
	"testing"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

func TestStructsLieAsInC(t *testing.T) {
	var s Schema
	assert.EqualValues(t, 72, unsafe.Sizeof(s))
	var a DeviceArray
	assert.EqualValues(t, 80, unsafe.Sizeof(a.array))
	assert.EqualValues(t, 128, unsafe.Sizeof(a))
	var d DeviceStream
	assert.EqualValues(t, 48, unsafe.Sizeof(d))
	for _, tt := range []struct{ want, got uintptr }{
		{0, unsafe.Offsetof(s.format)}, {8, unsafe.Offsetof(s.name)}, {16, unsafe.Offsetof(s.metadata)}, {24, unsafe.Offsetof(s.flags)},
		{32, unsafe.Offsetof(s.nChildren)}, {40, unsafe.Offsetof(s.children)}, {48, unsafe.Offsetof(s.dictionary)},
		{56, unsafe.Offsetof(s.release)}, {64, unsafe.Offsetof(s.private)},
		{0, unsafe.Offsetof(a.array.length)}, {8, unsafe.Offsetof(a.array.nulls)}, {16, unsafe.Offsetof(a.array.offset)},
		{24, unsafe.Offsetof(a.array.nBuffers)}, {32, unsafe.Offsetof(a.array.nChildren)}, {40, unsafe.Offsetof(a.array.buffers)},
		{48, unsafe.Offsetof(a.array.children)}, {56, unsafe.Offsetof(a.array.dictionary)}, {64, unsafe.Offsetof(a.array.release)},
		{72, unsafe.Offsetof(a.array.private)},
		{80, unsafe.Offsetof(a.deviceID)}, {88, unsafe.Offsetof(a.deviceType)}, {96, unsafe.Offsetof(a.event)}, {104, unsafe.Offsetof(a.reserved)},
		{0, unsafe.Offsetof(d.deviceType)}, {8, unsafe.Offsetof(d.getSchema)}, {16, unsafe.Offsetof(d.getNext)},
		{24, unsafe.Offsetof(d.getLastError)}, {32, unsafe.Offsetof(d.release)}, {40, unsafe.Offsetof(d.private)},
	} {
		assert.Equal(t, tt.want, tt.got)
	}
}

func TestFieldsOfEveryTypeGoThereAndBack(t *testing.T) {
	clean(t)
	for _, dtype := range types {
		for _, field := range []arrow.Field{
			{Name: "", Type: dtype},
			{Name: "näme", Type: dtype, Nullable: true, Metadata: arrow.NewMetadata([]string{"k", "", "k"}, []string{"v", "\x00\xff", ""})},
		} {
			var s Schema
			require.NoError(t, ExportField(field, &s))
			back, err := ImportField(&s)
			require.NoError(t, err)
			assert.True(t, s.Released())
			assert.True(t, field.Equal(back), "want %v\ngot %v", field, back)
			assert.Equal(t, dtype.String(), back.Type.String())
		}
	}
}

func TestSchemasGoThereAndBack(t *testing.T) {
	clean(t)
	var fields []arrow.Field
	for _, dtype := range types {
		fields = append(fields, arrow.Field{Name: dtype.Name(), Type: dtype, Nullable: true})
	}
	meta := arrow.MetadataFrom(map[string]string{"made by": "a test"})
	for _, want := range []*arrow.Schema{arrow.NewSchema(fields, &meta), arrow.NewSchema(nil, nil)} {
		var s Schema
		require.NoError(t, ExportSchema(want, &s))
		assert.Equal(t, "+s", cString(s.format))
		assert.Zero(t, s.flags)
		back, err := ImportSchema(&s)
		require.NoError(t, err)
		assert.True(t, want.Equal(back), back)
		assert.True(t, want.Metadata().Equal(back.Metadata()))
	}
}

func TestFormatsAreThoseOfTheSpecification(t *testing.T) {
	for dtype, want := range map[arrow.DataType]string{
		arrow.Null: "n", arrow.FixedWidthTypes.Boolean: "b", arrow.PrimitiveTypes.Int8: "c", arrow.PrimitiveTypes.Uint8: "C",
		arrow.PrimitiveTypes.Int16: "s", arrow.PrimitiveTypes.Uint16: "S", arrow.PrimitiveTypes.Int32: "i", arrow.PrimitiveTypes.Uint32: "I",
		arrow.PrimitiveTypes.Int64: "l", arrow.PrimitiveTypes.Uint64: "L", arrow.FixedWidthTypes.Float16: "e",
		arrow.PrimitiveTypes.Float32: "f", arrow.PrimitiveTypes.Float64: "g",
		arrow.BinaryTypes.Binary: "z", arrow.BinaryTypes.LargeBinary: "Z", arrow.BinaryTypes.BinaryView: "vz",
		arrow.BinaryTypes.String: "u", arrow.BinaryTypes.LargeString: "U", arrow.BinaryTypes.StringView: "vu",
		&arrow.Decimal32Type{Precision: 9, Scale: 2}: "d:9,2,32", &arrow.Decimal64Type{Precision: 12, Scale: 2}: "d:12,2,64",
		&arrow.Decimal128Type{Precision: 19, Scale: 10}: "d:19,10", &arrow.Decimal256Type{Precision: 19, Scale: -1}: "d:19,-1,256",
		&arrow.FixedSizeBinaryType{ByteWidth: 42}: "w:42",
		arrow.FixedWidthTypes.Date32:              "tdD", arrow.FixedWidthTypes.Date64: "tdm", arrow.FixedWidthTypes.Time32s: "tts",
		arrow.FixedWidthTypes.Time32ms: "ttm", arrow.FixedWidthTypes.Time64us: "ttu", arrow.FixedWidthTypes.Time64ns: "ttn",
		&arrow.TimestampType{Unit: arrow.Second}: "tss:", &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: "UTC"}: "tsm:UTC",
		&arrow.TimestampType{Unit: arrow.Microsecond}: "tsu:", &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "+01:00"}: "tsn:+01:00",
		arrow.FixedWidthTypes.Duration_s: "tDs", arrow.FixedWidthTypes.Duration_ms: "tDm", arrow.FixedWidthTypes.Duration_us: "tDu", arrow.FixedWidthTypes.Duration_ns: "tDn",
		arrow.FixedWidthTypes.MonthInterval: "tiM", arrow.FixedWidthTypes.DayTimeInterval: "tiD", arrow.FixedWidthTypes.MonthDayNanoInterval: "tin",
		arrow.ListOf(arrow.Null): "+l", arrow.LargeListOf(arrow.Null): "+L", arrow.ListViewOf(arrow.Null): "+vl", arrow.LargeListViewOf(arrow.Null): "+vL",
		arrow.FixedSizeListOf(123, arrow.Null): "+w:123", arrow.StructOf(): "+s", arrow.MapOf(arrow.BinaryTypes.String, arrow.Null): "+m",
		arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.Null): "+r",
		arrow.DenseUnionOf(nil, nil):                                  "+ud:",
		arrow.SparseUnionOf([]arrow.Field{{Name: "a", Type: arrow.Null}, {Name: "b", Type: arrow.Null}}, []arrow.UnionTypeCode{4, 2}): "+us:4,2",
		&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int16, ValueType: arrow.BinaryTypes.String}:                             "s",
	} {
		format, _, err := formatOf(dtype)
		require.NoError(t, err)
		assert.Equal(t, want, format, dtype)
	}
	decimal, err := parseFormat("d:19,10,128", 0, nil)
	require.NoError(t, err)
	assert.Equal(t, &arrow.Decimal128Type{Precision: 19, Scale: 10}, decimal)
}

func TestArraysOfEveryTypeGoThereAndBack(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		g := newGenerator(t)
		for _, dtype := range types {
			for _, nulls := range []bool{false, true} {
				for _, n := range []int{0, 1, 61} {
					host := g.array(dtype, n, nulls)
					arr := upload(t, dev, host)
					for _, part := range [][2]int{{0, n}, {n / 3, n - n/5}, {n, n}} {
						checkThereAndBack(t, dev, host, arr, part[0], part[1])
					}
					arr.Release()
					host.Release()
				}
			}
		}
	})
}

func checkThereAndBack(t *testing.T, dev arrowbuf.Device, host, arr arrow.Array, from, to int) {
	t.Helper()
	want := array.NewSlice(host, int64(from), int64(to))
	defer want.Release()
	data := array.NewSliceData(arr.Data(), int64(from), int64(to))
	part := arrowbuf.NewArray(data)
	data.Release()
	out := exported(t, part, dev)
	part.Release()
	kind, id := out.Device()
	assert.Equal(t, dev.Type(), kind)
	assert.Equal(t, dev.ID(), id)
	assert.Equal(t, dev != arrowbuf.CPU(), out.event != 0)
	back, err := ImportArray(out, arr.DataType(), dev)
	require.NoError(t, err, "%s, elements [%d, %d)", arr.DataType(), from, to)
	defer back.Release()
	assert.True(t, out.Released())
	assert.Equal(t, to-from, back.Len())
	requireEqual(t, want, back)
	if readable(dev) {
		require.NoError(t, validate(back))
		require.True(t, array.Equal(want, back))
	} else if back.Data().SizeInBytes() > 0 {
		assert.Same(t, dev, arrowbuf.DeviceOf(back), back.DataType())
	}
}

// validate is arrow-go's, which has no fixed_size_binary of width 0, and no
// extension types over dictionaries.
func validate(arr arrow.Array) error {
	if t, ok := arr.DataType().(*arrow.FixedSizeBinaryType); ok && t.ByteWidth == 0 {
		return nil
	}
	if arr.DataType().ID() == arrow.EXTENSION && storageOf(arr.DataType()).ID() == arrow.DICTIONARY {
		return nil
	}
	return array.ValidateFull(arr)
}

func TestBatchesGoThereAndBack(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		g := newGenerator(t)
		const rows = 37
		var fields []arrow.Field
		var host, columns []arrow.Array
		for _, dtype := range types {
			fields = append(fields, arrow.Field{Name: dtype.Name(), Type: dtype, Nullable: true})
			h := g.array(dtype, rows, true)
			defer h.Release()
			c := upload(t, dev, h)
			defer c.Release()
			host, columns = append(host, h), append(columns, c)
		}
		schema := arrow.NewSchema(fields, nil)
		batch, err := arrowbuf.NewRecordBatch(schema, columns, rows)
		require.NoError(t, err)
		out := &DeviceArray{}
		require.NoError(t, ExportBatch(batch, dev, out))
		batch.Release()
		back, err := ImportBatch(out, schema, dev)
		require.NoError(t, err)
		defer back.Release()
		assert.True(t, schema.Equal(back.Schema()))
		assert.EqualValues(t, rows, back.NumRows())
		for i, want := range host {
			requireEqual(t, want, back.Column(i))
		}
	})
}

func TestBatchesWithoutColumnsOrRowsGoThereAndBack(t *testing.T) {
	clean(t)
	for _, batch := range []arrow.RecordBatch{
		array.NewRecordBatch(arrow.NewSchema(nil, nil), nil, 5),
		array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.Null}}, nil), []arrow.Array{array.NewNull(0)}, 0),
	} {
		out := &DeviceArray{}
		require.NoError(t, ExportBatch(batch, arrowbuf.CPU(), out))
		back, err := ImportBatch(out, batch.Schema())
		require.NoError(t, err)
		assert.True(t, array.RecordEqual(batch, back))
		back.Release()
		batch.Release()
	}
}

func TestRowsOfASlicedStructBecomeABatch(t *testing.T) {
	clean(t)
	g := newGenerator(t)
	dtype := arrow.StructOf(arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int32, Nullable: true}, arrow.Field{Name: "b", Type: arrow.BinaryTypes.String})
	whole := g.array(dtype, 20, false)
	defer whole.Release()
	part := array.NewSlice(whole, 3, 11).(*array.Struct)
	defer part.Release()
	batch, err := ImportBatch(exported(t, part, arrowbuf.CPU()), arrow.NewSchema(dtype.Fields(), nil))
	require.NoError(t, err)
	defer batch.Release()
	assert.EqualValues(t, 8, batch.NumRows())
	for i := range 2 {
		requireEqual(t, part.Field(i), batch.Column(i))
	}

	nullable := g.array(dtype, 20, true)
	defer nullable.Release()
	_, err = ImportBatch(exported(t, nullable, arrowbuf.CPU()), arrow.NewSchema(dtype.Fields(), nil))
	assert.ErrorIs(t, err, arrow.ErrInvalid)
	assert.ErrorContains(t, err, "rows are null")
}
