package arrowipc_test

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

var codedSchema = arrow.NewSchema([]arrow.Field{
	{Name: "code", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.PrimitiveTypes.Float64}},
	{Name: "text", Type: arrow.BinaryTypes.String},
}, nil)

// jsonRow returns a batch of one row: the first value of a dictionary, which is
// JSON, and the bytes of "word" between two offsets.
func jsonRow(t *testing.T, dictionary string, from, to int32) arrow.RecordBatch {
	t.Helper()
	values, _, err := array.FromJSON(memory.DefaultAllocator, arrow.PrimitiveTypes.Float64, strings.NewReader(dictionary))
	require.NoError(t, err)
	indices, _, err := array.FromJSON(memory.DefaultAllocator, arrow.PrimitiveTypes.Int8, strings.NewReader(`[0]`))
	require.NoError(t, err)
	offsets := memory.NewBufferBytes(arrow.Int32Traits.CastToBytes([]int32{from, to}))
	text := array.NewData(arrow.BinaryTypes.String, 1, []*memory.Buffer{nil, offsets, memory.NewBufferBytes([]byte("word"))}, nil, 0, 0)
	code := array.NewDictionaryArray(codedSchema.Field(0).Type, indices, values)
	return array.NewRecordBatch(codedSchema, []arrow.Array{code, array.MakeFromData(text)}, 1)
}

// readRows returns the values that arrow-go's reader finds in a stream.
func readRows(t *testing.T, stream []byte) []float64 {
	t.Helper()
	r, err := ipc.NewReader(bytes.NewReader(stream))
	require.NoError(t, err)
	defer r.Release()
	var found []float64
	for r.Next() {
		column := r.RecordBatch().Column(0).(*array.Dictionary)
		found = append(found, column.Dictionary().(*array.Float64).Value(column.GetValueIndex(0)))
	}
	require.NoError(t, r.Err())
	return found
}

func TestEncoderResendsDictionaryAfterFailure(t *testing.T) {
	var out bytes.Buffer
	w, err := arrowipc.NewWriter(&out, codedSchema)
	require.NoError(t, err)
	require.NoError(t, w.Write(jsonRow(t, `[1]`, 0, 4)))
	n := out.Len()
	require.ErrorIs(t, w.Write(jsonRow(t, `[2]`, 4, 0)), arrow.ErrInvalid, "offsets that fall")
	assert.Equal(t, n, out.Len())
	require.NoError(t, w.Write(jsonRow(t, `[2]`, 0, 4)))
	require.NoError(t, w.Close())
	assert.Equal(t, []float64{1, 2}, readRows(t, out.Bytes()))
}

func TestEncoderComparesDictionariesBitwise(t *testing.T) {
	var out bytes.Buffer
	w, err := arrowipc.NewWriter(&out, codedSchema)
	require.NoError(t, err)
	require.NoError(t, w.Write(jsonRow(t, `[1e-6]`, 0, 4)))
	require.NoError(t, w.Write(jsonRow(t, `[2e-6]`, 0, 4)))
	require.NoError(t, w.Close())
	assert.Equal(t, []float64{1e-6, 2e-6}, readRows(t, out.Bytes()))
	out.Reset()
	w, err = arrowipc.NewWriter(&out, codedSchema)
	require.NoError(t, err)
	zeros := jsonRow(t, `[0]`, 0, 4)
	require.NoError(t, w.Write(zeros))
	require.NoError(t, w.Write(jsonRow(t, `[-0.0]`, 0, 4)))
	require.NoError(t, w.Write(zeros))
	require.NoError(t, w.Close())
	var signs []bool
	for _, value := range readRows(t, out.Bytes()) {
		signs = append(signs, math.Signbit(value))
	}
	assert.Equal(t, []bool{false, true, false}, signs)
}

