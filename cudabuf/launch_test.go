package cudabuf_test

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLaunchAcceptsPointersIntoBuffers(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		k, b := kernel(t, dev, "add_int32"), newBuffer(t, dev, 16)
		require.NoError(t, b.Fill(0))
		part, err := b.SliceClamped(8, 8)
		require.NoError(t, err)
		defer part.Release()
		add := func(arg any) error {
			return k.Launch(cudabuf.Dim3{X: 1}, cudabuf.Dim3{X: 32}, 0, arg, int64(1), int32(5))
		}
		require.NoError(t, add(cudabuf.InOut(b, 4)))
		require.NoError(t, add(cudabuf.InOut(part, -8)), "before a slice")
		assert.Equal(t, int32s(5, 5, 0, 0), download(t, b))
		for _, bad := range []cudabuf.Pointer{cudabuf.In(b, -1), cudabuf.In(b, 17), cudabuf.In(part, -9)} {
			assert.ErrorIs(t, add(bad), arrowbuf.ErrOutOfRange)
		}
		view, err := b.ReadOnly()
		require.NoError(t, err)
		defer view.Release()
		assert.ErrorIs(t, add(cudabuf.InOut(view, 0)), cudabuf.ErrReadOnly)
	})
}

func TestLaunchNRunsAtLeastNThreads(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		k := kernel(t, dev, "add_int32")
		const most = 3_000_001
		b := newBuffer(t, dev, 4*most)
		for _, n := range []int64{0, 1, 31, 32, 33, 1000, 5000, 300_000, most} {
			require.NoError(t, b.Fill(0))
			require.NoError(t, k.LaunchN(n, b, n, int32(3)))
			got := download(t, b)
			for i := range int64(most) {
				want := int32(0)
				if i < n {
					want = 3
				}
				if v := int32(binary.LittleEndian.Uint32(got[4*i:])); v != want {
					require.Equal(t, want, v, "element %d of %d", i, n)
				}
			}
		}
		s := stream(t, dev)
		require.NoError(t, k.LaunchNAsync(s, 100, b, int64(100), int32(4)))
		require.NoError(t, s.Synchronize())
		assert.Equal(t, int32s(7, 7), download(t, b)[99*4-4:][:8])
		for _, n := range []int64{-1, math.MaxInt64} {
			err := k.LaunchN(n, b, int64(1), int32(1))
			assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
			assert.ErrorContains(t, err, "kernel add_int32: cudabuf.Kernel.LaunchN: got ")
		}
		assert.ErrorContains(t, (*cudabuf.Kernel)(nil).LaunchN(1), "nil kernel")
		assert.ErrorContains(t, new(cudabuf.Kernel).LaunchNAsync(s, 1), "nil kernel")
	})
}

func TestLaunchNGivesEachMultiprocessorABlock(t *testing.T) {
	dev := cudatest.NewDevice(t)
	var grid, block uint32
	m, err := dev.LoadModule([]byte("image"), map[string]cudabuf.HostKernel{"sizes": func(l *cudabuf.HostLaunch) { grid, block = l.Grid.X, l.Block.X }})
	require.NoError(t, err)
	defer func() { assert.NoError(t, m.Close()) }()
	k, err := m.Kernel("sizes")
	require.NoError(t, err)
	_, best, err := k.BestBlock(0, 0)
	require.NoError(t, err)
	processors := int64(dev.Multiprocessors())
	for n, want := range map[int64][2]uint32{
		1: {1, 32}, 32 * processors: {uint32(processors), 32}, 33 * processors: {uint32(33*processors+63) / 64, 64},
		int64(best) * processors * 10: {uint32(processors * 10), uint32(best)},
	} {
		require.NoError(t, k.LaunchN(n))
		assert.Equal(t, want, [2]uint32{grid, block}, "%d threads", n)
	}
}

func TestLaunchAllocatesNothing(t *testing.T) {
	if underRace {
		t.Skip("the race detector lets a sync.Pool forget at random")
	}
	dev := cudatest.NewDevice(t)
	m, err := dev.LoadModule([]byte("image"), map[string]cudabuf.HostKernel{"nothing": func(*cudabuf.HostLaunch) {}})
	require.NoError(t, err)
	defer func() { assert.NoError(t, m.Close()) }()
	k, err := m.Kernel("nothing")
	require.NoError(t, err)
	s, b := stream(t, dev), newBuffer(t, dev, 64)
	bare := testing.AllocsPerRun(100, func() { _ = k.LaunchAsync(s, cudabuf.Dim3{X: 1}, cudabuf.Dim3{X: 32}, 0) })
	n, structure := int64(1<<40), [24]byte{}
	full := testing.AllocsPerRun(100, func() {
		n++
		_ = k.LaunchAsync(s, cudabuf.Dim3{X: 1}, cudabuf.Dim3{X: 32}, 0, b, cudabuf.In(b, 8), n, int32(n), float32(n), structure[:])
	})
	// The simulated driver allocates, for example a copy of the arguments.
	assert.LessOrEqual(t, full, bare+2, "buffers, numbers and structs allocate nothing")
}

