package cudabuf_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func forEachManaged(t *testing.T, test func(t *testing.T, d *cudabuf.Driver, dev *cudabuf.Device)) {
	cudatest.ForEachDriver(t, 1, func(t *testing.T, d *cudabuf.Driver) {
		dev, err := d.ManagedDevice(0)
		require.NoError(t, err)
		test(t, d, dev)
	})
}

func TestHostAndKernelsShareManagedMemory(t *testing.T) {
	forEachManaged(t, func(t *testing.T, d *cudabuf.Driver, dev *cudabuf.Device) {
		again, err := d.ManagedDevice(0)
		require.NoError(t, err)
		assert.Same(t, dev, again)
		assert.Equal(t, arrowbuf.DeviceCUDAManaged, dev.Type())
		assert.Equal(t, "cuda_managed:0", dev.String())
		const n = 1 << 20
		b, err := dev.NewBuffer(n * 4)
		require.NoError(t, err)
		defer b.Release()
		assert.True(t, b.HostAccessible())
		s, err := dev.NewStream(cudabuf.StreamOptions{})
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		for round := range int32(3) {
			require.NoError(t, b.FillAsync(0, s))
			require.NoError(t, kernel(t, dev, "add_int32").LaunchNAsync(s, n, b, int64(n), round+5))
			host := b.Arrow() // waits
			assert.True(t, arrowbuf.OnHost(host))
			assert.Equal(t, bytes.Repeat([]byte{byte(round + 5), 0, 0, 0}, n), host.Bytes())
			host.Bytes()[3] = 1
			one := make([]byte, 4)
			_, err = b.CopyToHost(one, 0)
			require.NoError(t, err)
			assert.Equal(t, []byte{byte(round + 5), 0, 0, 1}, one, "copies see what the host wrote")
			host.Release()
			require.NoError(t, b.Prefetch(arrowbuf.CPU()))
			require.NoError(t, b.Prefetch(dev))
		}
	})
}

func TestManagedAndOrdinaryMemoryAreCopiedToEachOther(t *testing.T) {
	forEachManaged(t, func(t *testing.T, d *cudabuf.Driver, managed *cudabuf.Device) {
		dev, err := d.Device(0)
		require.NoError(t, err)
		require.NotSame(t, dev, managed)
		data := bytes.Repeat([]byte("columns"), 100_000)
		there, err := dev.FromHost(data)
		require.NoError(t, err)
		defer there.Release()
		assert.False(t, there.HostAccessible())
		here, err := managed.CopyOf(there)
		require.NoError(t, err)
		defer here.Release()
		back, err := dev.CopyOf(here)
		require.NoError(t, err)
		defer back.Release()
		got, err := back.Bytes()
		require.NoError(t, err)
		assert.True(t, bytes.Equal(data, got))
		same, err := here.Equal(there)
		require.NoError(t, err)
		assert.True(t, same)
	})
}

func TestManagedMemoryIsLimitedToFreeMemory(t *testing.T) {
	forEachManaged(t, func(t *testing.T, _ *cudabuf.Driver, dev *cudabuf.Device) {
		free, total, err := dev.MemInfo()
		require.NoError(t, err)
		_, err = dev.NewBuffer(free + 1<<20)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory)
		assert.ErrorContains(t, err, "cuMemAllocManaged")
		b, err := dev.NewBuffer(64 << 20)
		require.NoError(t, err)
		defer b.Release()
		after, _, err := dev.MemInfo()
		require.NoError(t, err)
		assert.LessOrEqual(t, after, total-64<<20, "the pages are on the GPU")
	})
}

func TestManagedMemoryRefusesWhatItCannotDo(t *testing.T) {
	forEachManaged(t, func(t *testing.T, d *cudabuf.Driver, managed *cudabuf.Device) {
		for name, call := range map[string]func() error{
			"NewIPCBuffer":  func() error { _, err := managed.NewIPCBuffer(1); return err },
			"NewFDBuffer":   func() error { _, err := managed.NewFDBuffer(1); return err },
			"NewSharedPool": func() error { _, err := managed.NewSharedPool(); return err },
			"OpenIPC":       func() error { _, err := managed.OpenIPC(cudabuf.MemHandle{}); return err },
			"OpenFD":        func() error { _, err := managed.OpenFD(nil, cudabuf.Region{}); return err },
			"OpenPoolFD":    func() error { _, err := managed.OpenPoolFD(nil); return err },
			"StreamOrderedPool": func() error {
				_, err := managed.NewPool(cudabuf.PoolOptions{Kind: cudabuf.StreamOrderedPool})
				return err
			},
		} {
			err := call()
			assert.ErrorIs(t, err, errors.ErrUnsupported, name)
			assert.ErrorContains(t, err, "cuda_managed:0", name)
		}
		dev, err := d.Device(0)
		require.NoError(t, err)
		ordinary, err := dev.NewBuffer(64)
		require.NoError(t, err)
		defer ordinary.Release()
		assert.ErrorIs(t, ordinary.Prefetch(dev), errors.ErrUnsupported)
		_, err = managed.WrapExternal(ordinary.Address(), 64, nil)
		assert.ErrorIs(t, err, arrowbuf.ErrDevice)
		b, err := managed.NewBuffer(64)
		require.NoError(t, err)
		assert.ErrorIs(t, b.Prefetch(dev), arrowbuf.ErrDevice)
		wrapped, err := managed.WrapExternal(b.Address(), 64, nil)
		require.NoError(t, err)
		wrapped.Release()
		b.Release()
		assert.ErrorIs(t, b.Prefetch(managed), arrowbuf.ErrReleased)
	})
}

func TestEachKindOfPoolServesManagedMemory(t *testing.T) {
	for _, kind := range []cudabuf.PoolKind{cudabuf.CachingPool, cudabuf.DirectPool} {
		t.Run(kind.String(), func(t *testing.T) {
			forEachManaged(t, func(t *testing.T, _ *cudabuf.Driver, dev *cudabuf.Device) {
				p, err := dev.NewPool(cudabuf.PoolOptions{Kind: kind})
				require.NoError(t, err)
				defer func() { require.NoError(t, p.Close()) }()
				for range 3 {
					b, err := p.Alloc(1000)
					require.NoError(t, err)
					require.NoError(t, b.Fill(3))
					host := b.Arrow()
					assert.Equal(t, bytes.Repeat([]byte{3}, 1000), host.Bytes())
					host.Release()
					b.Release()
				}
			})
		})
	}
}

func TestFailedMoveOfManagedMemoryFreesIt(t *testing.T) {
	const notSupported = 801 // CUDA_ERROR_NOT_SUPPORTED
	for _, call := range []string{"cuMemAdvise", "cuMemPrefetchAsync"} {
		d := cudatest.Start(t, cudatest.Config{Fail: cudatest.FailNth(call, 1, notSupported)})
		dev, err := d.ManagedDevice(0)
		require.NoError(t, err)
		free, _, err := dev.MemInfo()
		require.NoError(t, err)
		_, err = dev.NewBuffer(10)
		assert.ErrorContains(t, err, call)
		after, _, err := dev.MemInfo()
		require.NoError(t, err)
		assert.Equal(t, free, after)
		b, err := dev.NewBuffer(10)
		require.NoError(t, err, "the device still works")
		b.Release()
	}
}
