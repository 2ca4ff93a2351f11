package ndview_test

import (
	"bytes"
	"hash/crc32"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// betweens are the function of testdata/golden/half.py: each positive finite value
// of 16 bits, the middle to the next, and what lies close.
func betweens(wide []float64, infinity int) []float64 {
	cases := make([]float64, 8*infinity)
	for i := range infinity {
		low, high := wide[i], wide[i+1]
		if i == infinity-1 {
			high = 2*low - wide[i-1] // where the next value would be
		}
		middle, gap := (low+high)/2, high-low
		for j, x := range []float64{low, middle, middle - gap*0x1p-10, middle + gap*0x1p-10} {
			cases[j*infinity+i], cases[(4+j)*infinity+i] = x, -x
		}
	}
	return cases
}

// TestHalvesAreCastAsByNumPy casts all values of 16 bits, and a million to them.
func TestHalvesAreCastAsByNumPy(t *testing.T) {
	var golden map[string]uint32
	readGolden(t, "half.json", &golden)
	all := make([]uint16, 1<<16)
	for i := range all {
		all[i] = uint16(i)
	}
	scattered := make([]float32, 1<<20)
	for i := range scattered {
		scattered[i] = math.Float32frombits(uint32(i) * 2654435761)
	}
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		check := func(name string, a *ndview.NDBuffer, to ndview.DType) {
			t.Helper()
			cast, err := a.AsType(to, ndview.OrderC, ndview.CastUnsafe)
			own(t, cast, err)
			data, nan := oneNaN(to, elements(t, cast)), bytes.Repeat([]byte{0xff}, int(to.Size()))
			one := append([]byte{1}, make([]byte, to.Size()-1)...) // what the golden file counts NaNs as
			for i := 0; i < len(data); i += int(to.Size()) {
				if bytes.Equal(data[i:i+int(to.Size())], nan) {
					copy(data[i:], one)
				}
			}
			require.Contains(t, golden, name)
			assert.Equal(t, golden[name], crc32.ChecksumIEEE(data), name)
		}
		for _, f := range []struct {
			dtype    ndview.DType
			infinity int
			wide     func([]byte) []float64
		}{{ndview.Float16, 0x7c00, halves}, {ndview.BFloat16, 0x7f80, bfloats}} {
			name := f.dtype.String()
			check(name+" to float32", fromHost(t, dev, f.dtype, all, 1<<16), ndview.Float32)
			exact := betweens(f.wide(raw(all...)), f.infinity)
			between := make([]float32, len(exact))
			for i, x := range exact {
				between[i] = float32(x)
			}
			check("float32 to "+name+", between", fromHost(t, dev, ndview.Float32, between, int64(len(between))), f.dtype)
			check("float32 to "+name+", scattered", fromHost(t, dev, ndview.Float32, scattered, 1<<20), f.dtype)
			if f.dtype == ndview.Float16 {
				for i := range exact {
					exact[i] *= 1 + 0x1p-40
				}
				check("float64 to float16, between", fromHost(t, dev, ndview.Float64, exact, int64(len(exact))), f.dtype)
			}
		}
	})
}
