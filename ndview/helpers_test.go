package ndview_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// poison fills memory that must not be written.
const poison = 0xa5

// empty returns an array of zeros.
func empty(t *testing.T, dev arrowbuf.Device, dtype ndview.DType, shape ...int64) *ndview.NDBuffer {
	t.Helper()
	a, err := ndview.Zeros(dev, dtype, shape...)
	return ndtest.Own(t, a, err)
}

// index is a.Index for tests.
func index(t testing.TB, a *ndview.NDBuffer, keys ...ndview.Key) *ndview.NDBuffer {
	t.Helper()
	v, err := a.Index(keys...)
	return ndtest.Own(t, v, err)
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