// arrow-go rejects such arrays on the host.
func TestEncoderRejectsShortBuffers(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for _, c := range []struct {
			dtype  arrow.DataType
			sizes  []int // of the validity bitmap and the values
			enough bool
		}{
			{arrow.PrimitiveTypes.Int64, []int{0, 9}, false},
			{arrow.PrimitiveTypes.Int64, []int{9, 800}, false},
			{arrow.PrimitiveTypes.Int64, []int{13, 800}, true},
			{arrow.FixedWidthTypes.Boolean, []int{0, 9}, false},
		} {
			buffers := make([]*memory.Buffer, len(c.sizes))
			for i, size := range c.sizes {
				if size > 0 {
					b, err := dev.FromHost(make([]byte, size))
					require.NoError(t, err)
					buffers[i] = b.Arrow()
					b.Release()
				}
			}
			data := array.NewData(c.dtype, 100, buffers, nil, -1, 0)
			column := arrowbuf.NewArray(data)
			data.Release()
			for _, b := range buffers {
				if b != nil {
					b.Release()
				}
			}
			schema := arrow.NewSchema([]arrow.Field{{Name: "short", Type: c.dtype, Nullable: true}}, nil)
			batch, err := arrowbuf.NewRecordBatch(schema, []arrow.Array{column}, 100)
			require.NoError(t, err)
			column.Release()
			var out bytes.Buffer
			w, err := arrowipc.NewWriter(&out, schema)
			require.NoError(t, err)
			n := out.Len()
			if err := w.Write(batch); c.enough {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, arrow.ErrInvalid, "%s of %v bytes", c.dtype, c.sizes)
				assert.Equal(t, n, out.Len())
			}
			batch.Release()
		}
	})
}

// Readers cannot append values of these types, so the dictionary is replaced.
func TestEncoderReplacesGrownUnionDictionaries(t *testing.T) {
	values := func(n int) arrow.Array {
		ids, numbers := array.NewInt8Builder(memory.DefaultAllocator), array.NewInt32Builder(memory.DefaultAllocator)
		for i := range n {
			ids.Append(0)
			numbers.Append(int32(10 * i))
		}
		union, err := array.NewSparseUnionFromArrays(ids.NewArray(), []arrow.Array{numbers.NewArray()})
		require.NoError(t, err)
		return union
	}
	dtype := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: values(1).DataType()}
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: dtype}}, nil)
	var out bytes.Buffer
	w, err := arrowipc.NewWriter(&out, schema, arrowipc.WithDeltas())
	require.NoError(t, err)
	for n := 1; n <= 3; n++ {
		indices := array.NewInt8Builder(memory.DefaultAllocator)
		indices.Append(int8(n - 1))
		column := array.NewDictionaryArray(dtype, indices.NewArray(), values(n))
		require.NoError(t, w.Write(array.NewRecordBatch(schema, []arrow.Array{column}, 1)))
	}
	require.NoError(t, w.Close())
	r, err := arrowipc.NewReader(&out, arrowbuf.CPU())
	require.NoError(t, err)
	defer r.Release()
	for n := 1; n <= 3; n++ {
		require.True(t, r.Next(), "%v", r.Err())
		require.Equal(t, n, r.RecordBatch().Column(0).(*array.Dictionary).Dictionary().Len())
	}
	require.False(t, r.Next())
	require.NoError(t, r.Err())
}

func TestCompressedBodiesMatchArrowGo(t *testing.T) {
	mem := checked(t)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		moved, host := toDeviceAndBack(t, batchOf(t, mem, 1000, true, types()...), dev)
		for _, codec := range []arrowipc.Codec{arrowipc.LZ4, arrowipc.Zstd} {
			for _, savings := range []float64{0, 0.5} {
				t.Run(fmt.Sprint(codec, savings), func(t *testing.T) {
					theirCodec := ipc.WithLZ4()
					if codec == arrowipc.Zstd {
						theirCodec = ipc.WithZstd()
					}
					batches := []arrow.RecordBatch{host, host}
					want, err := encodeWithArrowGo(t, true, batches, theirCodec, ipc.WithMinSpaceSavings(savings))
					require.NoError(t, err)
					got := encodeWithQuiver(t, true, []arrow.RecordBatch{moved, moved}, arrowipc.WithCodec(codec), arrowipc.WithMinSpaceSavings(savings))
					requireSameBytes(t, want, got)
					for _, way := range []string{"reader", "device"} {
						r, err := inputKinds[way](t, got, dev)
						require.NoError(t, err)
						read, err := readAllBatches(t, r)
						require.NoError(t, err)
						r.Release()
						require.Len(t, read, 2)
						requireSame(t, host, read[1], dev)
					}
				})
			}
		}
	})
}

func TestOptionsRejectInvalidValues(t *testing.T) {
	schema := arrow.NewSchema(nil, nil)
	for _, option := range []arrowipc.Option{arrowipc.WithCodec(7), arrowipc.WithCodec(-1), arrowipc.WithMinSpaceSavings(-0.1), arrowipc.WithMinSpaceSavings(1.5)} {
		_, err := arrowipc.NewWriter(&bytes.Buffer{}, schema, option)
		assert.ErrorIs(t, err, arrow.ErrInvalid)
	}
}

