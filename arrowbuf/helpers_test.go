package arrowbuf_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

func checked(t testing.TB) memory.Allocator {
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	t.Cleanup(func() { mem.AssertSize(t, 0) })
	return mem
}

// randomBatch makes a batch that is released at the end of the test.
func randomBatch(t testing.TB, mem memory.Allocator, rows int, types ...arrow.DataType) arrow.RecordBatch {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, uint64(rows)))
	fields := make([]arrow.Field, len(types))
	columns := make([]arrow.Array, len(types))
	for i, dtype := range types {
		fields[i] = arrow.Field{Name: string(rune('a'+i%26)) + strings.Repeat("'", i/26), Type: dtype, Nullable: true}
		columns[i] = randomArray(t, mem, rng, dtype, rows, i%2 == 0)
		defer columns[i].Release()
	}
	made := array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, int64(rows))
	t.Cleanup(made.Release)
	return made
}

func copyBatch(t testing.TB, b arrow.RecordBatch, dev arrowbuf.Device) *arrowbuf.RecordBatch {
	t.Helper()
	moved, err := arrowbuf.CopyTo(b, dev)
	require.NoError(t, err)
	require.IsType(t, (*arrowbuf.RecordBatch)(nil), moved)
	return moved.(*arrowbuf.RecordBatch)
}

func requireSameBatch(t testing.TB, host arrow.RecordBatch, moved *arrowbuf.RecordBatch) {
	t.Helper()
	back, err := moved.ToHost()
	require.NoError(t, err)
	defer back.Release()
	require.True(t, host.Schema().Equal(back.Schema()))
	require.Equal(t, host.NumRows(), back.NumRows())
	for i, want := range host.Columns() {
		require.True(t, array.Equal(want, back.Column(i)), "column %d, %s: want %v\ngot %v", i, want.DataType(), want, back.Column(i))
	}
}
