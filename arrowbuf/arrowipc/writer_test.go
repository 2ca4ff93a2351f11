package arrowipc_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
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
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func writeWithArrowGo(w interface{ Write(arrow.RecordBatch) error }, batch arrow.RecordBatch) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return w.Write(batch)
}

func TestWriterMatchesArrowGo(t *testing.T) {
	mem := checked(t)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, dtype := range types() {
			for _, rows := range []int{0, 1, 100} {
				for _, nulls := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%d/%v", dtype, rows, nulls), func(t *testing.T) {
						moved, host := toDeviceAndBack(t, batchOf(t, mem, rows, nulls, dtype), dev)
						requireSameFiles(t, host, moved)
						for _, cut := range [][2]int64{{0, 1}, {1, 100}, {13, 77}, {64, 100}, {8, 16}, {50, 50}} {
							if cut[1] <= int64(rows) {
								theirs, ours := host.NewSlice(cut[0], cut[1]), moved.NewSlice(cut[0], cut[1])
								requireSameFiles(t, theirs, ours)
								theirs.Release()
								ours.Release()
							}
						}
					})
				}
			}
		}
	})
}

// requireSameFiles compares the files that this package writes of a device batch,
// and arrow-go of the same batch on the host.
func requireSameFiles(t *testing.T, host, moved arrow.RecordBatch) {
	t.Helper()
	for _, file := range []bool{false, true} {
		want, err := encodeWithArrowGo(t, file, []arrow.RecordBatch{host, host})
		got := encodeWithQuiver(t, file, []arrow.RecordBatch{moved, moved})
		if err == nil && !arrowGoCannotWrite(host.Column(0).Data()) {
			requireSameBytes(t, want, got)
			continue
		}
		// arrow-go fails, or writes memory past the type ids.
		require.True(t, arrowGoCannotWrite(host.Column(0).Data()), err)
		r, err := ipc.NewReader(bytes.NewReader(encodeWithQuiver(t, false, []arrow.RecordBatch{moved})))
		require.NoError(t, err)
		require.True(t, r.Next(), r.Err())
		require.True(t, array.RecordEqual(host, r.RecordBatch()), "%v\n%v", host, r.RecordBatch())
		r.Release()
	}
}

// arrowGoCannotWrite reports whether arrow-go fails to write a slice: of unions it
// reads past the end, and of list views it finds no smallest offset.
func arrowGoCannotWrite(data arrow.ArrayData) bool {
	switch data.DataType().ID() {
	case arrow.SPARSE_UNION, arrow.DENSE_UNION, arrow.LIST_VIEW, arrow.LARGE_LIST_VIEW:
		return data.Offset() > 0
	}
	return false
}

func requireSameBytes(t *testing.T, want, got []byte) {
	t.Helper()
	if bytes.Equal(want, got) {
		return
	}
	n := min(len(want), len(got))
	for i := range n {
		if want[i] != got[i] {
			n = i
			break
		}
	}
	from := max(n&^15-32, 0)
	t.Fatalf("%d bytes, expected %d, which differ from byte %d on:\n%sexpected\n%s", len(got), len(want), n,
		hex.Dump(got[from:min(from+96, len(got))]), hex.Dump(want[from:min(from+96, len(want))]))
}

func TestWriterRejectsMissingBuffers(t *testing.T) {
	ints, text, pair := arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String, arrow.StructOf(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int32})
	words := memory.NewBufferBytes(make([]byte, 12))
	for about, data := range map[string]*array.Data{
		"values":  array.NewData(ints, 3, []*memory.Buffer{nil, nil}, nil, 0, 0),
		"bits":    array.NewData(arrow.FixedWidthTypes.Boolean, 3, []*memory.Buffer{nil, nil}, nil, 0, 0),
		"offsets": array.NewData(text, 3, []*memory.Buffer{nil, nil, nil}, nil, 0, 0),
		"none":    array.NewData(text, 3, []*memory.Buffer{nil, memory.NewBufferBytes(nil), nil}, nil, 0, 0),
		"views":   array.NewData(arrow.BinaryTypes.StringView, 3, []*memory.Buffer{nil, nil}, nil, 0, 0),
		"bitmap":  array.NewData(ints, 3, []*memory.Buffer{nil, words}, nil, 2, 0),
		"child":   array.NewData(pair, 3, []*memory.Buffer{nil}, []arrow.ArrayData{nil}, 0, 0),
	} {
		schema := arrow.NewSchema([]arrow.Field{{Name: "odd", Type: data.DataType(), Nullable: true}}, nil)
		var out bytes.Buffer
		w, err := arrowipc.NewWriter(&out, schema)
		require.NoError(t, err)
		before := out.Len()
		err = w.Write(bare{schema: schema, column: bareColumn{data: data}})
		require.ErrorIs(t, err, arrow.ErrInvalid, about)
		require.ErrorContains(t, err, "odd", about)
		require.Equal(t, before, out.Len(), about)
	}
}

func TestEncodeRejectsNil(t *testing.T) {
	_, err := arrowipc.EncodeRecordBatch(nil)
	require.ErrorIs(t, err, arrow.ErrInvalid)
	w, err := arrowipc.NewWriter(new(bytes.Buffer), arrow.NewSchema(nil, nil))
	require.NoError(t, err)
	require.ErrorIs(t, w.Write(nil), arrow.ErrInvalid)
	_, err = arrowipc.NewFileReaderFromBuffer(nil, arrowbuf.CPU())
	require.ErrorIs(t, err, arrow.ErrInvalid)
}

// bare is a batch of one column, without checks.
type bare struct {
	arrow.RecordBatch
	schema *arrow.Schema
	column arrow.Array
}

func (b bare) Schema() *arrow.Schema   { return b.schema }
func (b bare) NumRows() int64          { return 3 }
func (b bare) NumCols() int64          { return 1 }
func (b bare) Column(int) arrow.Array  { return b.column }
func (b bare) Columns() []arrow.Array  { return []arrow.Array{b.column} }
func (b bare) ColumnName(i int) string { return b.schema.Field(i).Name }

type bareColumn struct {
	arrow.Array
	data *array.Data
}

func (c bareColumn) Data() arrow.ArrayData    { return c.data }
func (c bareColumn) DataType() arrow.DataType { return c.data.DataType() }
func (c bareColumn) Len() int                 { return c.data.Len() }

func TestWriterStopsAfterOutputFailure(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		batch, _ := arraytest.Wide(t, checked(t), 8, 10<<20)
		moved, _ := toDeviceAndBack(t, batch, dev)
		for _, room := range []int{0, 100, 5000, 1 << 20, 7 << 20} {
			w, err := arrowipc.NewWriter(&limitedWriter{left: room}, moved.Schema())
			if err == nil {
				err = w.Write(moved)
			}
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			if w != nil {
				assert.ErrorIs(t, w.Write(moved), os.ErrDeadlineExceeded)
				assert.ErrorIs(t, w.Close(), os.ErrDeadlineExceeded)
			}
		}
	})
}

// limitedWriter accepts a limited number of bytes.
type limitedWriter struct{ left int }

func (s *limitedWriter) Write(b []byte) (int, error) {
	if len(b) > s.left {
		return s.left, os.ErrDeadlineExceeded
	}
	s.left -= len(b)
	return len(b), nil
}