// words returns a batch of two columns: a dictionary array of words, one index each,
// and lists of them.
func words(t *testing.T, mem memory.Allocator, dev arrowbuf.Device, dictionary ...string) (moved, host arrow.RecordBatch) {
	t.Helper()
	dtype := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int16, ValueType: arrow.BinaryTypes.String}
	values := array.NewStringBuilder(mem)
	defer values.Release()
	values.AppendValues(dictionary, nil)
	indices := array.NewInt16Builder(mem)
	defer indices.Release()
	for i := range dictionary {
		indices.Append(int16(len(dictionary) - 1 - i))
	}
	v, i := values.NewArray(), indices.NewArray()
	defer v.Release()
	defer i.Release()
	column := array.NewDictionaryArray(dtype, i, v)
	defer column.Release()
	lists := array.NewData(arrow.FixedSizeListOf(1, dtype), len(dictionary), []*memory.Buffer{nil}, []arrow.ArrayData{column.Data()}, 0, 0)
	defer lists.Release()
	list := array.MakeFromData(lists)
	defer list.Release()
	schema := arrow.NewSchema([]arrow.Field{{Name: "word", Type: dtype}, {Name: "words", Type: list.DataType()}}, nil)
	batch := array.NewRecordBatch(schema, []arrow.Array{column, list}, int64(len(dictionary)))
	defer batch.Release()
	return toDeviceAndBack(t, batch, dev)
}

func TestWriterSendsDictionaryDeltasAndReplacements(t *testing.T) {
	mem := checked(t)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		var moved, host []arrow.RecordBatch
		for _, dictionary := range [][]string{{"a", "b"}, {"a", "b"}, {"a", "b", "c"}, {"a", "b", "c", "d", "e"}, {"x", "b"}, {"x", "b", "y"}} {
			m, h := words(t, mem, dev, dictionary...)
			moved, host = append(moved, m), append(host, h)
		}
		for _, deltas := range []bool{false, true} {
			var options []arrowipc.Option
			if deltas {
				options = append(options, arrowipc.WithDeltas())
			}
			want, err := encodeWithArrowGo(t, false, host, ipc.WithDictionaryDeltas(deltas))
			require.NoError(t, err)
			got := encodeWithQuiver(t, false, moved, options...)
			requireSameBytes(t, want, got)
			for name, open := range inputKinds {
				r, err := open(t, got, dev)
				require.NoError(t, err, name)
				read, err := readAllBatches(t, r)
				require.NoError(t, err, name)
				r.Release()
				require.Len(t, read, len(host))
				for i := range host {
					requireSame(t, host[i], read[i], dev)
				}
			}
		}
	})
}

func TestFileWriterRejectsDictionaryReplacement(t *testing.T) {
	mem := checked(t)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		first, _ := words(t, mem, dev, "a", "b")
		again, _ := words(t, mem, dev, "a", "b")
		other, _ := words(t, mem, dev, "a", "b", "c")
		var out bytes.Buffer
		w, err := arrowipc.NewFileWriter(&out, first.Schema())
		require.NoError(t, err)
		require.NoError(t, w.Write(first))
		require.NoError(t, w.Write(again))
		n := out.Len()
		assert.ErrorIs(t, w.Write(other), arrowipc.ErrDictionaryReplacement)
		assert.Equal(t, n, out.Len())
		require.NoError(t, w.Write(again), "a batch that is refused leaves the writer usable")
		require.NoError(t, w.Close())
		require.NoError(t, w.Close())
		assert.Error(t, w.Write(first))

		r, err := arrowipc.NewFileReader(bytes.NewReader(out.Bytes()), int64(out.Len()), dev)
		require.NoError(t, err)
		defer r.Release()
		assert.Equal(t, 3, r.NumBatches())
		_, err = r.RecordBatchAt(3)
		assert.ErrorIs(t, err, arrow.ErrIndex)
		last, err := r.RecordBatchAt(2)
		require.NoError(t, err)
		defer last.Release()
		back, err := arrowbuf.CopyTo(last, arrowbuf.CPU())
		require.NoError(t, err)
		defer back.Release()
		assert.Equal(t, "b", back.Column(0).ValueStr(0))
	})
}
