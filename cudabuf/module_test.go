package cudabuf_test

import (
	_ "embed"
	"encoding/binary"
	"math"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

//go:embed testdata/add.ptx
var addPTX []byte

var addHostKernels = map[string]cudabuf.HostKernel{
	"add_int32": func(l *cudabuf.HostLaunch) {
		count, addend := l.Int64(1), l.Int32(2)
		count = min(count, int64(l.Grid.X)*int64(l.Block.X))
		values := cudabuf.Elements[int32](l, l.Pointer(0), count)
		for i := range values {
			values[i] += addend
		}
	},
	"store_args": func(l *cudabuf.HostLaunch) {
		out := l.Memory(l.Pointer(0), 32)
		binary.LittleEndian.PutUint32(out, uint32(l.Int32(1)))
		binary.LittleEndian.PutUint64(out[8:], uint64(l.Int64(2)))
		binary.LittleEndian.PutUint32(out[16:], math.Float32bits(l.Float32(3)))
		binary.LittleEndian.PutUint64(out[24:], math.Float64bits(l.Float64(4)))
	},
	"sum_struct": func(l *cudabuf.HostLaunch) {
		s := l.Struct(1, 16)
		sum := int64(binary.LittleEndian.Uint64(s)) + int64(int32(binary.LittleEndian.Uint32(s[8:]))) + int64(l.Int32(2))
		cudabuf.Elements[int64](l, l.Pointer(0), 1)[0] = sum
	},
}

func kernel(t *testing.T, dev *cudabuf.Device, name string) *cudabuf.Kernel {
	t.Helper()
	m, err := dev.LoadModule(addPTX, addHostKernels)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	k, err := m.Kernel(name)
	require.NoError(t, err)
	return k
}

func int32s(values ...int32) []byte {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	return b
}

func TestModuleErrors(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		_, err := dev.LoadModule(nil, addHostKernels)
		assert.ErrorContains(t, err, "CUDA_ERROR_INVALID_IMAGE")

		m, err := dev.LoadModule(addPTX, addHostKernels)
		require.NoError(t, err)
		defer func() { assert.NoError(t, m.Close()) }()
		_, err = m.Kernel("subtract")
		assert.ErrorContains(t, err, "kernel subtract")
		assert.ErrorContains(t, err, "CUDA_ERROR_NOT_FOUND")

		k, err := m.Kernel("add_int32")
		require.NoError(t, err)
		one := cudabuf.Dim3{X: 1}
		assert.ErrorContains(t, k.Launch(cudabuf.Dim3{}, one, 0, uintptr(0), int64(0), int32(0)), "CUDA_ERROR_INVALID_VALUE")
		assert.ErrorContains(t, k.Launch(one, one, 0, uintptr(0), 5, int32(0)), "argument 1: int is not a kernel argument")

		host, err := arrowbuf.CPU().Alloc(64)
		require.NoError(t, err)
		defer host.Release()
		assert.ErrorIs(t, k.Launch(one, one, 0, host, int64(1), int32(0)), arrowbuf.ErrDevice)

		gone := upload(t, dev, int32s(1))
		gone.Release()
		assert.ErrorIs(t, k.Launch(one, one, 0, gone, int64(1), int32(0)), arrowbuf.ErrReleased)
	})
}

func TestKernelAttributes(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		k := kernel(t, dev, "add_int32")
		assert.Equal(t, "add_int32", k.Name())
		a, err := k.Attributes()
		require.NoError(t, err)
		assert.Equal(t, 1024, a.MaxThreadsPerBlock)
		assert.Positive(t, a.Registers)
		assert.Zero(t, a.SharedBytes)
		active, err := k.ActiveBlocks(256, 0)
		require.NoError(t, err)
		assert.LessOrEqual(t, active*256, dev.Limits().MaxThreadsPerMultiprocessor)
		assert.Positive(t, active)
		one, err := k.ActiveBlocks(256, dev.Limits().SharedPerBlock)
		require.NoError(t, err)
		assert.Less(t, one, active, "shared memory limits the number of blocks")
		blocks, threads, err := k.BestBlock(0, 0)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, blocks, dev.Multiprocessors())
		assert.Zero(t, threads%32)
		_, limited, err := k.BestBlock(0, 128)
		require.NoError(t, err)
		assert.LessOrEqual(t, limited, 128)
		assert.Equal(t, 32, dev.Limits().WarpSize)
	})
}

