package arrowipc_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/arrowbuf/internal/arraytest"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// decodeMessages encodes batches and decodes the messages. Bodies are passed as
// parts, or joined in one host buffer.
func decodeMessages(t *testing.T, dev arrowbuf.Device, joined bool, batches []arrow.RecordBatch, options ...arrowipc.Option) (came []arrow.RecordBatch) {
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
				body = concatParts(t, parts, m.BodyLength)
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

func concatParts(t *testing.T, parts arrowipc.Parts, n int64) arrowbuf.Buffer {
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
	if dev != arrowbuf.CPU() { // arrow-go rejects empty value buffers
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

func TestMessagesOfAllTypesRoundTrip(t *testing.T) {
	mem := checked(t)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, dtype := range types() {
			for _, nulls := range []bool{false, true} {
				t.Run(fmt.Sprint(dtype, nulls), func(t *testing.T) {
					moved, host := toDeviceAndBack(t, batchOf(t, mem, 100, nulls, dtype), dev)
					for _, cut := range [][2]int64{{0, 100}, {0, 0}, {13, 77}} {
						want, from := host.NewSlice(cut[0], cut[1]), moved.NewSlice(cut[0], cut[1])
						defer want.Release()
						defer from.Release()
						for _, how := range []struct {
							joined bool
							codec  arrowipc.Codec
						}{{false, arrowipc.Uncompressed}, {true, arrowipc.Uncompressed}, {false, arrowipc.LZ4}, {true, arrowipc.Zstd}} {
							came := decodeMessages(t, dev, how.joined, []arrow.RecordBatch{from}, arrowipc.WithCodec(how.codec))
							require.Len(t, came, 1)
							requireSame(t, want, came[0], dev)
						}
					}
				})
			}
		}
	})
}

func TestDecodeSharesBodyOnDevice(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		moved, host := toDeviceAndBack(t, batchOf(t, checked(t), 1000, true, arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String), dev)
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

// onDevice copies a body to one buffer of a device.
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

func TestDecodeRejectsInvalidMessages(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		moved, _ := toDeviceAndBack(t, batchOf(t, checked(t), 100, true, arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String), dev)
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
		assert.ErrorContains(t, err, "want a record batch or a dictionary")
		_, err = arrowipc.NewDecoder(m.Metadata, dev)
		assert.ErrorIs(t, err, arrow.ErrInvalid)
		other := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int8}}, nil)
		_, err = arrowipc.DecodeRecordBatch(m.Metadata, other, short, dev)
		assert.ErrorIs(t, err, arrow.ErrInvalid)
	})
}

func TestDecodeRejectsExtensionOverDictionary(t *testing.T) {
	dtype := arraytest.Tagged(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String})
	_, err := arrowipc.EncodeSchema(arrow.NewSchema([]arrow.Field{{Name: "a", Type: dtype}}, nil))
	assert.ErrorIs(t, err, arrow.ErrInvalid)
}

var someTypes = []arrow.DataType{
	arrow.PrimitiveTypes.Int16, arrow.FixedWidthTypes.Boolean, arrow.BinaryTypes.String, arrow.BinaryTypes.StringView,
	arrow.ListOf(arrow.BinaryTypes.String), arrow.StructOf(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Float64, Nullable: true}),
}

