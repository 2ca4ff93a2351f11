// Package ndtest has what tests of arrays share: arrays and buffers of a test, which are
// released at its end, their bytes, and arrays of more than 2^32 elements.
package ndtest

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
)

// Own releases r when the test ends.
func Own[R interface{ Release() }](t testing.TB, r R, err error) R {
	t.Helper()
	require.NoError(t, err)
	t.Cleanup(r.Release)
	return r
}

// Upload returns a buffer on a device that holds the bytes.
func Upload(t testing.TB, dev arrowbuf.Device, data []byte) arrowbuf.Buffer {
	t.Helper()
	b, err := dev.Alloc(int64(len(data)))
	require.NoError(t, err)
	t.Cleanup(b.Release)
	_, err = b.CopyFromHost(data, 0)
	require.NoError(t, err)
	return b
}

// At returns a C-contiguous array over bytes of a buffer.
func At(t testing.TB, b arrowbuf.Buffer, dtype ndview.DType, offset int64, shape ...int64) *ndview.NDBuffer {
	t.Helper()
	a, err := ndview.FromBuffer(b, dtype, offset, shape, nil)
	return Own(t, a, err)
}

// FromHost returns an array whose elements have the bits of data, whose type need not
// be that of the elements: a float16 may be given as a uint16.
func FromHost[T ndview.Element](t testing.TB, dev arrowbuf.Device, dtype ndview.DType, data []T, shape ...int64) *ndview.NDBuffer {
	t.Helper()
	a, err := ndview.FromBytes(dev, dtype, BytesOf(data), shape...)
	return Own(t, a, err)
}

// OtherThan returns a device that is not dev.
func OtherThan(t testing.TB, dev arrowbuf.Device) arrowbuf.Device {
	t.Helper()
	if dev != arrowbuf.CPU() {
		return arrowbuf.CPU()
	}
	return cudatest.NewDevice(t)
}

// View registers the release of the view that a method returns.
func View(t *testing.T) func(a *ndview.NDBuffer, err error) *ndview.NDBuffer {
	return func(a *ndview.NDBuffer, err error) *ndview.NDBuffer {
		t.Helper()
		return Own(t, a, err)
	}
}

// HostOf returns the bits of an array's elements, see FromHost.
func HostOf[T ndview.Element](t testing.TB, a *ndview.NDBuffer) []T {
	t.Helper()
	data := make([]T, a.NBytes()/int64(unsafe.Sizeof(*new(T))))
	require.EqualValues(t, a.Size(), len(data))
	require.NoError(t, a.CopyToHost(BytesOf(data)))
	return data
}

// BytesOf returns the memory of a slice.
func BytesOf[T any](data []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), len(data)*int(unsafe.Sizeof(*new(T))))
}

// Download returns all bytes of a buffer.
func Download(t testing.TB, b arrowbuf.Buffer) []byte {
	t.Helper()
	data := make([]byte, b.Len())
	_, err := b.CopyToHost(data, 0)
	require.NoError(t, err)
	return data
}

// Elements returns an array's elements as bytes in C order.
func Elements(t testing.TB, a *ndview.NDBuffer) []byte {
	t.Helper()
	data := make([]byte, a.NBytes())
	require.NoError(t, a.CopyToHost(data))
	return data
}

// RequireBytes is require.Equal for large memory: it reports the first difference
// only.
func RequireBytes(t testing.TB, want, got []byte, about ...any) {
	t.Helper()
	require.Len(t, got, len(want), about...)
	for i := range want {
		if want[i] != got[i] {
			require.Failf(t, "bytes differ", "at %d of %d: want %#x, got %#x: %v", i, len(want), want[i], got[i], about)
		}
	}
}

// Raw returns the memory of the values as bytes.
func Raw[T any](values ...T) []byte {
	var b []byte
	for i := range values {
		b = append(b, unsafe.Slice((*byte)(unsafe.Pointer(&values[i])), unsafe.Sizeof(values[i]))...)
	}
	return b
}
