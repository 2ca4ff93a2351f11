package ipc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	flatbuffers "github.com/google/flatbuffers/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/sourcetest"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
)

// fileOf returns an opener of a new file of a content.
func fileOf(t *testing.T, content []byte) sourcetest.Opener {
	t.Helper()
	return sourcetest.Local(sourcetest.WriteFile(t, "input", content), sourcetest.Options(), Open)
}

// streamOf returns an opener of a new file that holds a stream.
func streamOf(t *testing.T, content []byte) sourcetest.Opener {
	t.Helper()
	return sourcetest.Local(sourcetest.WriteFile(t, "input", content), sourcetest.Options(), OpenStream)
}

// unionsRunsAndViews are types that Parquet does not have.
var unionsRunsAndViews = []arrow.DataType{
	arrow.DenseUnionOf([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int8, Nullable: true}, {Name: "b", Type: arrow.BinaryTypes.String, Nullable: true}}, []arrow.UnionTypeCode{0, 5}),
	arrow.SparseUnionOf([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int8, Nullable: true}, {Name: "b", Type: arrow.BinaryTypes.String, Nullable: true}}, []arrow.UnionTypeCode{1, 3}),
	arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String),
	arrow.ListViewOf(arrow.PrimitiveTypes.Int32),
}

// rangeInputs returns files and streams, whose batches have other lengths and dictionaries.
func rangeInputs(t *testing.T) map[string]sourcetest.Opener {
	lengths := []int{13, 0, 1, 40, 7}
	inputs := map[string]sourcetest.Opener{}
	for _, nulls := range []float64{0, 0.3} {
		for name, types := range map[string][]arrow.DataType{"flat": sourcetest.Flat, "nested": sourcetest.Nested} {
			one := sourcetest.RangeTable(7, []int{61}, nulls, types...)
			inputs[fmt.Sprintf("file, %s, nulls %v", name, nulls)] = fileOf(t, one.File(t, ipc.WithZstd()))
		}
		in := sourcetest.RangeTable(8, lengths, nulls, append(append([]arrow.DataType{arrow.Null}, sourcetest.Nested...), unionsRunsAndViews...)...)
		noDictionary := in.Choose(0, 1, 2, 3, 4, 5, 6, 8, len(in.Schema.Fields())-1)
		inputs[fmt.Sprintf("stream, nulls %v", nulls)] = streamOf(t, in.Stream(t))
		inputs[fmt.Sprintf("mapped file, nulls %v", nulls)] = fileOf(t, noDictionary.File(t))
		inputs[fmt.Sprintf("compressed file, nulls %v", nulls)] = fileOf(t, noDictionary.File(t, ipc.WithLZ4()))
	}
	empty := sourcetest.RangeTable(8, nil, 0, sourcetest.Nested...)
	inputs["stream of no rows"] = streamOf(t, empty.Stream(t))
	inputs["file of no rows"] = fileOf(t, empty.File(t))
	return inputs
}

func TestRangesOfRowsAreSlicesOfTheWhole(t *testing.T) { sourcetest.TestRanges(t, rangeInputs(t)) }

func TestRowsAndNullsAreCountedWithoutReadingValues(t *testing.T) {
	sourcetest.TestCounts(t, rangeInputs(t), 90)
}

// The rows of runs are the values', so a column with a null among them may have any number.
func TestNullsOfRunsAreUnknownUnlessNoValueIsNull(t *testing.T) {
	kind := arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64)
	for nulls, want := range map[string]int64{`[1, 2]`: 0, `[1, null]`: -1} {
		values := tabletest.FromJSON(t, arrow.PrimitiveTypes.Int64, nulls)
		runs := array.NewRunEndEncodedArray(tabletest.FromJSON(t, arrow.PrimitiveTypes.Int32, `[3, 5]`), values, 5, 0)
		in := tabletest.New([]arrow.Field{{Name: "before", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, {Name: "runs", Type: kind, Nullable: true}},
			[]arrow.Array{tabletest.FromJSON(t, arrow.PrimitiveTypes.Int64, `[1, null, null, 4, 5]`), runs})
		for _, open := range []sourcetest.Opener{fileOf(t, in.File(t)), streamOf(t, in.Stream(t))} {
			counts, err := sourcetest.Count(open)
			require.NoError(t, err)
			assert.Equal(t, []int64{2, want}, counts.Nulls)
		}
	}
}

