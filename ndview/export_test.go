package ndview

import (
	"testing"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/nvrtc"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// UseTwins lets kernels from source run as twins for the time of a test, since
// the soft device has no use for an image.
func UseTwins(t testing.TB, twins func(source string) map[string]cudabuf.HostKernel) {
	compile, before := compileSource, sourceTwins
	compileSource = func(string, int, int) ([]byte, error) { return []byte("twins"), nil }
	sourceTwins = twins
	compiled.Clear()
	t.Cleanup(func() {
		compileSource, sourceTwins = compile, before
		compiled.Clear()
	})
}

// SourceOf is the source of an operation for operands of a form: each array's
// size of elements and its strides along the loops' extents.
func (e *Elementwise) SourceOf(extents []int64, sizes []int64, strides [][]int64, small bool) string {
	return e.source(layout.Nest{Shape: extents, Strides: strides}, sizes, small)
}

// SourceOf is the source of a reduction: strides are of the result and then of
// each array, along the axes that stay, and of each array along the others.
func (k *ReductionKernel) SourceOf(kept []int64, keptStrides [][]int64, gone []int64, goneStrides [][]int64, sizes []int64, small bool) string {
	return k.text(layout.Nest{Shape: kept, Strides: keptStrides}, layout.Nest{Shape: gone, Strides: goneStrides}, sizes, small)
}

// CompileSource compiles as a device of compute capability 9.0 asks to.
func CompileSource(source string) error {
	_, err := nvrtc.Compile(nvrtc.Source{Name: "own.cu", Text: source, Arch: "sm_90", Options: []string{"-std=c++17"}})
	return err
}

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
	before := bucketing
	bucketing = bucketLimits{minIndices: indices, minSource: 0, bucketSize: bucket, minReads: 1, farApart: 64}
	t.Cleanup(func() { bucketing = before })
}
