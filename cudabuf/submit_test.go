package cudabuf_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The hazards between two streams and the driver calls that each costs. V3 and V4 are the
// names in docs/pygpu.md. V4 is a read on another stream, which pygpu forgets.
func TestStreamsWaitOnlyForHazards(t *testing.T) {
	host := make([]byte, 64)
	type step struct {
		do   func(a, b *cudabuf.Buffer, s, t *cudabuf.Stream) error
		want string
	}
	read := func(on int) func(a, b *cudabuf.Buffer, s, t *cudabuf.Stream) error {
		return func(a, _ *cudabuf.Buffer, s, t *cudabuf.Stream) error {
			_, err := a.CopyToHostAsync(host, 0, []*cudabuf.Stream{s, t}[on])
			return err
		}
	}
	write := func(on int) func(a, b *cudabuf.Buffer, s, t *cudabuf.Stream) error {
		return func(a, _ *cudabuf.Buffer, s, t *cudabuf.Stream) error {
			return a.FillAsync(1, []*cudabuf.Stream{s, t}[on])
		}
	}
	move := func(on int) func(a, b *cudabuf.Buffer, s, t *cudabuf.Stream) error {
		return func(a, b *cudabuf.Buffer, s, t *cudabuf.Stream) error {
			_, err := b.CopyFromDeviceAsync(a, 0, []*cudabuf.Stream{s, t}[on])
			return err
		}
	}
	fillSync := func(a, _ *cudabuf.Buffer, _, _ *cudabuf.Stream) error { return a.Fill(2) }
	const s, u = 0, 1
	for name, steps := range map[string][]step{
		"one stream costs nothing":                    {{write(s), "fill"}, {read(s), "d2h"}, {move(s), "d2d"}, {write(s), "fill"}, {write(s), "fill"}},
		"read after write":                            {{write(s), "fill"}, {read(u), "record wait d2h"}, {read(u), "d2h"}},
		"write after write":                           {{write(s), "fill"}, {write(u), "record wait fill"}, {write(u), "fill"}},
		"write after read":                            {{read(s), "d2h"}, {write(u), "record wait fill"}},
		"reads do not wait":                           {{read(s), "d2h"}, {read(u), "d2h"}, {move(s), "d2d"}},
		"the read of V4 is remembered":                {{move(s), "d2d"}, {read(u), "d2h"}, {write(u), "record wait fill"}},
		"each reader is waited for":                   {{write(s), "fill"}, {read(u), "record wait d2h"}, {write(s), "record wait fill"}, {read(s), "d2h"}},
		"a new write is waited for again":             {{write(s), "fill"}, {read(u), "record wait d2h"}, {write(s), "record wait fill"}, {read(u), "record wait d2h"}},
		"the second buffer counts":                    {{move(s), "d2d"}, {func(_, b *cudabuf.Buffer, _, t *cudabuf.Stream) error { return b.FillAsync(1, t) }, "record wait fill"}},
		"work without a stream waits and is complete": {{write(s), "fill"}, {fillSync, "record wait fill synchronize"}, {write(u), "fill"}},
	} {
		t.Run(name, func(t *testing.T) {
			dev, calls := recordCalls(t)
			a, b := newBuffer(t, dev, 64), newBuffer(t, dev, 64)
			one, two := stream(t, dev), stream(t, dev)
			calls()
			for i, step := range steps {
				require.NoError(t, step.do(a, b, one, two))
				assert.Equal(t, step.want, calls(), "step %d", i)
			}
		})
	}
}

// Random work on random streams must have the same result as the same work in order.
func TestConcurrentWorkMatchesSerialWork(t *testing.T) {
	cudatest.ForEachDriver(t, 1, func(t *testing.T, d *cudabuf.Driver) {
		dev, err := d.Device(0)
		require.NoError(t, err)
		size := 1 << 12
		if cudatest.OnGPU() {
			size = 1 << 20 // large enough for the streams to overlap
		}
		runRandomWork(t, []*cudabuf.Device{dev}, size)
	})
}

