package ndview

import "testing"

// CutWalks lets kernels that follow indices do at most so many items a launch for
// the time of a test, as they do 2^31-1 else.
func CutWalks(t testing.TB, most int64) {
	before := maxItems
	maxItems = most
	t.Cleanup(func() { maxItems = before })
}

// LimitLaunches makes the launches of elementwise operations smaller than 31
// bits let them be, so that tests need no arrays beyond that.
func LimitLaunches(vectors, step int64) (undo func()) {
	v, s := maxVectors, maxStep
	maxVectors, maxStep = vectors, step
	return func() { maxVectors, maxStep = v, s }
}

// UseBuckets lets indices be followed bucket by bucket where there are that many,
// into a source of any size, for the time of a test.
func UseBuckets(t testing.TB, indices, bucket int64) {
	before := buckets
	buckets = bucketing{indices: indices, source: 0, bucket: bucket, reads: 1, far: 64}
	t.Cleanup(func() { buckets = before })
}
