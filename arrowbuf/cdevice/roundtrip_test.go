//go:build linux || darwin

package cdevice

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func TestArraysRoundTrip(t *testing.T) {
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
	if hostReadable(dev) {
		require.NoError(t, validate(back))
		require.True(t, array.Equal(want, back))
	} else if back.Data().SizeInBytes() > 0 {
		assert.Same(t, dev, arrowbuf.DeviceOf(back), back.DataType())
	}
}

// validate is arrow-go's validation, which supports neither fixed_size_binary of
// width 0 nor extension types over dictionaries.
func validate(arr arrow.Array) error {
	if t, ok := arr.DataType().(*arrow.FixedSizeBinaryType); ok && t.ByteWidth == 0 {
		return nil
	}
	if arr.DataType().ID() == arrow.EXTENSION && storageOf(arr.DataType()).ID() == arrow.DICTIONARY {
		return nil
	}
	return array.ValidateFull(arr)
}

func TestBatchesRoundTrip(t *testing.T) {
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

func TestEmptyBatchesRoundTrip(t *testing.T) {
	requireNoHandles(t)
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

func TestImportBatchFromSlicedStruct(t *testing.T) {
	requireNoHandles(t)
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
	assert.ErrorContains(t, err, "rows are null, want none")
}

func TestCPUArraysRoundTrip(t *testing.T) {
	requireNoHandles(t)
	g := newGenerator(t)
	for _, dtype := range types {
		arr := g.array(dtype, 23, true)
		out := &Array{}
		require.NoError(t, ExportCPUArray(arr, out), dtype)
		moved := *out // consumers may move structs
		out.release = 0
		back, err := ImportCPUArray(&moved, dtype)
		require.NoError(t, err, dtype)
		assert.True(t, moved.Released())
		requireEqual(t, arr, back)
		arr.Release()
		back.Release()
	}
	_, err := ImportCPUArray(nil, arrow.Null)
	assert.ErrorIs(t, err, arrow.ErrInvalid)
	_, err = ImportCPUArray(&Array{}, arrow.Null)
	assert.ErrorIs(t, err, arrow.ErrInvalid)
	_, err = ImportCPUBatch(nil, arrow.NewSchema(nil, nil))
	assert.ErrorIs(t, err, arrow.ErrInvalid)
}

func TestCPUExportRejectsGPUMemory(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		requireNoHandles(t)
		from, _ := someBatches(t, dev)
		assert.ErrorIs(t, ExportCPUBatch(from.all[0], &Array{}), arrowbuf.ErrDevice)
		assert.ErrorIs(t, ExportCPUArray(from.all[0].Column(1), &Array{}), arrowbuf.ErrDevice)
		out := &Stream{}
		require.NoError(t, ExportCPUStream(from, out))
		r, err := ImportCPUStream(out)
		require.NoError(t, err)
		assert.False(t, r.Next())
		assert.ErrorContains(t, r.Err(), "errno 22")
		r.Release()
	})
}

// On the CPU nulls are counted, also in children and after an offset.
func TestExportCountsUnknownNullsOnCPU(t *testing.T) {
	requireNoHandles(t)
	g := newGenerator(t)
	for _, dtype := range []arrow.DataType{arrow.PrimitiveTypes.Int16, pair} {
		whole := g.array(dtype, 50, true)
		data := array.NewData(whole.DataType(), 37, whole.Data().Buffers(), whole.Data().Children(), array.UnknownNullCount, 7)
		arr := array.MakeFromData(data)
		want := 0
		if bits := data.Buffers()[0]; bits != nil && bits.Len() > 0 {
			want = 37 - bitutil.CountSetBits(bits.Bytes(), 7, 37)
		}
		out := exported(t, arr, arrowbuf.CPU())
		assert.EqualValues(t, want, out.array.nulls)
		for _, child := range out.array.childStructs() {
			assert.GreaterOrEqual(t, child.nulls, int64(0))
		}
		out.Release()
		arr.Release()
		data.Release()
		whole.Release()
	}
}
