package ndview_test

import (
	"sync"
	"testing"
	"time"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestKernelLoadIsRetriedAfterAnError(t *testing.T) {
	const outOfMemory = 2 // CUDA_ERROR_OUT_OF_MEMORY
	driver := cudatest.Start(t, cudatest.Config{Fail: func(call string, n int) cudabuf.Result {
		if call == "cuModuleLoadData" && n == 1 {
			return outOfMemory
		}
		return 0
	}})
	dev, err := driver.Device(0)
	require.NoError(t, err)
	bits := ndtest.Upload(t, dev, []byte{0b101})
	a, err := ndview.Empty(dev, ndview.Bool, 3)
	ndtest.Own(t, a, err)
	err = a.UnpackBits(bits, 0, false)
	assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory)
	assert.ErrorContains(t, err, "quiver_unpack_bits")
	require.NoError(t, a.UnpackBits(bits, 0, false))
	assert.Equal(t, ndtest.Raw(true, false, true), ndtest.Elements(t, a))
}

func TestFailedLaunchReturnsAnError(t *testing.T) {
	driver := cudatest.Start(t, cudatest.Config{Fail: func(call string, _ int) cudabuf.Result {
		if call == "cuLaunchKernel" || call == "cuMemsetD8Async" {
			return 1 // CUDA_ERROR_INVALID_VALUE
		}
		return 0
	}})
	dev, err := driver.Device(0)
	require.NoError(t, err)
	buf := ndtest.Upload(t, dev, make([]byte, 64))
	mask, long := ndtest.At(t, buf, ndview.Bool, 0, 4), ndtest.At(t, buf, ndview.Int64, 32, 4)
	for name, err := range map[string]error{
		"UnpackBits": mask.UnpackBits(buf, 0, false),
		"FillWhere":  long.FillWhere(mask, 0),
		"Assign":     long.Assign(ndtest.At(t, buf, ndview.Int32, 0, 4)),
		"Zero":       mask.Zero(),
	} {
		assert.ErrorContains(t, err, "CUDA_ERROR_INVALID_VALUE", name)
	}
}

func TestKernelsRunFromManyGoroutines(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		var wait sync.WaitGroup
		for worker := range 8 {
			wait.Go(func() {
				bits, err := dev.Alloc(64)
				if !assert.NoError(t, err) {
					return
				}
				defer bits.Release()
				a, err := ndview.Empty(dev, ndview.Bool, 512)
				if !assert.NoError(t, err) {
					return
				}
				defer a.Release()
				bitmap := make([]byte, 64)
				for round := range 10 {
					bitmap[worker] = byte(round)
					_, err := bits.CopyFromHost(bitmap, 0)
					assert.NoError(t, err)
					assert.NoError(t, a.UnpackBits(bits, 0, worker%2 == 0))
					want := make([]byte, 512)
					unpackReference(want, bitmap, 0, worker%2 == 0)
					got := make([]byte, 512)
					assert.NoError(t, a.CopyToHost(got))
					assert.Equal(t, want, got)
				}
			})
		}
		wait.Wait()
	})
}

// plainDevice is a device of a type that ndview does not know.
type plainDevice struct{ arrowbuf.Device }

type plainBuffer struct {
	arrowbuf.Buffer
	dev *plainDevice
}

func (b *plainBuffer) Device() arrowbuf.Device { return b.dev }

func (b *plainBuffer) Slice(offset, length int64) (arrowbuf.Buffer, error) {
	part, err := b.Buffer.Slice(offset, length)
	return &plainBuffer{part, b.dev}, err
}

func TestDeviceWithoutKernelsReturnsErrDevice(t *testing.T) {
	dev := &plainDevice{arrowbuf.CPU()}
	buf := &plainBuffer{ndtest.Upload(t, arrowbuf.CPU(), make([]byte, 64)), dev}
	mask, long := ndtest.At(t, buf, ndview.Bool, 0, 4), ndtest.At(t, buf, ndview.Int64, 32, 4)
	for name, err := range map[string]error{
		"UnpackBits": mask.UnpackBits(buf, 0, false),
		"FillWhere":  long.FillWhere(mask, 0),
		"Assign":     long.Assign(ndtest.At(t, buf, ndview.Int32, 0, 4)),
		"Zero":       mask.Zero(),
	} {
		assert.ErrorIs(t, err, arrowbuf.ErrDevice, name)
	}
	assert.Equal(t, make([]byte, 64), ndtest.Elements(t, ndtest.At(t, buf, ndview.Uint8, 0, 64)), "copies need no kernel")
}

// firstUses are cases whose kernels are in different images, among them the largest.
var firstUses = []string{
	"permute/float32/64x64/10", "strided/gather/float32/64x64/2", "astype/float64/int16/64", "elementwise/add/float32/64/dense",
	"elementwise/add/int64/64/dense", "elementwise/less/float32/64/dense", "elementwise/where/float32/64/dense", "elementwise/sin/float32/64",
	"elementwise/multiply/complex64/64/dense", "reduce/sum/float32/64x64/0", "reduce/max/int8/64x64/all", "reduce/argmax/float32/64x64/1",
	"allequal/float32/64", "equal/float32/64", "fill/float64/64", "take/float32/64/int64/64", "put/float32/64/int64/64", "compress/float32/64/2",
	"unpackbits/64", "packbits/64", "byteswap/float32/64", "triu/float32/64x64",
}

// BenchmarkFirstUse reports the time of an operation's first call in a new context, until
// its result is there. It includes unpacking and loading the kernels' image.
func BenchmarkFirstUse(b *testing.B) {
	if !cudatest.OnGPU() {
		b.Skip("loads kernels on a GPU: set QUIVER_TEST_DEVICE=cuda")
	}
	for _, name := range firstUses {
		b.Run(name, func(b *testing.B) {
			driver, err := cudabuf.Open()
			require.NoError(b, err)
			b.Cleanup(func() { require.NoError(b, driver.Close()) })
			dev, err := driver.Device(0)
			require.NoError(b, err)
			run := newBenchmarkCase(b, dev, name).operation()
			require.NoError(b, dev.Synchronize())
			start := time.Now()
			require.NoError(b, run())
			require.NoError(b, dev.Synchronize())
			b.ReportMetric(float64(time.Since(start).Nanoseconds())/1e3, "us/first")
		})
	}
}