func TestSerializeRecordBatchMatchesStream(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, rows := range []int{0, 77, 20000} {
			moved, host := toDeviceAndBack(t, batchOf(t, checked(t), rows, true, someTypes...), dev)
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

func TestReadRecordBatchSharesMemory(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		moved, host := toDeviceAndBack(t, batchOf(t, checked(t), 77, true, someTypes...), dev)
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

func TestReadRecordBatchRejectsInvalidBuffers(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
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

func TestReaderSharesStreamInDeviceMemory(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		moved, host := toDeviceAndBack(t, batchOf(t, checked(t), 99, true, types()...), dev)
		raw := encodeWithQuiver(t, false, []arrow.RecordBatch{moved, moved})
		there, err := dev.FromHost(raw)
		require.NoError(t, err)
		defer there.Release()
		in, err := cudabuf.NewBufferReader(there)
		require.NoError(t, err)
		r, err := arrowipc.NewReader(in, dev)
		require.NoError(t, err)
		got, err := readAllBatches(t, r)
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

func TestWriterToDeviceMemory(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		moved, _ := toDeviceAndBack(t, batchOf(t, checked(t), 99, true, types()...), dev)
		slice := moved.NewSlice(13, 77)
		defer slice.Release()
		want := encodeWithQuiver(t, false, []arrow.RecordBatch{slice, moved})
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

func TestInspectReturnsBufferExtents(t *testing.T) {
	batch := batchOf(t, checked(t), 10, true, arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String)
	schema, err := arrowipc.EncodeSchema(batch.Schema())
	require.NoError(t, err)
	info, err := arrowipc.Inspect(schema)
	require.NoError(t, err)
	assert.Equal(t, arrowipc.Info{Type: ipc.MessageSchema}, info)

	for _, codec := range []arrowipc.Codec{arrowipc.Uncompressed, arrowipc.Zstd} {
		m, err := arrowipc.EncodeRecordBatch(batch, arrowipc.WithCodec(codec))
		require.NoError(t, err)
		defer m.Release()
		info, err = arrowipc.Inspect(m.Metadata)
		require.NoError(t, err)
		assert.Equal(t, ipc.MessageRecordBatch, info.Type)
		assert.Equal(t, m.BodyLength, info.BodyLength)
		assert.Equal(t, codec, info.Codec)
		assert.EqualValues(t, 10, info.Rows)
		assert.Equal(t, []int64{int64(batch.Column(0).NullN()), int64(batch.Column(1).NullN())}, info.Nulls)
		parts, err := m.Parts()
		require.NoError(t, err)
		defer parts.Release()
		require.Len(t, info.Buffers, 5) // validity, values; validity, offsets, values
		for i, part := range parts {    // no buffer is empty
			assert.Equal(t, arrowipc.Extent{Offset: part.Offset, Length: part.Buffer.Len()}, info.Buffers[i])
		}
		_, err = arrowipc.Inspect(m.Metadata[:len(m.Metadata)/2])
		require.ErrorIs(t, err, arrow.ErrInvalid)
	}
}

func TestCodecsOfArrow017AreRead(t *testing.T) {
	batch := batchOf(t, checked(t), 300, true, arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String)
	schema, err := arrowipc.EncodeSchema(batch.Schema())
	require.NoError(t, err)
	for codec, name := range map[arrowipc.Codec]string{arrowipc.LZ4: "lz4", arrowipc.Zstd: "zstd", arrowipc.Uncompressed: "uncompressed"} {
		m, err := arrowipc.EncodeRecordBatch(batch, arrowipc.WithCodec(codec))
		require.NoError(t, err)
		defer m.Release()
		old := arrowipc.OldMetadata(m.Metadata, name)
		info, err := arrowipc.Inspect(old)
		require.NoError(t, err)
		assert.Equal(t, codec, info.Codec)
		assert.Equal(t, codec != arrowipc.Uncompressed, info.OldCodec)

		current, err := arrowipc.CurrentMetadata(old)
		require.NoError(t, err)
		info, err = arrowipc.Inspect(current)
		require.NoError(t, err)
		assert.Equal(t, codec, info.Codec)
		assert.False(t, info.OldCodec)
		same, err := arrowipc.CurrentMetadata(m.Metadata)
		require.NoError(t, err)
		assert.Equal(t, m.Metadata, same)

		parts, err := m.Parts()
		require.NoError(t, err)
		body := concatParts(t, parts, m.BodyLength)
		parts.Release()
		for _, metadata := range [][]byte{old, current} {
			d, err := arrowipc.NewDecoder(schema, arrowbuf.CPU())
			require.NoError(t, err)
			defer d.Release()
			came, err := d.Decode(metadata, body)
			require.NoError(t, err)
			defer came.Release()
			for i, column := range came.Columns() {
				assert.True(t, arrowbuf.BitwiseEqual(batch.Column(i), column), batch.ColumnName(i))
			}
		}
		_, err = arrowipc.Inspect(arrowipc.OldMetadata(m.Metadata, "brotli"))
		require.ErrorIs(t, err, arrow.ErrInvalid)
		assert.ErrorContains(t, err, "BROTLI")
	}
	_, err = arrowipc.CurrentMetadata(nil)
	require.ErrorIs(t, err, arrow.ErrInvalid)
}

// hiddenDevice is a device whose buffers cannot be copied to the host.
type hiddenDevice struct{ arrowbuf.Device }

var errHidden = errors.New("copied to the host")

func (d hiddenDevice) Alloc(n int64) (arrowbuf.Buffer, error) { return d.hide(d.Device.Alloc(n)) }

func (d hiddenDevice) hide(b arrowbuf.Buffer, err error) (arrowbuf.Buffer, error) {
	if err != nil {
		return nil, err
	}
	return hiddenBuffer{b, d}, nil
}

type hiddenBuffer struct {
	arrowbuf.Buffer
	dev hiddenDevice
}

func (b hiddenBuffer) Device() arrowbuf.Device                 { return b.dev }
func (b hiddenBuffer) Arrow() *memory.Buffer                   { return arrowbuf.WrapArrow(b) }
func (b hiddenBuffer) CopyToHost([]byte, int64) (int64, error) { return 0, errHidden }
func (b hiddenBuffer) ReadAt([]byte, int64) (int, error)       { return 0, errHidden }
func (b hiddenBuffer) Slice(at, n int64) (arrowbuf.Buffer, error) {
	return b.dev.hide(b.Buffer.Slice(at, n))
}

func (b hiddenBuffer) CopyFromDevice(src arrowbuf.Buffer, pos int64) (int64, error) {
	if hidden, ok := src.(hiddenBuffer); ok {
		src = hidden.Buffer
	}
	return b.Buffer.CopyFromDevice(src, pos)
}

// Values whose bytes are those of the message are copied on the device, unless the body
// is small.
func TestSerializeRecordBatchKeepsLargeBodiesOnDevice(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		batch := batchOf(t, checked(t), 200_000, false, arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float32, &arrow.FixedSizeBinaryType{ByteWidth: 12})
		hidden := hiddenDevice{dev}
		moved, err := arrowbuf.CopyTo(batch, hidden)
		require.NoError(t, err)
		defer moved.Release()
		_, err = arrowbuf.ToHost(moved)
		require.ErrorIs(t, err, errHidden)
		serialized, err := arrowipc.SerializeRecordBatch(moved, hidden)
		require.NoError(t, err)
		defer serialized.Release()
		got := make([]byte, serialized.Len())
		_, err = serialized.(hiddenBuffer).Buffer.CopyToHost(got, 0)
		require.NoError(t, err)
		payload, err := ipc.GetRecordBatchPayload(batch)
		require.NoError(t, err)
		defer payload.Release()
		var want bytes.Buffer
		_, err = payload.WritePayload(&want)
		require.NoError(t, err)
		requireSameBytes(t, want.Bytes(), got)
	})
}
