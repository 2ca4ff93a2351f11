package ndview

import "testing"

// CutWalks limits kernels that follow indices to most items per launch during a test.
func CutWalks(t testing.TB, most int64) {
	before := maxItems
	maxItems = most
	t.Cleanup(func() { maxItems = before })
}

// LimitLaunches reduces the largest launches of elementwise operations, so that tests
// need no arrays beyond 31 bits.
func LimitLaunches(vectors, step int64) (undo func()) {
	v, s := maxVectors, maxStep
	maxVectors, maxStep = vectors, step
	return func() { maxVectors, maxStep = v, s }
}

// UseBuckets makes indexing sort at least that many indices into buckets, for a source
// of any size, during a test.
func UseBuckets(t testing.TB, indices, bucket int64) {
	before := buckets
	buckets = bucketing{indices: indices, source: 0, bucket: bucket, reads: 1, far: 64}
	t.Cleanup(func() { buckets = before })
}