func TestReleaseDuringLaunchIsSafe(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		k, s := kernel(t, dev, "add_int32"), stream(t, dev)
		direct, err := dev.NewPool(cudabuf.PoolOptions{Kind: cudabuf.DirectPool})
		require.NoError(t, err)
		for range 200 {
			b, err := direct.Alloc(4)
			require.NoError(t, err)
			released := make(chan struct{})
			go func() {
				b.Release()
				close(released)
			}()
			for range 3 {
				err := k.LaunchAsync(s, cudabuf.Dim3{X: 1}, cudabuf.Dim3{X: 32}, 0, b, int64(1), int32(1))
				if err != nil {
					require.ErrorIs(t, err, arrowbuf.ErrReleased)
				}
			}
			<-released
			err = k.LaunchAsync(s, cudabuf.Dim3{X: 1}, cudabuf.Dim3{X: 32}, 0, b, int64(1), int32(1))
			require.ErrorIs(t, err, arrowbuf.ErrReleased)
			assert.ErrorContains(t, err, "kernel add_int32: argument 0: cuda:0")
		}
		require.NoError(t, s.Synchronize(), "no kernel accessed freed memory")
		require.NoError(t, direct.Close())
	})
}

func TestLaunchRunsKernel(t *testing.T) {
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

func TestLaunchPassesStructsByValue(t *testing.T) {
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
		assert.Equal(t, uint64(1<<40-5), binary.LittleEndian.Uint64(download(t, b)), "the launch copied the bytes")
		assert.Error(t, sum(nil))
		assert.Error(t, sum(make([]byte, 4097)))
	})
}

func TestLaunchPassesEveryArgumentType(t *testing.T) {
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

		// Parameters of 4 and 8 bytes also take unsigned numbers, and an address is a buffer.
		m, err := dev.LoadModule(addPTX, map[string]cudabuf.HostKernel{"store_args": func(l *cudabuf.HostLaunch) {
			out := l.Memory(l.Pointer(0), 16)
			binary.LittleEndian.PutUint32(out, l.Uint32(1))
			binary.LittleEndian.PutUint64(out[8:], l.Uint64(2))
		}})
		require.NoError(t, err)
		defer func() { assert.NoError(t, m.Close()) }()
		k, err = m.Kernel("store_args")
		require.NoError(t, err)
		require.NoError(t, k.Launch(cudabuf.Dim3{X: 1}, cudabuf.Dim3{X: 1}, 0, b.Address(), uint32(math.MaxUint32-1), uint64(math.MaxUint64-2), float32(0), 0.0))
		got = download(t, b)
		assert.Equal(t, uint32(math.MaxUint32-1), binary.LittleEndian.Uint32(got))
		assert.Equal(t, uint64(math.MaxUint64-2), binary.LittleEndian.Uint64(got[8:]))
	})
}

func TestInvalidHostKernelFailsLaunch(t *testing.T) {
	one := cudabuf.Dim3{X: 1}
	tests := []struct {
		name   string
		kernel cudabuf.HostKernel
		want   string
		lost   bool
	}{
		{"beyond the allocation", func(l *cudabuf.HostLaunch) { l.Memory(l.Pointer(0), 1<<20) }, "CUDA_ERROR_ILLEGAL_ADDRESS", true},
		{"negative length", func(l *cudabuf.HostLaunch) { l.Memory(l.Pointer(0), -1) }, "CUDA_ERROR_ILLEGAL_ADDRESS", true},
		{"no device address", func(l *cudabuf.HostLaunch) { l.Memory(4096, 1) }, "CUDA_ERROR_ILLEGAL_ADDRESS", true},
		{"misaligned", func(l *cudabuf.HostLaunch) { cudabuf.Elements[int32](l, l.Pointer(0)+1, 1) }, "CUDA_ERROR_MISALIGNED_ADDRESS", true},
		{"through the raw address", func(l *cudabuf.HostLaunch) { bytesAt(l.Pointer(0), 1)[0]++ }, "CUDA_ERROR_ILLEGAL_ADDRESS", true},
		{"panic", func(*cudabuf.HostLaunch) { panic("boom") }, "boom", true},
		{"another type", func(l *cudabuf.HostLaunch) { l.Int32(1) }, `argument 1 is int64, the \w+( \w+)? reads int32`, false},
		{"missing argument", func(l *cudabuf.HostLaunch) { l.Int32(2) }, `the \w+( \w+)? reads argument 2 of 2`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dev := cudatest.NewDevice(t)
			exact, err := dev.NewPool(cudabuf.PoolOptions{Kind: cudabuf.DirectPool}) // so that the driver knows the end of each buffer
			require.NoError(t, err)
			require.NoError(t, dev.SetPool(exact))
			m, err := dev.LoadModule([]byte("image"), map[string]cudabuf.HostKernel{"k": tt.kernel})
			require.NoError(t, err)
			k, err := m.Kernel("k")
			require.NoError(t, err)
			b := upload(t, dev, make([]byte, 64))
			defer b.Release()
			err = k.Launch(one, one, 0, b, int64(1))
			require.Error(t, err)
			assert.Regexp(t, tt.want, err.Error())
			assert.Equal(t, tt.lost, errors.Is(err, cudabuf.ErrDeviceLost))
			_, err = b.CopyToHost(make([]byte, 1), 0)
			assert.Equal(t, tt.lost, errors.Is(err, cudabuf.ErrDeviceLost))
		})
	}
}
