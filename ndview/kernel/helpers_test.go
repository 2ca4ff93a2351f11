package kernel_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/cudabuf/nvrtc"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/kernel"
)

func reads(name string, dtype ndview.DType) kernel.Arg {
	return kernel.Arg{Name: name, DType: dtype, Read: true}
}

func writes(name string, dtype ndview.DType) kernel.Arg {
	return kernel.Arg{Name: name, DType: dtype, Write: true}
}

func scalar(name string, dtype ndview.DType) kernel.Arg {
	return kernel.Arg{Name: name, DType: dtype, Scalar: true}
}

// needNVRTC finds the compiler that `make kernels` installs, or skips the test.
func needNVRTC(t *testing.T) {
	t.Helper()
	if _, _, err := nvrtc.Version(); err == nil {
		return
	}
	installed, err := filepath.Glob("../../.tools/cuda/lib/python*/site-packages/nvidia/*/lib/libnvrtc.so.1[0-9]")
	require.NoError(t, err)
	if len(installed) == 0 {
		require.False(t, cudatest.OnGPU(), "tests on a GPU need NVRTC")
		t.Skip("needs NVRTC: `make kernels` installs it")
	}
	path, err := filepath.Abs(installed[0])
	require.NoError(t, err)
	require.NoError(t, os.Setenv(nvrtc.Override, path)) // for the rest of the process, which opens it once
}

// onDevices runs a test on the CPU device and on CUDA devices. A GPU needs NVRTC.
func onDevices(t *testing.T, test func(t *testing.T, dev arrowbuf.Device)) {
	t.Helper()
	t.Run("cpu", func(t *testing.T) { test(t, arrowbuf.CPU()) })
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		if !dev.RunsHostKernels() {
			needNVRTC(t)
		}
		test(t, dev)
	})
}

func floatsOf(t *testing.T, a *ndview.NDBuffer) []float32 {
	t.Helper()
	values, err := ndview.ToHost[float32](a)
	require.NoError(t, err)
	return values
}

// view registers the release of the view that a method returns.
func view(t *testing.T) func(a *ndview.NDBuffer, err error) *ndview.NDBuffer {
	return func(a *ndview.NDBuffer, err error) *ndview.NDBuffer {
		t.Helper()
		return own(t, a, err)
	}
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

// at returns a C-contiguous array over bytes of a buffer.
func at(t testing.TB, b arrowbuf.Buffer, dtype ndview.DType, offset int64, shape ...int64) *ndview.NDBuffer {
	t.Helper()
	a, err := ndview.FromBuffer(b, dtype, offset, shape, nil)
	return own(t, a, err)
}

// fromHost returns an array whose elements have the bits of data.
func fromHost[T ndview.Element](t testing.TB, dev arrowbuf.Device, dtype ndview.DType, data []T, shape ...int64) *ndview.NDBuffer {
	t.Helper()
	size := len(data) * int(unsafe.Sizeof(*new(T)))
	a, err := ndview.FromBytes(dev, dtype, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), size), shape...)
	return own(t, a, err)
}

// hostOf returns the elements of an array.
func hostOf[T ndview.Element](t testing.TB, a *ndview.NDBuffer) []T {
	t.Helper()
	data, err := ndview.ToHost[T](a)
	require.NoError(t, err)
	return data
}

// bitsOf returns the bits of an array's elements of 2 bytes.
func bitsOf(t testing.TB, a *ndview.NDBuffer) []uint16 {
	t.Helper()
	data := elements(t, a)
	bits := make([]uint16, len(data)/2)
	for i := range bits {
		bits[i] = binary.NativeEndian.Uint16(data[2*i:])
	}
	return bits
}

// elements returns the bytes of an array's elements in C order.
func elements(t testing.TB, a *ndview.NDBuffer) []byte {
	t.Helper()
	data := make([]byte, a.NBytes())
	require.NoError(t, a.CopyToHost(data))
	return data
}

// requireBytes is require.Equal for long slices: it reports the first difference.
func requireBytes(t testing.TB, want, got []byte, about ...any) {
	t.Helper()
	require.Len(t, got, len(want), about...)
	for i := range want {
		if want[i] != got[i] {
			require.Failf(t, "bytes differ", "at %d of %d: want %#x, got %#x: %v", i, len(want), want[i], got[i], about)
		}
	}
}

// raw returns the bytes of values in host memory.
func raw[T any](values ...T) []byte {
	var b []byte
	for i := range values {
		b = append(b, unsafe.Slice((*byte)(unsafe.Pointer(&values[i])), unsafe.Sizeof(values[i]))...)
	}
	return b
}