// inArrow017 changes the metadata of the batches of a file or a stream to that of Arrow 0.17,
// which named their codec in the metadata of the message.
func inArrow017(t *testing.T, raw []byte) []byte {
	t.Helper()
	at, batches := 0, 0
	if bytes.HasPrefix(raw, []byte("ARROW1")) {
		at = 8
	}
	for {
		n := int(binary.LittleEndian.Uint32(raw[at+4:]))
		if n == 0 {
			require.NotZero(t, batches)
			return raw
		}
		metadata := raw[at+8 : at+8+n]
		message := flatbuffers.Table{Bytes: metadata, Pos: flatbuffers.GetUOffsetT(metadata)}
		message.MutateInt16Slot(4, 3) // version 4
		if message.GetByteSlot(6, 0) == 3 {
			batch := flatbuffers.Table{Bytes: metadata, Pos: message.Indirect(message.Pos + flatbuffers.UOffsetT(message.Offset(8)))}
			require.NotZero(t, batch.Offset(10), "compression")
			fields := int(batch.Pos) - int(flatbuffers.GetSOffsetT(metadata[batch.Pos:]))
			binary.LittleEndian.PutUint16(metadata[fields+10:], 0)
			batches++
		}
		at += 8 + n + int(message.GetInt64Slot(10, 0))
	}
}

func TestBatchesThatArrow017CompressedAreDecompressed(t *testing.T) {
	for name, codec := range map[string]ipc.Option{"LZ4": ipc.WithLZ4(), "ZSTD": ipc.WithZstd()} {
		want := tabletest.New([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64}, {Name: "t", Type: arrow.BinaryTypes.String}})
		for from := range 2 {
			b := array.NewRecordBuilder(memory.DefaultAllocator, want.Schema)
			for i := range 1000 {
				b.Field(0).(*array.Int64Builder).Append(int64(i + 1000*from))
				b.Field(1).(*array.StringBuilder).Append(fmt.Sprint("text ", i%7))
			}
			batch := b.NewRecordBatch()
			metadata := arrow.NewMetadata([]string{"ARROW:experimental_compression"}, []string{name})
			want.Batches = append(want.Batches, array.NewRecordBatchWithMetadata(want.Schema, batch.Columns(), 1000, metadata))
		}
		current := sourcetest.Rows(t, fileOf(t, want.File(t)))
		require.Equal(t, []string{"0 text 0", "1 text 1", "2 text 2"}, current[:3])
		for format, open := range map[string]sourcetest.Opener{
			"Arrow IPC file":   fileOf(t, inArrow017(t, want.File(t, codec))),
			"Arrow IPC stream": streamOf(t, inArrow017(t, want.Stream(t, codec))),
		} {
			assert.Equal(t, current, sourcetest.Rows(t, open))
			assert.Equal(t, format, sourcetest.Info(t, open).Format)
			counts, err := sourcetest.Count(open)
			require.NoError(t, err)
			assert.Equal(t, source.Counts{Rows: 2000, Nulls: []int64{0, 0}}, counts)
		}
	}
}

// remoteContent is a file each of whose reads takes a round trip.
type remoteContent struct {
	*bytes.Reader
	mu    sync.Mutex
	reads map[int64]int // how often each position is read
	metas sync.WaitGroup
	wait  int // reads of metadata that wait for one another
}

func (c *remoteContent) ReadAt(p []byte, off int64) (int, error) {
	c.mu.Lock()
	c.reads[off]++
	waits := c.reads[off] == 1 && off > 8 && off < c.Size()/2 && c.wait > 0
	if waits {
		c.wait--
	}
	c.mu.Unlock()
	if waits {
		c.metas.Done()
		met := make(chan struct{})
		go func() { c.metas.Wait(); close(met) }()
		select {
		case <-met:
		case <-time.After(20 * time.Second):
			return 0, errors.New("metadata is read one after another")
		}
	}
	return c.Reader.ReadAt(p, off)
}

// The metadata of the batches of a remote file is read once, and at the same time.
func TestMetadataOfRemoteFilesIsReadOnceAndAtTheSameTime(t *testing.T) {
	in := sourcetest.RangeTable(8, slices.Repeat([]int{50}, 40), 0.3, arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String).Choose(0, 1)
	raw := in.File(t)
	content := &remoteContent{Reader: bytes.NewReader(raw), reads: map[int64]int{}, wait: 10}
	content.metas.Add(content.wait)
	file := source.NewRemoteFile("remote", int64(len(raw)), "1", content)
	src, err := Open(file, sourcetest.Options())
	require.NoError(t, err)
	defer func() { require.NoError(t, src.Close()) }()
	opening := 0
	for _, n := range content.reads {
		opening += n
	}
	require.NoError(t, src.Open(t.Context(), []int{0, 1}, source.WholeInput))
	rows := int64(0)
	for {
		b, err := src.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		rows += b.Record.NumRows()
		b.Record.Release()
	}
	assert.EqualValues(t, 40*50, rows)
	all := 0
	for _, n := range content.reads {
		all += n
	}
	assert.Equal(t, 40, all-opening, "the body of each batch")
	assert.LessOrEqual(t, opening, 40+10)
}