func TestWorkAcrossDevicesMatchesSerialWork(t *testing.T) {
	cudatest.ForEachDriver(t, 2, func(t *testing.T, d *cudabuf.Driver) {
		runRandomWork(t, twoDevices(t, d), 1<<16)
	})
}

func runRandomWork(t *testing.T, devs []*cudabuf.Device, size int) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	type target struct {
		buffer *cudabuf.Buffer
		want   []byte
		kernel *cudabuf.Kernel
	}
	var targets []*target
	streams := map[*cudabuf.Device][]*cudabuf.Stream{}
	for _, dev := range devs {
		k := kernel(t, dev, "add_int32")
		for range 3 {
			b := newBuffer(t, dev, int64(size))
			require.NoError(t, b.Fill(0))
			targets = append(targets, &target{b, make([]byte, size), k})
			streams[dev] = append(streams[dev], stream(t, dev))
		}
	}
	for range 400 {
		p, other := targets[random.IntN(len(targets))], targets[random.IntN(len(targets))]
		dev := p.buffer.Device().(*cudabuf.Device)
		s := streams[dev][random.IntN(3)]
		at := random.IntN(size/8) * 4
		switch random.IntN(6) {
		case 0:
			require.NoError(t, p.buffer.FillAsync(byte(at), s))
			copy(p.want, bytes.Repeat([]byte{byte(at)}, size))
		case 1:
			half, err := other.buffer.SliceClamped(int64(at), int64(size/2))
			require.NoError(t, err)
			_, err = p.buffer.CopyFromDeviceAsync(half, 0, s)
			require.NoError(t, err)
			half.Release()
			copy(p.want, bytes.Clone(other.want[at:at+size/2]))
		case 2:
			require.NoError(t, p.kernel.LaunchAsync(s, cudabuf.Dim3{X: uint32(size/4/256 + 1)}, cudabuf.Dim3{X: 256}, 0, p.buffer, int64(size/4), int32(at)))
			for i := 0; i < size; i += 4 {
				binary.LittleEndian.PutUint32(p.want[i:], binary.LittleEndian.Uint32(p.want[i:])+uint32(at))
			}
		case 3: // memory that is released before its work is done
			b, err := dev.NewBuffer(int64(size))
			require.NoError(t, err)
			require.NoError(t, b.FillAsync(byte(at+1), s))
			_, err = p.buffer.CopyFromDeviceAsync(b, 0, s)
			require.NoError(t, err)
			b.Release()
			copy(p.want, bytes.Repeat([]byte{byte(at + 1)}, size))
		case 4:
			_, err := p.buffer.CopyFromDevice(other.buffer, 0)
			require.NoError(t, err)
			copy(p.want, other.want)
		case 5:
			assertBytes(t, p.want, download(t, p.buffer))
		}
	}
	for i, p := range targets {
		got, err := p.buffer.Bytes()
		require.NoError(t, err)
		assert.True(t, bytes.Equal(p.want, got), "buffer %d", i)
	}
}

func TestMemoryIsNotReusedBeforeItsWorkIsDone(t *testing.T) {
	d := cudatest.Start(t, cudatest.Config{CopyLatency: 20 * time.Millisecond})
	dev, err := d.Device(0)
	require.NoError(t, err)
	s := stream(t, dev)
	kept := newBuffer(t, dev, 1<<16)
	src, err := dev.FromHost(bytes.Repeat([]byte{7}, 1<<16))
	require.NoError(t, err)
	_, err = kept.CopyFromDeviceAsync(src, 0, s)
	require.NoError(t, err)
	src.Release()
	next := newBuffer(t, dev, 1<<16) // may be the same memory
	require.NoError(t, next.Fill(9))
	assertBytes(t, bytes.Repeat([]byte{7}, 1<<16), download(t, kept))
}

