package arrowipc_test

import (
	"bytes"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func TestFileReaderConcurrentUse(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		word := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
		moved, host := toDeviceAndBack(t, batchOf(t, checked(t), 200, true, arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String, word), dev)
		raw := encodeWithQuiver(t, true, []arrow.RecordBatch{moved, moved, moved, moved})
		r, err := arrowipc.NewFileReader(bytes.NewReader(raw), int64(len(raw)), dev)
		require.NoError(t, err)
		defer r.Release()
		var all sync.WaitGroup
		got := make([]arrow.RecordBatch, 4*r.NumBatches())
		for i := range got {
			all.Go(func() {
				batch, err := r.RecordBatchAt(i % r.NumBatches())
				assert.NoError(t, err)
				got[i] = batch
			})
		}
		all.Wait()
		for _, batch := range got {
			requireSame(t, host, batch, dev)
			batch.Release()
		}
	})
}
