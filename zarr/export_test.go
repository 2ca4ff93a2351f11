package zarr

import "testing"

// UseSmallBatches makes the batches that devices read and write have n bytes.
func UseSmallBatches(t testing.TB, n int64) {
	write, read, least := writeBatch, readBatch, minReadBatch
	writeBatch, readBatch, minReadBatch = n, n, n
	t.Cleanup(func() { writeBatch, readBatch, minReadBatch = write, read, least })
}
