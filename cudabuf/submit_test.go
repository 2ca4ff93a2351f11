package cudabuf_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stream opens a stream that closes with the test.
func stream(t testing.TB, dev *cudabuf.Device) *cudabuf.Stream {
	t.Helper()
	s, err := dev.NewStream(cudabuf.StreamOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// newBuffer is released with the test.
func newBuffer(t testing.TB, dev *cudabuf.Device, n int64) *cudabuf.Buffer {
	t.Helper()
	b, err := dev.NewBuffer(n)
	require.NoError(t, err)
	t.Cleanup(b.Release)
	return b
}

// recorded returns a soft device and a function that tells which calls that
// order streams it has seen since the last time.
func recorded(t *testing.T) (*cudabuf.Device, func() string) {
	t.Helper()
	short := map[string]string{
		"cuEventRecord": "record", "cuStreamWaitEvent": "wait", "cuStreamSynchronize": "synchronize",
		"cuMemcpyHtoDAsync": "h2d", "cuMemcpyDtoHAsync": "d2h", "cuMemcpyDtoDAsync": "d2d", "cuMemsetD8Async": "fill",
		"cuMemcpyPeerAsync": "peer",
	}
	var mu sync.Mutex
	var calls []string
	d := cudatest.Start(t, cudatest.Config{Devices: 1, Fail: func(call string, _ int) cudabuf.Result {
		mu.Lock()
		defer mu.Unlock()
		if name, ok := short[call]; ok {
			calls = append(calls, name)
		}
		return 0
	}})
	dev, err := d.Device(0)
	require.NoError(t, err)
	return dev, func() string {
		mu.Lock()
		defer mu.Unlock()
		seen := strings.Join(calls, " ")
		calls = nil
		return seen
	}
}

// The hazards of two streams s and t, and what each costs. pygpu's V3 and V4
// are among them; V4, a read of another stream that is forgotten, is the one
// that pygpu gets wrong.
func TestStreamsWaitForEachOtherWhereTheyMustAndOnlyThere(t *testing.T) {
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
		"one stream pays nothing":        {{write(s), "fill"}, {read(s), "d2h"}, {move(s), "d2d"}, {write(s), "fill"}, {write(s), "fill"}},
		"read after write":               {{write(s), "fill"}, {read(u), "record wait d2h"}, {read(u), "d2h"}},
		"write after write":              {{write(s), "fill"}, {write(u), "record wait fill"}, {write(u), "fill"}},
		"write after read":               {{read(s), "d2h"}, {write(u), "record wait fill"}},
		"reads do not wait":              {{read(s), "d2h"}, {read(u), "d2h"}, {move(s), "d2d"}},
		"the read of V4 is remembered":   {{move(s), "d2d"}, {read(u), "d2h"}, {write(u), "record wait fill"}},
		"each reader is waited for":      {{write(s), "fill"}, {read(u), "record wait d2h"}, {write(s), "record wait fill"}, {read(s), "d2h"}},
		"a new write is waited for anew": {{write(s), "fill"}, {read(u), "record wait d2h"}, {write(s), "record wait fill"}, {read(u), "record wait d2h"}},
		"the second buffer counts":       {{move(s), "d2d"}, {func(_, b *cudabuf.Buffer, _, t *cudabuf.Stream) error { return b.FillAsync(1, t) }, "record wait fill"}},
		"no stream waits too, then owes": {{write(s), "fill"}, {fillSync, "record wait fill synchronize"}, {write(u), "fill"}},
	} {
		t.Run(name, func(t *testing.T) {
			dev, calls := recorded(t)
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

// Random work on random streams must give what the same work gives in order.
func TestWorkOnManyStreamsGivesWhatWorkInOrderGives(t *testing.T) {
	cudatest.ForEachDriver(t, 1, func(t *testing.T, d *cudabuf.Driver) {
		dev, err := d.Device(0)
		require.NoError(t, err)
		size := 1 << 12
		if cudatest.OnGPU() {
			size = 1 << 20 // long enough for the streams to overlap
		}
		shuffleWork(t, []*cudabuf.Device{dev}, size)
	})
}

func TestWorkAcrossDevicesGivesWhatWorkInOrderGives(t *testing.T) {
	cudatest.ForEachDriver(t, 2, func(t *testing.T, d *cudabuf.Driver) {
		shuffleWork(t, twoDevices(t, d), 1<<16)
	})
}

func twoDevices(t *testing.T, d *cudabuf.Driver) []*cudabuf.Device {
	t.Helper()
	all := make([]*cudabuf.Device, 2)
	for i := range all {
		var err error
		all[i], err = d.Device(i)
		require.NoError(t, err)
	}
	return all
}

func shuffleWork(t *testing.T, devs []*cudabuf.Device, size int) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	type place struct {
		buffer *cudabuf.Buffer
		want   []byte
		kernel *cudabuf.Kernel
	}
	var places []*place
	streams := map[*cudabuf.Device][]*cudabuf.Stream{}
	for _, dev := range devs {
		k := kernel(t, dev, "add_int32")
		for range 3 {
			b := newBuffer(t, dev, int64(size))
			require.NoError(t, b.Fill(0))
			places = append(places, &place{b, make([]byte, size), k})
			streams[dev] = append(streams[dev], stream(t, dev))
		}
	}
	for range 400 {
		p, other := places[random.IntN(len(places))], places[random.IntN(len(places))]
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
		case 3: // memory that is gone before its work is done
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
	for i, p := range places {
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
	dev, calls := recorded(t)
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

func TestAStreamOfAnotherDeviceIsRefused(t *testing.T) {
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

func TestWhereADriverWantsAContextItGetsOne(t *testing.T) {
	dev, fail := failing(t)
	k, s, b := kernel(t, dev, "add_int32"), stream(t, dev), newBuffer(t, dev, 4)
	require.NoError(t, b.FillAsync(0, s))
	dev.SetContextless(true)
	launch := func() error {
		return k.LaunchAsync(s, cudabuf.Dim3{X: 1}, cudabuf.Dim3{X: 32}, 0, b, int64(1), int32(5))
	}
	fail("cuLaunchKernel", 2)
	assert.ErrorIs(t, launch(), arrowbuf.ErrOutOfMemory)
	assert.True(t, dev.Contextless(), "that is no want of a context")
	fail("cuLaunchKernel", 201)
	require.NoError(t, launch())
	assert.False(t, dev.Contextless(), "and it is remembered")
	assert.Equal(t, int32s(5), download(t, b))
}

func TestUsesAreLockedInOneOrderAndOnceEach(t *testing.T) {
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
			got, writing := cudabuf.InOrder(ids, write)
			require.Equal(t, slices.Compact(want), got)
			for i, id := range got {
				require.Equal(t, wantWriting[id], writing[i])
			}
		}
	}
}

func TestWaitCoversAllThatUsesTheMemory(t *testing.T) {
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
		require.NoError(t, s.Do(func() { <-gate; idle.Store(true) }))
		require.NoError(t, part.FillAsync(7, s))
		close(gate)
		require.NoError(t, b.Wait(), "the whole waits for work on its part")
		assert.True(t, idle.Load())
		done, err := s.Done()
		require.NoError(t, err)
		assert.True(t, done)
	})
}