func TestKernelKnowsItsParameters(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		k := kernel(t, dev, "add_int32")
		params, err := k.Parameters()
		require.NoError(t, err)
		assert.Equal(t, []cudabuf.Parameter{{Offset: 0, Size: 8}, {Offset: 8, Size: 8}, {Offset: 16, Size: 4}}, params)
	})
}

func TestLaunchWithOtherArgumentsThanParametersIsAnError(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		k := kernel(t, dev, "add_int32")
		b, err := dev.FromHost([]byte{1, 0, 0, 0})
		require.NoError(t, err)
		defer b.Release()
		for want, args := range map[string][]any{
			"got 2 arguments, want 3":          {b, int64(1)},
			"got 4 arguments, want 3":          {b, int64(1), int32(1), int32(1)},
			"argument 1: got 4 bytes, want 8":  {b, int32(1), int32(1)},
			"argument 2: got 12 bytes, want 4": {b, int64(1), make([]byte, 12)},
			"argument 0: got 4 bytes, want 8":  {float32(1), int64(1), int32(1)},
		} {
			err := k.Launch(cudabuf.Dim3{X: 1}, cudabuf.Dim3{X: 32}, 0, args...)
			require.ErrorIs(t, err, cudabuf.ErrArguments, want)
			assert.ErrorContains(t, err, want)
			assert.ErrorContains(t, err, "kernel add_int32")
		}
		got, err := b.Bytes()
		require.NoError(t, err)
		assert.Equal(t, []byte{1, 0, 0, 0}, got, "nothing ran")
	})
}

func TestSetMaxDynamicSharedRaisesLimit(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		k, b := kernel(t, dev, "add_int32"), newBuffer(t, dev, 4)
		require.NoError(t, b.Fill(0))
		much := uint32(dev.Limits().SharedPerBlock + 1024)
		launch := func() error {
			return k.Launch(cudabuf.Dim3{X: 1}, cudabuf.Dim3{X: 32}, much, b, int64(1), int32(1))
		}
		assert.Error(t, launch())
		require.NoError(t, k.SetMaxDynamicShared(int(much)))
		require.NoError(t, launch())
		assert.Equal(t, int32s(1), download(t, b))
		assert.Error(t, k.SetMaxDynamicShared(int(dev.Limits().SharedPerBlockOptin+1)))
	})
}

func TestProgramIsLoadedOncePerDevice(t *testing.T) {
	cudatest.ForEachDriver(t, 1, func(t *testing.T, d *cudabuf.Driver) {
		dev, err := d.Device(0)
		require.NoError(t, err)
		program := &cudabuf.Program{Image: addPTX, HostKernels: addHostKernels}
		a, err := dev.Kernel(program, "add_int32")
		require.NoError(t, err)
		b, err := dev.Kernel(program, "add_int32")
		require.NoError(t, err)
		assert.Same(t, a, b)
		asked := 0
		late := &cudabuf.Program{HostKernels: addHostKernels, ImageFor: func(major, minor int) ([]byte, error) {
			asked++
			wantMajor, wantMinor := dev.ComputeCapability()
			assert.Equal(t, [2]int{wantMajor, wantMinor}, [2]int{major, minor})
			return addPTX, nil
		}}
		for _, name := range []string{"add_int32", "store_args", "add_int32"} {
			_, err := dev.Kernel(late, name)
			require.NoError(t, err)
		}
		assert.Equal(t, 1, asked)
		_, err = dev.Kernel(&cudabuf.Program{ImageFor: func(int, int) ([]byte, error) { return nil, assert.AnError }}, "x")
		assert.ErrorIs(t, err, assert.AnError)
		_, err = dev.Kernel(program, "absent")
		assert.ErrorContains(t, err, "CUDA_ERROR_NOT_FOUND")
		_, err = dev.Kernel(&cudabuf.Program{}, "add_int32")
		assert.ErrorContains(t, err, "CUDA_ERROR_INVALID_IMAGE")
	})
}
