package ndview

import (
	"fmt"
	"testing"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
	"github.com/quiver-gpu/quiver/ndview/internal/stridedcopy"
)

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

// CopyCandidate enqueues one of the kernels that can do a copy.
type CopyCandidate struct {
	Kernel string
	Run    func() error
}

// CopyCandidates returns the kernels that can copy src to dst on a GPU, see
// stridedcopy.Candidates. The copy must be one launch.
func CopyCandidates(dst, src *NDBuffer) ([]CopyCandidate, error) {
	dev := dst.Device()
	width, n := layout.UnitNest(dst.dtype.Size(), dst.address()|src.address(), dst.shape, dst.strides, src.strides)
	if layout.Product(n.Shape) > stridedcopy.MaxItems || len(n.Shape) > stridedcopy.MaxAxes {
		return nil, fmt.Errorf("a copy of %v is several launches", n.Shape)
	}
	to, from := dst.offset+n.Offsets[0], src.offset+n.Offsets[1]
	n.Offsets = []int64{0, 0}
	var candidates []CopyCandidate
	for _, p := range stridedcopy.Candidates(width, uint64(int64(dst.buf.Address())+to), uint64(int64(src.buf.Address())+from), n, launch.SharedMemory(dev)) {
		grid, block := cudabuf.Dim3{X: uint32(p.Blocks)}, cudabuf.Dim3{X: uint32(p.Threads)}
		candidates = append(candidates, CopyCandidate{string(p.Kernel), func() error {
			return launch.QueueShared(dev, copyPrograms[p.Kernel.Image()], p.Kernel.Function(width), grid, block, uint32(p.Shared), launch.InOut(dst.buf, to), launch.In(src.buf, from), p.Struct)
		}})
	}
	return candidates, nil
}
