package arrowipc_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
)

func TestBodiesAreCompressedAsArrowGoCompressesThem(t *testing.T) {
	mem := checked(t)
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		moved, host := there(t, batchOf(t, mem, 1000, true, types()...), dev)
		for _, codec := range []arrowipc.Codec{arrowipc.LZ4, arrowipc.Zstd} {
			for _, savings := range []float64{0, 0.5} {
				t.Run(fmt.Sprint(codec, savings), func(t *testing.T) {
					theirCodec := ipc.WithLZ4()
					if codec == arrowipc.Zstd {
						theirCodec = ipc.WithZstd()
					}
					batches := []arrow.RecordBatch{host, host}
					want, err := theirs(t, true, batches, theirCodec, ipc.WithMinSpaceSavings(savings))
					require.NoError(t, err)
					got := ours(t, true, []arrow.RecordBatch{moved, moved}, arrowipc.WithCodec(codec), arrowipc.WithMinSavings(savings))
					requireSameBytes(t, want, got)
					for _, way := range []string{"reader", "device"} {
						r, err := ways[way](t, got, dev)
						require.NoError(t, err)
						read, err := kept(t, r)
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

func TestOptionsOutOfRangeAreRefused(t *testing.T) {
	schema := arrow.NewSchema(nil, nil)
	for _, option := range []arrowipc.Option{arrowipc.WithCodec(7), arrowipc.WithCodec(-1), arrowipc.WithMinSavings(-0.1), arrowipc.WithMinSavings(1.5)} {
		_, err := arrowipc.NewWriter(&bytes.Buffer{}, schema, option)
		assert.ErrorIs(t, err, arrow.ErrInvalid)
	}
}

// words makes a batch of a dictionary array of words, one index each, and one of
// lists of such.
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
	return there(t, batch, dev)
}

func TestDictionariesGrowAndChangeInAStream(t *testing.T) {
	mem := checked(t)
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
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
			want, err := theirs(t, false, host, ipc.WithDictionaryDeltas(deltas))
			require.NoError(t, err)
			got := ours(t, false, moved, options...)
			requireSameBytes(t, want, got)
			for name, open := range ways {
				r, err := open(t, got, dev)
				require.NoError(t, err, name)
				read, err := kept(t, r)
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

func TestAFileRefusesADictionaryThatChanges(t *testing.T) {
	mem := checked(t)
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		first, _ := words(t, mem, dev, "a", "b")
		again, _ := words(t, mem, dev, "a", "b")
		other, _ := words(t, mem, dev, "a", "b", "c")
		var out bytes.Buffer
		w, err := arrowipc.NewFileWriter(&out, first.Schema())
		require.NoError(t, err)
		require.NoError(t, w.Write(first))
		require.NoError(t, w.Write(again))
		n := out.Len()
		assert.ErrorIs(t, w.Write(other), arrowipc.ErrReplacement)
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
