package arrowbuf_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

var tabled = []arrow.DataType{
	arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String, arrow.ListOf(arrow.BinaryTypes.StringView), arrow.FixedWidthTypes.Boolean,
}

// newTable returns a table whose columns have chunks of 7, 0 and 5 rows.
func newTable(t *testing.T, mem memory.Allocator) arrow.Table {
	var batches []arrow.RecordBatch
	for _, rows := range []int{7, 0, 5} {
		batches = append(batches, randomBatch(t, mem, rows, tabled...))
	}
	table := array.NewTableFromRecords(batches[0].Schema(), batches)
	t.Cleanup(table.Release)
	return table
}

func TestTablesRoundTrip(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		host := newTable(t, checked(t))
		moved, err := arrowbuf.CopyTableTo(host, dev)
		require.NoError(t, err)
		defer moved.Release()
		assert.EqualValues(t, len(tabled), dev.allocs.Load(), "allocations")
		assert.Equal(t, host.String(), moved.String())
		assert.Equal(t, host.NumRows(), moved.NumRows())
		for i := range tabled {
			assert.Equal(t, host.Column(i).NullN(), moved.Column(i).NullN())
			for _, chunk := range moved.Column(i).Data().Chunks() {
				assert.Same(t, dev, arrowbuf.DeviceOf(chunk))
			}
		}
		back, err := arrowbuf.CopyTableTo(moved, arrowbuf.CPU())
		require.NoError(t, err)
		defer back.Release()
		assert.True(t, array.TableEqual(host, back))

		wider, err := moved.AddColumn(1, host.Schema().Field(0), *host.Column(0))
		require.NoError(t, err)
		defer wider.Release()
		assert.Equal(t, "a", wider.Column(1).Name())
		_, err = arrowbuf.CopyTableTo(host, nil)
		assert.ErrorContains(t, err, "nil device")
	})
}

func TestCopyTableToErrorNamesColumnAndChunk(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		short := array.NewData(arrow.PrimitiveTypes.Int32, 3, []*memory.Buffer{nil, memory.NewBufferBytes(make([]byte, 11))}, nil, 0, 0)
		schema := arrow.NewSchema([]arrow.Field{{Name: "odd", Type: arrow.PrimitiveTypes.Int32}}, nil)
		fine := randomBatch(t, checked(t), 4, arrow.PrimitiveTypes.Int32)
		table := array.NewTableFromSlice(schema, [][]arrow.Array{{fine.Column(0), bare{short}}})
		defer table.Release()
		_, err := arrowbuf.CopyTableTo(table, dev)
		assert.ErrorIs(t, err, arrow.ErrInvalid)
		assert.ErrorContains(t, err, `column 0, "odd", chunk 1, of type int32`)
	})
}

func TestNewChunkedSlice(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		host := newTable(t, checked(t)).Column(1).Data()
		moved, err := arrowbuf.CopyChunkedTo(host, dev)
		require.NoError(t, err)
		defer moved.Release()
		for i := range int64(13) {
			for j := i; j <= 12; j++ {
				want, got := array.NewChunkedSlice(host, i, j), arrowbuf.NewChunkedSlice(moved, i, j)
				back, err := arrowbuf.CopyChunkedTo(got, arrowbuf.CPU())
				require.NoError(t, err)
				assert.True(t, array.ChunkedEqual(want, back))
				assert.Equal(t, want.NullN(), got.NullN())
				for _, c := range []*arrow.Chunked{want, got, back} {
					c.Release()
				}
			}
		}
		for _, b := range [][2]int64{{-1, 2}, {0, 13}, {4, 3}} {
			assert.Panics(t, func() { arrowbuf.NewChunkedSlice(moved, b[0], b[1]) })
		}
	})
}

func TestNewTableReaderSharesMemory(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		host := newTable(t, checked(t))
		moved, err := arrowbuf.CopyTableTo(host, dev)
		require.NoError(t, err)
		defer moved.Release()
		for _, rows := range []int64{-1, 0, 1, 3, 5, 100} {
			up := dev.up.Load()
			want, got := array.NewTableReader(host, rows), arrowbuf.NewTableReader(moved, rows)
			got.Retain()
			got.Release()
			for want.Next() {
				require.True(t, got.Next())
				requireSameBatch(t, want.RecordBatch(), got.RecordBatch().(*arrowbuf.RecordBatch))
			}
			assert.False(t, got.Next())
			assert.NoError(t, got.Err())
			assert.Equal(t, up, dev.up.Load())
			assert.True(t, got.Schema().Equal(host.Schema()))
			want.Release()
			got.Release()
			assert.Panics(t, got.Release)
			assert.Panics(t, got.Retain)
		}
	})
}