func TestReadOnlyArgumentsDoNotOrderKernels(t *testing.T) {
	dev, calls := recordCalls(t)
	k, b := kernel(t, dev, "store_args"), newBuffer(t, dev, 32)
	one, two := stream(t, dev), stream(t, dev)
	view, err := b.ReadOnly()
	require.NoError(t, err)
	defer view.Release()
	launch := func(s *cudabuf.Stream, arg any) {
		require.NoError(t, k.LaunchAsync(s, cudabuf.Dim3{X: 1}, cudabuf.Dim3{X: 1}, 0, arg, int32(0), int64(0), float32(0), 0.0))
	}
	calls()
	launch(one, cudabuf.In(b, 0))
	launch(two, cudabuf.In(b, 0))
	launch(one, view)
	assert.Empty(t, calls(), "readers do not wait")
	launch(two, b)
	assert.Equal(t, "record wait", calls(), "a writer does")
	launch(two, cudabuf.InOut(b, 0))
	assert.Empty(t, calls())
}

func TestStreamOfAnotherDeviceIsRefused(t *testing.T) {
	cudatest.ForEachDriver(t, 2, func(t *testing.T, d *cudabuf.Driver) {
		devs := twoDevices(t, d)
		b, s := newBuffer(t, devs[0], 8), stream(t, devs[1])
		for name, do := range map[string]func() error{
			"copy in":  func() error { _, err := b.CopyFromHostAsync(make([]byte, 8), 0, s); return err },
			"copy out": func() error { _, err := b.CopyToHostAsync(make([]byte, 8), 0, s); return err },
			"fill":     func() error { return b.FillAsync(0, s) },
		} {
			assert.ErrorContains(t, do(), fmt.Sprintf("stream on the wrong device: got %v, want %v", devs[1], devs[0]), name)
		}
	})
}

func TestSubmitSetsContextWhenDriverNeedsIt(t *testing.T) {
	dev, fail := failing(t)
	k, s, b := kernel(t, dev, "add_int32"), stream(t, dev), newBuffer(t, dev, 4)
	require.NoError(t, b.FillAsync(0, s))
	dev.SetSubmitsWithoutContext(true)
	launch := func() error {
		return k.LaunchAsync(s, cudabuf.Dim3{X: 1}, cudabuf.Dim3{X: 32}, 0, b, int64(1), int32(5))
	}
	fail("cuLaunchKernel", 2)
	assert.ErrorIs(t, launch(), arrowbuf.ErrOutOfMemory)
	assert.True(t, dev.SubmitsWithoutContext(), "another error does not mean a missing context")
	fail("cuLaunchKernel", 201)
	require.NoError(t, launch())
	assert.False(t, dev.SubmitsWithoutContext(), "the missing context is remembered")
	assert.Equal(t, int32s(5), download(t, b))
}

func TestSortAndMergeAccesses(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 40 {
		for range 20 {
			ids, write := make([]uint64, n), make([]bool, n)
			var want []uint64
			wantWriting := map[uint64]bool{}
			for i := range ids {
				ids[i], write[i] = random.Uint64N(20), random.IntN(4) == 0
				want = append(want, ids[i])
				wantWriting[ids[i]] = wantWriting[ids[i]] || write[i]
			}
			slices.Sort(want)
			got, writing := cudabuf.SortAndMerge(ids, write)
			require.Equal(t, slices.Compact(want), got)
			for i, id := range got {
				require.Equal(t, wantWriting[id], writing[i])
			}
		}
	}
}

func TestWaitCoversSlices(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		s, err := dev.NewStream(cudabuf.StreamOptions{})
		require.NoError(t, err)
		defer func() { assert.NoError(t, s.Close()) }()
		b := upload(t, dev, pattern(64)).(*cudabuf.Buffer)
		defer b.Release()
		part, err := b.SliceClamped(32, 32)
		require.NoError(t, err)
		defer part.Release()
		gate, idle := make(chan struct{}), atomic.Bool{}
		require.NoError(t, s.LaunchHostFunc(func() { <-gate; idle.Store(true) }))
		require.NoError(t, part.FillAsync(7, s))
		close(gate)
		require.NoError(t, b.Wait(), "the whole waits for work on its part")
		assert.True(t, idle.Load())
		done, err := s.Done()
		require.NoError(t, err)
		assert.True(t, done)
	})
}
