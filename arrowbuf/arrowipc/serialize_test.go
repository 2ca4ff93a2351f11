package arrowipc_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

var someTypes = []arrow.DataType{
	arrow.PrimitiveTypes.Int16, arrow.FixedWidthTypes.Boolean, arrow.BinaryTypes.String, arrow.BinaryTypes.StringView,
	arrow.ListOf(arrow.BinaryTypes.String), arrow.StructOf(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Float64, Nullable: true}),
}

func TestASerializedBatchIsTheMessageOfAStream(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, rows := range []int{0, 77, 20000} {
			moved, host := there(t, batchOf(t, checked(t), rows, true, someTypes...), dev)
			serialized, err := arrowipc.SerializeRecordBatch(moved, dev)
			require.NoError(t, err)
			defer serialized.Release()
			got := make([]byte, serialized.Len())
			_, err = serialized.CopyToHost(got, 0)
			require.NoError(t, err)
			payload, err := ipc.GetRecordBatchPayload(host)
			require.NoError(t, err)
			defer payload.Release()
			var want bytes.Buffer
			_, err = payload.WritePayload(&want)
			require.NoError(t, err)
			requireSameBytes(t, want.Bytes(), got)
		}
	})
}

func TestAMessageIsReadWhereItIs(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		moved, host := there(t, batchOf(t, checked(t), 77, true, someTypes...), dev)
		serialized, err := arrowipc.SerializeRecordBatch(moved, dev)
		require.NoError(t, err)
		defer serialized.Release()

		metadata, body, err := arrowipc.ReadMessage(arrowipc.NewBufferReader(serialized), dev)
		require.NoError(t, err)
		defer body.Release()
		assert.Equal(t, serialized.Address()+uintptr(serialized.Len()-body.Len()), body.Address())
		decoded, err := arrowipc.DecodeRecordBatch(metadata, host.Schema(), body, dev)
		require.NoError(t, err)
		defer decoded.Release()
		requireSame(t, host, decoded, dev)

		read, err := arrowipc.ReadRecordBatch(serialized, host.Schema())
		require.NoError(t, err)
		defer read.Release()
		requireSame(t, host, read, dev)
		values, err := arrowbuf.BufferOf(read.Column(0).Data().Buffers()[1])
		require.NoError(t, err)
		defer values.Release()
		assert.Less(t, values.Address()-body.Address(), uintptr(body.Len()))
	})
}

func TestABufferWithoutAMessageIsRefused(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		b, err := dev.Alloc(8)
		require.NoError(t, err)
		defer b.Release()
		_, err = b.CopyFromHost(make([]byte, 8), 0)
		require.NoError(t, err)
		_, _, err = arrowipc.ReadMessage(arrowipc.NewBufferReader(b), dev)
		assert.ErrorIs(t, err, io.EOF)
		_, err = arrowipc.ReadRecordBatch(b, arrow.NewSchema(nil, nil))
		assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	})
}

func TestAStreamInDeviceMemoryIsReadInPlace(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		moved, host := there(t, batchOf(t, checked(t), 99, true, types()...), dev)
		raw := ours(t, false, []arrow.RecordBatch{moved, moved})
		there, err := dev.FromHost(raw)
		require.NoError(t, err)
		defer there.Release()
		in, err := cudabuf.NewBufferReader(there)
		require.NoError(t, err)
		r, err := arrowipc.NewReader(in, dev)
		require.NoError(t, err)
		got, err := kept(t, r)
		require.NoError(t, err)
		r.Release()
		require.NoError(t, in.Close())
		require.Len(t, got, 2)
		for _, batch := range got {
			requireSame(t, host, batch, dev)
			for _, column := range batch.Columns() {
				for _, b := range column.Data().Buffers() {
					if b != nil && b.Len() > 0 {
						part, err := arrowbuf.BufferOf(b)
						require.NoError(t, err)
						assert.Less(t, part.Address()-there.Address(), uintptr(there.Len()))
						part.Release()
					}
				}
			}
		}
	})
}

func TestAStreamIsWrittenToMemoryOfADevice(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		moved, _ := there(t, batchOf(t, checked(t), 99, true, types()...), dev)
		slice := moved.NewSlice(13, 77)
		defer slice.Release()
		want := ours(t, false, []arrow.RecordBatch{slice, moved})
		for _, home := range []arrowbuf.Device{dev, arrowbuf.CPU()} {
			room, err := home.Alloc(int64(len(want)))
			require.NoError(t, err)
			defer room.Release()
			w, err := arrowipc.NewWriter(arrowipc.NewBufferWriter(room), moved.Schema())
			require.NoError(t, err)
			require.NoError(t, w.Write(slice))
			require.NoError(t, w.Write(moved))
			require.NoError(t, w.Close())
			got := make([]byte, len(want))
			_, err = room.CopyToHost(got, 0)
			require.NoError(t, err)
			requireSameBytes(t, want, got)

			small, err := home.Alloc(int64(len(want)) - 9)
			require.NoError(t, err)
			defer small.Release()
			w, err = arrowipc.NewWriter(arrowipc.NewBufferWriter(small), moved.Schema())
			require.NoError(t, err)
			require.NoError(t, w.Write(slice))
			assert.ErrorIs(t, errors.Join(w.Write(moved), w.Close()), arrowbuf.ErrOutOfRange)
		}
	})
}