func TestNewReaderCopiesEachBatch(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		batches := []arrow.RecordBatch{randomBatch(t, checked(t), 9, tabled...), randomBatch(t, checked(t), 4, tabled...)}
		from, err := array.NewRecordReader(batches[0].Schema(), batches)
		require.NoError(t, err)
		defer from.Release()
		r, err := arrowbuf.NewReader(from, dev)
		require.NoError(t, err)
		defer r.Release()
		for _, want := range batches {
			require.True(t, r.Next())
			requireSameBatch(t, want, r.RecordBatch().(*arrowbuf.RecordBatch))
		}
		assert.False(t, r.Next())
		assert.NoError(t, r.Err())
		_, err = arrowbuf.NewReader(from, nil)
		assert.ErrorContains(t, err, "nil device")
	})
}

func TestNewReaderReturnsErrors(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		host := randomBatch(t, checked(t), 9, tabled...)
		from, err := array.NewRecordReader(host.Schema(), []arrow.RecordBatch{host, host})
		require.NoError(t, err)
		defer from.Release()
		r, err := arrowbuf.NewReader(from, dev)
		require.NoError(t, err)
		defer r.Release()
		require.True(t, r.Next())
		dev.failAlloc.Store(true)
		assert.False(t, r.Next())
		assert.ErrorIs(t, r.Err(), arrowbuf.ErrOutOfMemory)
		assert.False(t, r.Next())
		assert.Nil(t, r.RecordBatch())

		var stream bytes.Buffer
		w := ipc.NewWriter(&stream, ipc.WithSchema(host.Schema()))
		require.NoError(t, w.Write(host))
		cut, err := ipc.NewReader(io.LimitReader(&stream, int64(stream.Len()-40)))
		require.NoError(t, err)
		defer cut.Release()
		r, err = arrowbuf.NewReader(cut, dev)
		require.NoError(t, err)
		defer r.Release()
		assert.False(t, r.Next())
		assert.Error(t, r.Err())
	})
}

// The dictionary is the same in two batches, grows by a delta, and is replaced.
func TestNewReaderCopiesChangedDictionaries(t *testing.T) {
	dtype := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	nested := arrow.ListOf(dtype)
	schema := arrow.NewSchema([]arrow.Field{{Name: "d", Type: dtype}, {Name: "l", Type: nested}}, nil)
	made := func(values string, indices string) arrow.RecordBatch {
		d, err := array.DictArrayFromJSON(memory.DefaultAllocator, dtype, indices, values)
		require.NoError(t, err)
		offsets := make([]byte, 4*(d.Len()+1))
		for i := range d.Len() + 1 {
			offsets[4*i] = byte(i)
		}
		l := array.NewListData(array.NewData(nested, d.Len(), []*memory.Buffer{nil, memory.NewBufferBytes(offsets)}, []arrow.ArrayData{d.Data()}, 0, 0))
		return array.NewRecordBatch(schema, []arrow.Array{d, l}, int64(d.Len()))
	}
	batches := []arrow.RecordBatch{
		made(`["a", "b"]`, `[0, 1, 1]`), made(`["a", "b"]`, `[1, null, 0]`),
		made(`["a", "b", "c"]`, `[2, 1]`), made(`["z"]`, `[0, null]`),
	}
	for name, delta := range map[string]bool{"replacement": false, "delta": true} {
		t.Run(name, func(t *testing.T) {
			var stream bytes.Buffer
			w := ipc.NewWriter(&stream, ipc.WithSchema(schema), ipc.WithDictionaryDeltas(delta))
			for _, b := range batches {
				require.NoError(t, w.Write(b))
			}
			require.NoError(t, w.Close())
			onDevices(t, func(t *testing.T, dev *countingDevice) {
				from, err := ipc.NewReader(bytes.NewReader(stream.Bytes()))
				require.NoError(t, err)
				defer from.Release()
				r, err := arrowbuf.NewReader(from, dev)
				require.NoError(t, err)
				defer r.Release()
				var addresses []uintptr
				var kept []arrow.RecordBatch
				for _, want := range batches {
					require.True(t, r.Next(), "%v", r.Err())
					got := r.RecordBatch()
					got.Retain()
					kept = append(kept, got)
					assert.Equal(t, want.Column(0).(*array.Dictionary).Len(), got.Column(0).Len())
					for i := range want.Columns() {
						for j := range want.Column(i).Len() {
							assert.Equal(t, want.Column(i).ValueStr(j), got.Column(i).ValueStr(j))
						}
					}
					addresses = append(addresses, bufferOf(t, got.Column(0).Data().Dictionary().(*array.Data).Buffers()[2]).Address())
				}
				assert.Equal(t, addresses[0], addresses[1], "the same dictionary")
				assert.NotEqual(t, addresses[1], addresses[2])
				assert.NotEqual(t, addresses[2], addresses[3])
				for _, b := range kept {
					b.Release()
				}
			})
		})
	}
}
