package cudabuf_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func TestKernelTellsWhatItNeeds(t *testing.T) {
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
		assert.Less(t, one, active, "shared memory bounds it")
		blocks, threads, err := k.BestBlock(0, 0)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, blocks, dev.Multiprocessors())
		assert.Zero(t, threads%32)
		_, limited, err := k.BestBlock(0, 128)
		require.NoError(t, err)
		assert.LessOrEqual(t, limited, 128)
	})
}

func TestMuchSharedMemoryIsOptedInto(t *testing.T) {
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

func TestPointersIntoBuffers(t *testing.T) {
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

func TestLaunchingAllocatesNothing(t *testing.T) {
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
	// The soft driver itself allocates, a copy of the arguments among it.
	assert.LessOrEqual(t, full, bare+2, "buffers, numbers and structs cost nothing")
}

func TestAProgramIsLoadedOnceADevice(t *testing.T) {
	cudatest.ForEachDriver(t, 1, func(t *testing.T, d *cudabuf.Driver) {
		dev, err := d.Device(0)
		require.NoError(t, err)
		program := &cudabuf.Program{Image: addPTX, Twins: addTwins}
		a, err := dev.Kernel(program, "add_int32")
		require.NoError(t, err)
		b, err := dev.Kernel(program, "add_int32")
		require.NoError(t, err)
		assert.Same(t, a, b)
		asked := 0
		late := &cudabuf.Program{Twins: addTwins, ImageFor: func(major, minor int) ([]byte, error) {
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

func TestMemoryThatIsReleasedDuringALaunchStaysOrIsRefused(t *testing.T) {
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
		require.NoError(t, s.Synchronize(), "no kernel met memory that was gone")
		require.NoError(t, direct.Close())
	})
}
