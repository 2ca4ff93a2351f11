package kernel_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/cudabuf/nvrtc"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
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

// bitsOf returns the bits of an array's elements of 2 bytes.
func bitsOf(t testing.TB, a *ndview.NDBuffer) []uint16 {
	t.Helper()
	data := ndtest.Elements(t, a)
	bits := make([]uint16, len(data)/2)
	for i := range bits {
		bits[i] = binary.NativeEndian.Uint16(data[2*i:])
	}
	return bits
}
