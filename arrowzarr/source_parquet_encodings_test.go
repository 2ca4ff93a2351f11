package arrowzarr_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
)

// deltas.parquet is by pyarrow; arrow-go does not read DELTA_BYTE_ARRAY of fixed length.
func TestDeltaEncodingsConvert(t *testing.T) {
	path := filepath.Join("internal", "source", "parquet", "testdata", "deltas.parquet")
	output, _ := convertFile(t, path, arrowzarr.Options{})
	opened := openTable(t, output, arrowzarr.TableOptions{})
	const n = 700
	batch, err := opened.Read(t.Context(), 0, n)
	require.NoError(t, err)
	defer batch.Release()
	require.Equal(t, int64(n), opened.NumRows())
	require.Equal(t, int64(6), batch.NumCols())
	text := func(column, row int) string { return batch.Column(column).ValueStr(row) }
	for i := range n {
		if i%11 == 0 {
			require.True(t, batch.Column(0).IsNull(i), i)
		} else {
			require.Equal(t, fmt.Sprintf("%03d-%03d", i/10, i), string(batch.Column(0).(*array.FixedSizeBinary).Value(i)))
		}
		hundredths := batch.Column(1).(*array.Decimal128).Value(i)
		require.True(t, hundredths.FitsInPrecision(9))
		require.Equal(t, i*i-1000, int(hundredths.LowBits()))
		require.Equal(t, float32(i)/4, batch.Column(2).(*array.Float16).Value(i).Float32())
		if i%5 == 0 {
			require.True(t, batch.Column(3).IsNull(i), i)
		} else {
			require.Equal(t, fmt.Sprint(i*7919%1000-500), text(3, i))
		}
		power := int64(1) << (i % 63)
		if i%2 == 1 {
			power = -power
		}
		require.Equal(t, fmt.Sprint(power), text(4, i))
		list := batch.Column(5).(*array.List)
		from, to := list.ValueOffsets(i)
		require.EqualValues(t, i%4, to-from, i)
		for at := from; at < to; at++ {
			require.Equal(t, fmt.Sprint(i/7+int(at-from)), list.ListValues().ValueStr(int(at)))
		}
	}
}
