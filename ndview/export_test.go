package ndview

import "testing"

// CutWalks limits the items per launch of kernels that index, otherwise 2^31-1, during
// a test.
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

// UseBuckets lowers the least number of indices that are sorted into buckets, and sets
// the size of a bucket in bytes, during a test.
func UseBuckets(t testing.TB, indices, bucket int64) {
	before := bucketing
	bucketing = bucketLimits{minIndices: indices, minSource: 0, bucketSize: bucket, minReads: 1, farApart: 64}
	t.Cleanup(func() { bucketing = before })
}
