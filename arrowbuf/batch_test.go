package arrowbuf_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

func TestRecordBatchBehavesAsArrowGo(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		host := withMetadata(t, randomBatch(t, checked(t), 30, allTypes...))
		moved := copyBatch(t, host, dev)
		defer moved.Release()
		checkBatch(t, host, moved)
		for _, b := range [][2]int64{{0, 30}, {0, 0}, {30, 30}, {3, 29}, {8, 16}} {
			want, got := host.NewSlice(b[0], b[1]), moved.NewSlice(b[0], b[1])
			checkBatch(t, want, got)
			again := got.NewSlice(0, got.NumRows()/2)
			wantAgain := want.NewSlice(0, want.NumRows()/2)
			checkBatch(t, wantAgain, again)
			for _, r := range []arrow.RecordBatch{want, got, again, wantAgain} {
				r.Release()
			}
		}
		for _, b := range [][2]int64{{-1, 2}, {0, 31}, {4, 3}} {
			assert.Panics(t, func() { moved.NewSlice(b[0], b[1]) })
		}
	})
}

func withMetadata(t *testing.T, b arrow.RecordBatch) arrow.RecordBatch {
	made := array.NewRecordBatchWithMetadata(b.Schema(), b.Columns(), b.NumRows(), arrow.NewMetadata([]string{"k"}, []string{"v"}))
	t.Cleanup(made.Release)
	return made
}

func checkBatch(t *testing.T, want, got arrow.RecordBatch) {
	t.Helper()
	require.IsType(t, (*arrowbuf.RecordBatch)(nil), got)
	assert.True(t, want.Schema().Equal(got.Schema()))
	assert.Equal(t, want.NumRows(), got.NumRows())
	assert.Equal(t, want.NumCols(), got.NumCols())
	assert.Len(t, got.Columns(), len(want.Columns()))
	if want.NumRows() > 0 {
		assert.Equal(t, fmt.Sprint(want), fmt.Sprint(got))
	}
	for i := range want.Columns() {
		if want.NumRows() > 0 || !hasDenseUnion(want.Column(i).DataType()) { // arrow-go panics printing an empty slice of one
			assert.Equal(t, want.Column(i).String(), got.Column(i).String(), want.Column(i).DataType())
		}
		assert.Equal(t, want.ColumnName(i), got.ColumnName(i))
		assert.Equal(t, want.Column(i).NullN(), got.Column(i).NullN())
	}
	assert.Equal(t, want.(arrow.RecordBatchWithMetadata).Metadata(), got.(arrow.RecordBatchWithMetadata).Metadata())
	if want.NumRows() > 0 {
		wantJSON, err := json.Marshal(want)
		require.NoError(t, err)
		gotJSON, err := json.Marshal(got)
		require.NoError(t, err)
		assert.JSONEq(t, string(wantJSON), string(gotJSON))
	}
	requireSameBatch(t, want, got.(*arrowbuf.RecordBatch))
}

func TestSetColumnAcceptsAnyDevice(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		host := randomBatch(t, checked(t), 30, arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String, arrow.BinaryTypes.String)
		moved := copyBatch(t, host, dev)
		defer moved.Release()
		mixed, err := moved.SetColumn(1, host.Column(2))
		require.NoError(t, err)
		defer mixed.Release()
		want, err := host.SetColumn(1, host.Column(2))
		require.NoError(t, err)
		defer want.Release()
		checkBatch(t, want, mixed)
		slice, wantSlice := mixed.NewSlice(2, 9), want.NewSlice(2, 9)
		defer slice.Release()
		defer wantSlice.Release()
		checkBatch(t, wantSlice, slice)
	})
}

func TestRecordBatchRejectsMismatchedColumns(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		host := randomBatch(t, checked(t), 30, arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String)
		moved := copyBatch(t, host, dev)
		defer moved.Release()
		short := moved.Column(0).(*arrowbuf.Array).Slice(0, 29)
		defer short.Release()
		for name, c := range map[string]struct {
			at     int
			column arrow.Array
		}{"below": {-1, short}, "beyond": {2, short}, "short": {0, short}, "type": {1, moved.Column(0)}} {
			t.Run(name, func(t *testing.T) {
				_, want := host.SetColumn(c.at, c.column)
				_, got := moved.SetColumn(c.at, c.column)
				require.Error(t, want)
				assert.EqualError(t, got, want.Error())
			})
		}
		for name, columns := range map[string][]arrow.Array{
			"count": moved.Columns()[:1],
			"rows":  {short, moved.Column(1)},
			"type":  {moved.Column(1), moved.Column(1)},
			"nil":   {nil, nil},
		} {
			t.Run("new, "+name, func(t *testing.T) {
				_, err := arrowbuf.NewRecordBatch(host.Schema(), columns, 30)
				assert.ErrorIs(t, err, arrow.ErrInvalid)
			})
		}
	})
}

func TestColumnsAndSlicesOutliveTheirBatch(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		host := randomBatch(t, checked(t), 30, arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String)
		moved := copyBatch(t, host, dev)
		slice := moved.NewSlice(3, 20)
		column := moved.Column(1)
		column.Retain()
		moved.Release()
		want := host.NewSlice(3, 20)
		defer want.Release()
		checkBatch(t, want, slice)
		slice.Release()
		assert.Equal(t, host.Column(1).String(), column.String())
		column.Release()
	})
}

func TestRecordBatchExtraReleasePanics(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		host := randomBatch(t, checked(t), 30, arrow.PrimitiveTypes.Int32)
		moved := copyBatch(t, host, dev)
		column := moved.Column(0)
		moved.Retain()
		moved.Release()
		moved.Release()
		for _, again := range []func(){moved.Release, moved.Retain, moved.Release, column.Retain, column.Release, column.Release} {
			func() {
				defer func() {
					failure, ok := recover().(error)
					require.True(t, ok)
					assert.ErrorIs(t, failure, arrowbuf.ErrReleased)
				}()
				again()
			}()
		}
	})
}

func TestHostRecordBatchPrintsAsArrowGo(t *testing.T) {
	made := randomBatch(t, checked(t), 10, arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String)
	b, err := arrowbuf.NewRecordBatch(made.Schema(), made.Columns(), made.NumRows())
	require.NoError(t, err)
	defer b.Release()
	host, err := arrowbuf.ToHost(b)
	require.NoError(t, err)
	defer host.Release()
	assert.NotSame(t, b, host)
	want, err := made.MarshalJSON()
	require.NoError(t, err)
	got, err := b.MarshalJSON()
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got))
	assert.Equal(t, fmt.Sprint(made), b.String())
}
