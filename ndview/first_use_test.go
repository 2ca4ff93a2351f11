package ndview_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// firstUses have their kernels in different images, among them the largest.
var firstUses = []string{
	"permute/float32/64x64/10", "strided/gather/float32/64x64/2", "astype/float64/int16/64", "elementwise/add/float32/64/dense",
	"elementwise/add/int64/64/dense", "elementwise/less/float32/64/dense", "elementwise/where/float32/64/dense", "elementwise/sin/float32/64",
	"elementwise/multiply/complex64/64/dense", "reduce/sum/float32/64x64/0", "reduce/max/int8/64x64/all", "reduce/argmax/float32/64x64/1",
	"allequal/float32/64", "equal/float32/64", "fill/float64/64", "take/float32/64/int64/64", "put/float32/64/int64/64", "compress/float32/64/2",
	"unpackbits/64", "packbits/64", "byteswap/float32/64", "triu/float32/64x64",
}

// BenchmarkFirstUse reports what the first call of an operation takes in a new
// context of the driver, from the call to its result: the kernels' image is
// unpacked and loaded in it.
func BenchmarkFirstUse(b *testing.B) {
	if !cudatest.OnGPU() {
		b.Skip("it loads kernels on a GPU: QUIVER_TEST_DEVICE=cuda")
	}
	for _, name := range firstUses {
		b.Run(name, func(b *testing.B) {
			driver, err := cudabuf.Open()
			require.NoError(b, err)
			b.Cleanup(func() { require.NoError(b, driver.Close()) })
			dev, err := driver.Device(0)
			require.NoError(b, err)
			work := caseOf(b, dev, name).work()
			require.NoError(b, dev.Synchronize())
			start := time.Now()
			require.NoError(b, work())
			require.NoError(b, dev.Synchronize())
			b.ReportMetric(float64(time.Since(start).Nanoseconds())/1e3, "us/first")
		})
	}
}
