package cudabuf_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
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

// download returns what a buffer holds.
func download(t testing.TB, b arrowbuf.Buffer) []byte {
	t.Helper()
	data := make([]byte, b.Len())
	n, err := b.CopyToHost(data, 0)
	require.NoError(t, err)
	require.EqualValues(t, len(data), n)
	return data
}

// pattern returns n bytes that tell places apart: they do not repeat.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(uint32(i) * 2654435761 >> 24)
	}
	return b
}

// assertBytes says where long contents differ first, rather than printing them.
func assertBytes(t testing.TB, want, got []byte) {
	t.Helper()
	if !assert.Len(t, got, len(want)) {
		return
	}
	for i := range want {
		if want[i] != got[i] {
			assert.Failf(t, "contents differ", "byte %d of %d is %#x, not %#x", i, len(want), got[i], want[i])
			return
		}
	}
}

// foreign makes a slice of an address that Go does not own.
func foreign(address uintptr, n int) []byte {
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), n)
}

// sliceArrow slices an arrow buffer and gives the caller's reference to the
// slice.
func sliceArrow(b *memory.Buffer, offset, length int) *memory.Buffer {
	s := memory.SliceBuffer(b, offset, length)
	if b.Parent() != nil {
		b.Release()
	}
	return s
}

// counted returns a soft device and how many driver calls it has seen.
func counted(t testing.TB) (*cudabuf.Device, func() int64) {
	t.Helper()
	var calls atomic.Int64
	d := cudatest.Start(t, cudatest.Config{Fail: func(string, int) cudabuf.Result { calls.Add(1); return 0 }})
	dev, err := d.Device(0)
	require.NoError(t, err)
	return dev, calls.Load
}

// failing returns a soft device, and a function that makes the next call of a
// name fail.
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
