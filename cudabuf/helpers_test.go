package cudabuf_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// upload returns a buffer on a device that holds the bytes.
func upload(t testing.TB, dev arrowbuf.Device, data []byte) arrowbuf.Buffer {
	t.Helper()
	b, err := dev.Alloc(int64(len(data)))
	require.NoError(t, err)
	n, err := b.CopyFromHost(data, 0)
	require.NoError(t, err)
	require.EqualValues(t, len(data), n)
	return b
}

// download returns the contents of a buffer.
func download(t testing.TB, b arrowbuf.Buffer) []byte {
	t.Helper()
	data := make([]byte, b.Len())
	n, err := b.CopyToHost(data, 0)
	require.NoError(t, err)
	require.EqualValues(t, len(data), n)
	return data
}

// pattern returns n bytes that do not repeat, so that each position is recognizable.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(uint32(i) * 2654435761 >> 24)
	}
	return b
}

// assertBytes reports the first difference instead of printing long contents.
func assertBytes(t testing.TB, want, got []byte) {
	t.Helper()
	if !assert.Len(t, got, len(want)) {
		return
	}
	for i := range want {
		if want[i] != got[i] {
			assert.Failf(t, "contents differ", "byte %d of %d: got %#x, want %#x", i, len(want), got[i], want[i])
			return
		}
	}
}

// bytesAt returns a slice of memory that Go does not own.
func bytesAt(address uintptr, n int) []byte {
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), n)
}

// sliceArrow slices an arrow buffer and transfers the caller's reference to the slice.
func sliceArrow(b *memory.Buffer, offset, length int) *memory.Buffer {
	s := memory.SliceBuffer(b, offset, length)
	if b.Parent() != nil {
		b.Release()
	}
	return s
}

// countAllCalls returns a simulated device and the number of its driver calls so far.
func countAllCalls(t testing.TB) (*cudabuf.Device, func() int64) {
	t.Helper()
	var calls atomic.Int64
	d := cudatest.Start(t, cudatest.Config{Fail: func(string, int) cudabuf.Result { calls.Add(1); return 0 }})
	dev, err := d.Device(0)
	require.NoError(t, err)
	return dev, calls.Load
}

// failing returns a simulated device and a function that makes the next call of a name
// fail.
func failing(t testing.TB) (dev *cudabuf.Device, fail func(call string, r cudabuf.Result)) {
	t.Helper()
	var mu sync.Mutex
	pending := map[string]cudabuf.Result{}
	dev, err := cudatest.Start(t, cudatest.Config{Fail: func(call string, _ int) cudabuf.Result {
		mu.Lock()
		defer mu.Unlock()
		r := pending[call]
		delete(pending, call)
		return r
	}}).Device(0)
	require.NoError(t, err)
	return dev, func(call string, r cudabuf.Result) {
		mu.Lock()
		defer mu.Unlock()
		pending[call] = r
	}
}

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func device(t testing.TB, d *cudabuf.Driver, ordinal int) *cudabuf.Device {
	t.Helper()
	dev, err := d.Device(ordinal)
	require.NoError(t, err)
	return dev
}

// gate blocks a stream until open is called or the test ends.
func gate(t *testing.T, s *cudabuf.Stream) (open func()) {
	t.Helper()
	closed := make(chan struct{})
	open = sync.OnceFunc(func() { close(closed) })
	t.Cleanup(open)
	require.NoError(t, s.LaunchHostFunc(func() { <-closed }))
	return open
}

// countCalls returns a simulated device and a function that returns the number of calls
// of a name since it was last asked for.
func countCalls(t *testing.T) (dev *cudabuf.Device, calls func(name string) int) {
	t.Helper()
	var mu sync.Mutex
	seen := map[string]int{}
	dev = device(t, cudatest.Start(t, cudatest.Config{Fail: func(call string, _ int) cudabuf.Result {
		mu.Lock()
		defer mu.Unlock()
		seen[call]++
		return 0
	}}), 0)
	return dev, func(name string) int {
		mu.Lock()
		defer mu.Unlock()
		n := seen[name]
		delete(seen, name)
		return n
	}
}

// stream returns a stream that is closed at the end of the test.
func stream(t testing.TB, dev *cudabuf.Device) *cudabuf.Stream {
	t.Helper()
	s, err := dev.NewStream(cudabuf.StreamOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// newBuffer returns a buffer that is released at the end of the test.
func newBuffer(t testing.TB, dev *cudabuf.Device, n int64) *cudabuf.Buffer {
	t.Helper()
	b, err := dev.NewBuffer(n)
	require.NoError(t, err)
	t.Cleanup(b.Release)
	return b
}

// recordCalls returns a simulated device and a function that returns the calls that order
// streams since its last call.
func recordCalls(t *testing.T) (*cudabuf.Device, func() string) {
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
