package blas_test

import (
	"math/cmplx"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
)

// onDevices runs a test on the CPU device and on CUDA devices.
func onDevices(t *testing.T, test func(t *testing.T, dev arrowbuf.Device)) {
	t.Helper()
	t.Run("cpu", func(t *testing.T) { test(t, arrowbuf.CPU()) })
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) { test(t, dev) })
}

// own registers the release of a result, which must have no error.
func own[R interface{ Release() }](t testing.TB, r R, err error) R {
	t.Helper()
	require.NoError(t, err)
	t.Cleanup(r.Release)
	return r
}

// upload returns a buffer on a device with the bytes of data.
func upload(t testing.TB, dev arrowbuf.Device, data []byte) arrowbuf.Buffer {
	t.Helper()
	b, err := dev.Alloc(int64(len(data)))
	require.NoError(t, err)
	t.Cleanup(b.Release)
	_, err = b.CopyFromHost(data, 0)
	require.NoError(t, err)
	return b
}

// download returns all bytes of a buffer.
func download(t testing.TB, b arrowbuf.Buffer) []byte {
	t.Helper()
	data := make([]byte, b.Len())
	_, err := b.CopyToHost(data, 0)
	require.NoError(t, err)
	return data
}

// fromHost returns an array in C order.
func fromHost[T ndview.Element](t testing.TB, dev arrowbuf.Device, dtype ndview.DType, data []T, shape ...int64) *ndview.NDBuffer {
	t.Helper()
	a, err := ndview.FromBytes(dev, dtype, bytesOf(data), shape...)
	return own(t, a, err)
}

// bytesOf returns the memory of a slice.
func bytesOf[T any](data []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), len(data)*int(unsafe.Sizeof(*new(T))))
}

// numbersOf returns the elements of an array as complex numbers, in C order.
func numbersOf(t testing.TB, a *ndview.NDBuffer) []complex128 {
	t.Helper()
	onCPU := a
	if a.Device() != arrowbuf.CPU() {
		b, err := a.To(arrowbuf.CPU())
		onCPU = own(t, b, err)
	}
	if a.DType() == ndview.BFloat16 { // ml_dtypes and ndview cast it to floats only
		b, err := onCPU.AsType(ndview.Float64, ndview.OrderC, ndview.CastUnsafe)
		onCPU = own(t, b, err)
	}
	wide, err := onCPU.AsType(ndview.Complex128, ndview.OrderC, ndview.CastUnsafe)
	own(t, wide, err)
	values := make([]complex128, wide.Size())
	require.NoError(t, wide.CopyToHost(bytesOf(values)))
	return values
}

// equal reports whether two numbers are equal, or both NaN.
func equal(a, b complex128) bool {
	return a == b || cmplx.IsNaN(a) && cmplx.IsNaN(b)
}
