package ndview_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// poison fills memory that must not be written.
const poison = 0xa5

// onDevices runs a test on the CPU and on each kind of CUDA device, and checks that it
// leaks no device memory. On a real GPU the kernels run, on the simulated device their
// host implementations.
func onDevices(t *testing.T, test func(t *testing.T, dev arrowbuf.Device)) {
	t.Helper()
	t.Run("cpu", func(t *testing.T) { test(t, arrowbuf.CPU()) })
	onCUDA(t, func(t *testing.T, dev *cudabuf.Device) { test(t, dev) })
}

// onCUDA runs a test on each kind of CUDA device.
func onCUDA(t *testing.T, test func(t *testing.T, dev *cudabuf.Device)) {
	t.Helper()
	cudatest.ForEachDevice(t, test)
}

// otherThan returns a device that is not dev.
func otherThan(t *testing.T, dev arrowbuf.Device) arrowbuf.Device {
	t.Helper()
	if dev != arrowbuf.CPU() {
		return arrowbuf.CPU()
	}
	return cudatest.NewDevice(t)
}

// releaser is an array or buffer. Cleanups of a test run before the check for leaks,
// which is registered earlier.
type releaser interface{ Release() }

// own releases r when the test ends.
func own[R releaser](t testing.TB, r R, err error) R {
	t.Helper()
	require.NoError(t, err)
	t.Cleanup(r.Release)
	return r
}

// upload returns a buffer on a device that holds the bytes.
func upload(t testing.TB, dev arrowbuf.Device, data []byte) arrowbuf.Buffer {
	t.Helper()
	b, err := dev.Alloc(int64(len(data)))
	require.NoError(t, err)
	t.Cleanup(b.Release)
	_, err = b.CopyFromHost(data, 0)
	require.NoError(t, err)
	return b
}

// at returns a C-contiguous array over bytes of a buffer.
func at(t testing.TB, b arrowbuf.Buffer, dtype ndview.DType, offset int64, shape ...int64) *ndview.NDBuffer {
	t.Helper()
	a, err := ndview.FromBuffer(b, dtype, offset, shape, nil)
	return own(t, a, err)
}

// fromHost returns an array whose elements have the bits of data, whose type need not
// be that of the elements: a float16 may be given as a uint16.
func fromHost[T ndview.Element](t testing.TB, dev arrowbuf.Device, dtype ndview.DType, data []T, shape ...int64) *ndview.NDBuffer {
	t.Helper()
	a, err := ndview.FromBytes(dev, dtype, bytesOf(data), shape...)
	return own(t, a, err)
}

// empty returns an array of zeros.
func empty(t *testing.T, dev arrowbuf.Device, dtype ndview.DType, shape ...int64) *ndview.NDBuffer {
	t.Helper()
	a, err := ndview.Zeros(dev, dtype, shape...)
	return own(t, a, err)
}

// index is a.Index for tests.
func index(t testing.TB, a *ndview.NDBuffer, keys ...ndview.Key) *ndview.NDBuffer {
	t.Helper()
	v, err := a.Index(keys...)
	return own(t, v, err)
}

// view registers the release of the view that a method returns.
func view(t *testing.T) func(a *ndview.NDBuffer, err error) *ndview.NDBuffer {
	return func(a *ndview.NDBuffer, err error) *ndview.NDBuffer {
		t.Helper()
		return own(t, a, err)
	}
}

// hostOf returns the bits of an array's elements, see fromHost.
func hostOf[T ndview.Element](t testing.TB, a *ndview.NDBuffer) []T {
	t.Helper()
	data := make([]T, a.NBytes()/int64(unsafe.Sizeof(*new(T))))
	require.EqualValues(t, a.Size(), len(data))
	require.NoError(t, a.CopyToHost(bytesOf(data)))
	return data
}

// bytesOf returns the memory of a slice.
func bytesOf[T any](data []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), len(data)*int(unsafe.Sizeof(*new(T))))
}

// download returns all bytes of a buffer.
func download(t testing.TB, b arrowbuf.Buffer) []byte {
	t.Helper()
	data := make([]byte, b.Len())
	_, err := b.CopyToHost(data, 0)
	require.NoError(t, err)
	return data
}

// elements returns an array's elements as bytes in C order.
func elements(t testing.TB, a *ndview.NDBuffer) []byte {
	t.Helper()
	data := make([]byte, a.NBytes())
	require.NoError(t, a.CopyToHost(data))
	return data
}

// requireBytes is require.Equal for large memory: it reports the first difference
// only.
func requireBytes(t testing.TB, want, got []byte, about ...any) {
	t.Helper()
	require.Len(t, got, len(want), about...)
	for i := range want {
		if want[i] != got[i] {
			require.Failf(t, "bytes differ", "at %d of %d: want %#x, got %#x: %v", i, len(want), want[i], got[i], about)
		}
	}
}

// raw returns the memory of the values as bytes.
func raw[T any](values ...T) []byte {
	var b []byte
	for i := range values {
		b = append(b, unsafe.Slice((*byte)(unsafe.Pointer(&values[i])), unsafe.Sizeof(values[i]))...)
	}
	return b
}

// poisoned returns n bytes of poison.
func poisoned(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = poison
	}
	return b
}

// randomBytes returns n random bytes.
func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// repeat returns n elements that repeat those of raw.
func repeat(raw []byte, size, n int64) []byte {
	out := make([]byte, 0, n*size+int64(len(raw)))
	for int64(len(out)) < n*size {
		out = append(out, raw...)
	}
	return out[:n*size]
}

// count returns n values 0, 1, 2, ... as int32.
func count(n int64) []int32 {
	values := make([]int32, n)
	for i := range values {
		values[i] = int32(i)
	}
	return values
}

// permute calls visit with each order of n axes.
func permute(n int, visit func([]int)) {
	var from func(order []int)
	from = func(order []int) {
		if len(order) == n {
			visit(order)
			return
		}
		for i := range n {
			if !slices.Contains(order, i) {
				from(append(slices.Clip(order), i))
			}
		}
	}
	from(nil)
}

// numpyType parses NumPy's name of a type; an empty name is the zero DType.
func numpyType(t testing.TB, s string) ndview.DType {
	t.Helper()
	if s == "" {
		return ndview.DType{}
	}
	dtype, _, err := ndview.ParseDType(s)
	require.NoError(t, err)
	return dtype
}

// assertAlive checks whether a device holds memory.
func assertAlive(t *testing.T, dev arrowbuf.Device, alive bool) {
	t.Helper()
	if cuda, ok := dev.(*cudabuf.Device); ok {
		assert.Equal(t, alive, cuda.MemoryStats().InUse > 0, "device memory in use")
	}
}

var (
	negativeZero = math.Copysign(0, -1)
	nan          = math.NaN()
	seconds      = ndview.Datetime64(ndview.Second, 1)
)
