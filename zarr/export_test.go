package zarr

import "testing"

// UseSmallBatches makes the batches that devices read and write have n bytes.
func UseSmallBatches(t testing.TB, n int64) {
	write, leastWrite, read, least := writeBatch, minWriteBatch, readBatch, minReadBatch
	writeBatch, minWriteBatch, readBatch, minReadBatch = n, n, n, n
	t.Cleanup(func() { writeBatch, minWriteBatch, readBatch, minReadBatch = write, leastWrite, read, least })
}

// Goroutines returns how many goroutines read n bytes of elements.
func (a *Array) Goroutines(jobs int, n int64) int {
	return a.goroutines(jobs, waiting, a.bytesToRead(n))
}
