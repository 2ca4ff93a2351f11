package arrowipc_test

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/arrowbuf/internal/arraytest"
)

// pass gives the messages of batches to a decoder, their bodies in parts where they
// lie, or joined in one buffer of the host.
func pass(t *testing.T, dev arrowbuf.Device, joined bool, batches []arrow.RecordBatch, options ...arrowipc.Option) (came []arrow.RecordBatch) {
	t.Helper()
	e, err := arrowipc.NewEncoder(batches[0].Schema(), options...)
	require.NoError(t, err)
	defer e.Release()
	d, err := arrowipc.NewDecoder(e.Schema(), dev)
	require.NoError(t, err)
	defer d.Release()
	for _, batch := range batches {
		messages, err := e.Encode(batch)
		require.NoError(t, err)
		for i, m := range messages {
			parts, err := m.Parts()
			require.NoError(t, err)
			var body arrowipc.Body = parts
			if joined {
				body = join(t, parts, m.BodyLength)
			}
			out, err := d.Decode(m.Metadata, body)
			require.NoError(t, err)
			parts.Release()
			m.Release()
			require.Equal(t, i == len(messages)-1, out != nil)
			if out != nil {
				t.Cleanup(out.Release)
				came = append(came, out)
			}
		}
	}
	return came
}

func join(t *testing.T, parts arrowipc.Parts, n int64) arrowbuf.Buffer {
	t.Helper()
	whole, err := arrowbuf.CPU().Alloc(n)
	require.NoError(t, err)
	t.Cleanup(whole.Release)
	for _, p := range parts {
		_, err := whole.CopyFromDevice(p.Buffer, p.Offset)
		require.NoError(t, err)
	}
	return whole
}

func requireSame(t *testing.T, want arrow.RecordBatch, got arrow.RecordBatch, dev arrowbuf.Device) {
	t.Helper()
	require.IsType(t, (*arrowbuf.RecordBatch)(nil), got)
	for _, column := range got.Columns() {
		require.Equal(t, dev, arrowbuf.DeviceOf(column))
	}
	if dev != arrowbuf.CPU() { // arrow-go finds values of no bytes invalid
		require.NoError(t, got.(*arrowbuf.RecordBatch).Validate())
	}
	back, err := arrowbuf.CopyTo(got, arrowbuf.CPU())
	require.NoError(t, err)
	defer back.Release()
	require.True(t, want.Schema().Equal(back.Schema()), "%v\n%v", want.Schema(), back.Schema())
	require.Equal(t, want.NumRows(), back.NumRows())
	for i, column := range want.Columns() {
		require.True(t, array.Equal(column, back.Column(i)), "column %d, %s:\n%v\n%v", i, column.DataType(), column, back.Column(i))
	}
	with, ok := want.(arrow.RecordBatchWithMetadata)
	require.True(t, ok)
	assert.Equal(t, with.Metadata(), got.(arrow.RecordBatchWithMetadata).Metadata())
}

func TestBatchesOfEveryTypePassAsMessages(t *testing.T) {
	mem := checked(t)
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, dtype := range types() {
			for _, nulls := range []bool{false, true} {
				t.Run(fmt.Sprint(dtype, nulls), func(t *testing.T) {
					moved, host := there(t, batchOf(t, mem, 100, nulls, dtype), dev)
					for _, cut := range [][2]int64{{0, 100}, {0, 0}, {13, 77}} {
						want, from := host.NewSlice(cut[0], cut[1]), moved.NewSlice(cut[0], cut[1])
						defer want.Release()
						defer from.Release()
						for _, how := range []struct {
							joined bool
							codec  arrowipc.Codec
						}{{false, arrowipc.Uncompressed}, {true, arrowipc.Uncompressed}, {false, arrowipc.LZ4}, {true, arrowipc.Zstd}} {
							came := pass(t, dev, how.joined, []arrow.RecordBatch{from}, arrowipc.WithCodec(how.codec))
							require.Len(t, came, 1)
							requireSame(t, want, came[0], dev)
						}
					}
				})
			}
		}
	})
}

func TestABodyOnTheDeviceIsSharedAndItsPartsAreTheColumnsMemory(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		moved, host := there(t, batchOf(t, checked(t), 1000, true, arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String), dev)
		slice := moved.NewSlice(64, 640)
		defer slice.Release()
		m, err := arrowipc.EncodeRecordBatch(slice)
		require.NoError(t, err)
		defer m.Release()
		assert.Equal(t, ipc.MessageRecordBatch, m.Type())
		parts, err := m.Parts()
		require.NoError(t, err)
		defer parts.Release()
		values, err := arrowbuf.BufferOf(moved.Column(0).Data().Buffers()[1])
		require.NoError(t, err)
		defer values.Release()
		assert.Equal(t, values.Address()+64*8, parts[1].Buffer.Address())

		whole, release := onDevice(t, dev, parts, m.BodyLength)
		defer release()
		got, err := arrowipc.DecodeRecordBatch(m.Metadata, moved.Schema(), whole, dev)
		require.NoError(t, err)
		defer got.Release()
		shared, err := arrowbuf.BufferOf(got.Column(0).Data().Buffers()[1])
		require.NoError(t, err)
		defer shared.Release()
		assert.Equal(t, whole.Address()+uintptr(parts[1].Offset), shared.Address())
		want := host.NewSlice(64, 640)
		defer want.Release()
		requireSame(t, want, got, dev)
	})
}

// onDevice puts a body into one buffer of a device.
func onDevice(t *testing.T, dev arrowbuf.Device, parts arrowipc.Parts, n int64) (arrowbuf.Buffer, func()) {
	t.Helper()
	whole, err := dev.Alloc(n)
	require.NoError(t, err)
	for _, p := range parts {
		_, err := whole.CopyFromDevice(p.Buffer, p.Offset)
		require.NoError(t, err)
	}
	return whole, whole.Release
}

func TestDecodeRefusesWhatIsNotThere(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		moved, _ := there(t, batchOf(t, checked(t), 100, true, arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String), dev)
		m, err := arrowipc.EncodeRecordBatch(moved)
		require.NoError(t, err)
		defer m.Release()
		schema, err := arrowipc.EncodeSchema(moved.Schema())
		require.NoError(t, err)
		d, err := arrowipc.NewDecoder(schema, dev)
		require.NoError(t, err)
		defer d.Release()
		short, err := dev.Alloc(m.BodyLength - 16)
		require.NoError(t, err)
		defer short.Release()
		_, err = d.Decode(m.Metadata, short)
		assert.ErrorIs(t, err, arrow.ErrInvalid)
		_, err = d.Decode(m.Metadata, nil)
		assert.ErrorIs(t, err, arrow.ErrInvalid)
		_, err = d.Decode(schema, nil)
		assert.ErrorContains(t, err, "expected a record batch or a dictionary")
		_, err = arrowipc.NewDecoder(m.Metadata, dev)
		assert.ErrorIs(t, err, arrow.ErrInvalid)
		other := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int8}}, nil)
		_, err = arrowipc.DecodeRecordBatch(m.Metadata, other, short, dev)
		assert.ErrorIs(t, err, arrow.ErrInvalid)
	})
}

func TestAnExtensionOverADictionaryIsRefusedAsByArrowGo(t *testing.T) {
	dtype := arraytest.Tagged(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String})
	_, err := arrowipc.EncodeSchema(arrow.NewSchema([]arrow.Field{{Name: "a", Type: dtype}}, nil))
	assert.ErrorIs(t, err, arrow.ErrInvalid)
}
