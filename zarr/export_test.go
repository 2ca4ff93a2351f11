package zarr

import (
	"math"
	"testing"
)

// UseSmallBatches makes the batches that devices read and write have n bytes.
func UseSmallBatches(t testing.TB, n int64) {
	write, leastWrite, read, least := writeBatch, minWriteBatch, readBatch, minReadBatch
	writeBatch, minWriteBatch, readBatch, minReadBatch = n, n, n, n
	t.Cleanup(func() { writeBatch, minWriteBatch, readBatch, minReadBatch = write, leastWrite, read, least })
}

// Goroutines returns how many goroutines read whole chunks.
func (a *Array) Goroutines(jobs int) int {
	return a.goroutines(jobs, waiting, a.fetchedBytes(math.MaxInt64))
}
