package cudabuf_test

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

//go:embed testdata/add.ptx
var addPTX []byte

var addTwins = map[string]cudabuf.HostKernel{
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
	m, err := dev.LoadModule(addPTX, addTwins)
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

func TestKernelAddsOnlyWithinItsCount(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		k := kernel(t, dev, "add_int32")
		b := upload(t, dev, int32s(1, 2, 3, -4, 5))
		defer b.Release()
		require.NoError(t, k.Launch(cudabuf.Dim3{X: 2}, cudabuf.Dim3{X: 4}, 0, b, int64(4), int32(-10)))
		assert.Equal(t, int32s(-9, -8, -7, -14, 5), download(t, b))

		part, err := b.Slice(16, 4)
		require.NoError(t, err)
		defer part.Release()
		require.NoError(t, k.Launch(cudabuf.Dim3{X: 1}, cudabuf.Dim3{X: 32}, 0, part, int64(1), int32(100)))
		require.NoError(t, k.Launch(cudabuf.Dim3{X: 1}, cudabuf.Dim3{X: 32}, 0, b.Address(), int64(1), int32(1000)))
		assert.Equal(t, int32s(991, -8, -7, -14, 105), download(t, b))
	})
}

func TestKernelGetsStructsByValue(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		k, b, s := kernel(t, dev, "sum_struct"), newBuffer(t, dev, 8), stream(t, dev)
		arg := make([]byte, 16)
		binary.LittleEndian.PutUint64(arg, 1<<40)
		binary.LittleEndian.PutUint32(arg[8:], 0xfffffffe) // -2
		sum := func(arg []byte) error {
			return k.LaunchAsync(s, cudabuf.Dim3{X: 1}, cudabuf.Dim3{X: 1}, 0, b, arg, int32(-3))
		}
		require.NoError(t, sum(arg))
		clear(arg)
		assert.Equal(t, uint64(1<<40-5), binary.LittleEndian.Uint64(download(t, b)), "the bytes are the caller's again")
		assert.Error(t, sum(nil))
		assert.Error(t, sum(make([]byte, 4097)))
	})
}

func TestKernelGetsArgumentsOfEveryWidth(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		k := kernel(t, dev, "store_args")
		b := upload(t, dev, make([]byte, 32))
		defer b.Release()
		require.NoError(t, k.Launch(cudabuf.Dim3{X: 1}, cudabuf.Dim3{X: 1}, 0, b,
			int32(-7), int64(math.MinInt64+3), float32(1.25), math.Pi))
		got := download(t, b)
		assert.Equal(t, int32(-7), int32(binary.LittleEndian.Uint32(got)))
		assert.Equal(t, int64(math.MinInt64+3), int64(binary.LittleEndian.Uint64(got[8:])))
		assert.Equal(t, float32(1.25), math.Float32frombits(binary.LittleEndian.Uint32(got[16:])))
		assert.Equal(t, math.Pi, math.Float64frombits(binary.LittleEndian.Uint64(got[24:])))
	})
}

func TestModuleErrorsSayWhatWasWrong(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		_, err := dev.LoadModule(nil, addTwins)
		assert.ErrorContains(t, err, "CUDA_ERROR_INVALID_IMAGE")

		m, err := dev.LoadModule(addPTX, addTwins)
		require.NoError(t, err)
		defer func() { assert.NoError(t, m.Close()) }()
		_, err = m.Kernel("subtract")
		assert.ErrorContains(t, err, "kernel subtract")
		assert.ErrorContains(t, err, "CUDA_ERROR_NOT_FOUND")

		k, err := m.Kernel("add_int32")
		require.NoError(t, err)
		one := cudabuf.Dim3{X: 1}
		assert.ErrorContains(t, k.Launch(cudabuf.Dim3{}, one, 0, uintptr(0), int64(0), int32(0)), "CUDA_ERROR_INVALID_VALUE")
		assert.ErrorContains(t, k.Launch(one, one, 0, uintptr(0), 5, int32(0)), "argument 1: int is no kernel argument")

		host, err := arrowbuf.CPU().Alloc(64)
		require.NoError(t, err)
		defer host.Release()
		assert.ErrorIs(t, k.Launch(one, one, 0, host, int64(1), int32(0)), arrowbuf.ErrDevice)

		gone := upload(t, dev, int32s(1))
		gone.Release()
		assert.ErrorIs(t, k.Launch(one, one, 0, gone, int64(1), int32(0)), arrowbuf.ErrReleased)
	})
}

func TestWildTwinFailsTheLaunchAndLosesTheDevice(t *testing.T) {
	one := cudabuf.Dim3{X: 1}
	tests := []struct {
		name string
		twin cudabuf.HostKernel
		want string
		lost bool
	}{
		{"beyond the allocation", func(l *cudabuf.HostLaunch) { l.Memory(l.Pointer(0), 1<<20) }, "CUDA_ERROR_ILLEGAL_ADDRESS", true},
		{"negative length", func(l *cudabuf.HostLaunch) { l.Memory(l.Pointer(0), -1) }, "CUDA_ERROR_ILLEGAL_ADDRESS", true},
		{"no device address", func(l *cudabuf.HostLaunch) { l.Memory(4096, 1) }, "CUDA_ERROR_ILLEGAL_ADDRESS", true},
		{"misaligned", func(l *cudabuf.HostLaunch) { cudabuf.Elements[int32](l, l.Pointer(0)+1, 1) }, "CUDA_ERROR_MISALIGNED_ADDRESS", true},
		{"through the raw address", func(l *cudabuf.HostLaunch) { foreign(l.Pointer(0), 1)[0]++ }, "CUDA_ERROR_ILLEGAL_ADDRESS", true},
		{"panic", func(*cudabuf.HostLaunch) { panic("boom") }, "boom", true},
		{"another type", func(l *cudabuf.HostLaunch) { l.Int32(1) }, "argument 1 is int64, the twin reads int32", false},
		{"missing argument", func(l *cudabuf.HostLaunch) { l.Int32(2) }, "the twin reads argument 2 of 2", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dev := cudatest.NewDevice(t)
			exact, err := dev.NewPool(cudabuf.PoolOptions{Kind: cudabuf.DirectPool}) // the driver knows each buffer's end
			require.NoError(t, err)
			require.NoError(t, dev.SetPool(exact))
			m, err := dev.LoadModule([]byte("image"), map[string]cudabuf.HostKernel{"k": tt.twin})
			require.NoError(t, err)
			k, err := m.Kernel("k")
			require.NoError(t, err)
			b := upload(t, dev, make([]byte, 64))
			defer b.Release()
			err = k.Launch(one, one, 0, b, int64(1))
			assert.ErrorContains(t, err, tt.want)
			assert.Equal(t, tt.lost, errors.Is(err, cudabuf.ErrDeviceLost))
			_, err = b.CopyToHost(make([]byte, 1), 0)
			assert.Equal(t, tt.lost, errors.Is(err, cudabuf.ErrDeviceLost))
		})
	}
}
