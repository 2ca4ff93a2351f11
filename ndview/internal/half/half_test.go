package half_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview/internal/half"
)

// format is one of the two formats, with its parameters.
type format struct {
	name     string
	infinity uint16
	quiet    uint16
	widen    func(uint16) float32
	narrow   func(float32) uint16
	narrow64 func(float64) uint16
}

var formats = []format{
	{"float16", 0x7c00, 0x0200, half.Float16ToFloat32, half.Float32ToFloat16, half.Float64ToFloat16},
	{"bfloat16", 0x7f80, 0x0040, half.BFloat16ToFloat32, half.Float32ToBFloat16, half.Float64ToBFloat16},
}

func onFormats(t *testing.T, test func(t *testing.T, f format)) {
	for _, f := range formats {
		t.Run(f.name, func(t *testing.T) { test(t, f) })
	}
}

// between returns the inputs that testdata/golden/half.py generates.
func (f format) between() []float64 {
	n := int(f.infinity)
	cases := make([]float64, 8*n)
	for i := range n {
		low, high := float64(f.widen(uint16(i))), float64(f.widen(uint16(i+1)))
		if i == n-1 {
			high = 2*low - float64(f.widen(uint16(i-1)))
		}
		middle, gap := (low+high)/2, high-low
		for j, x := range []float64{low, middle, middle - gap*0x1p-10, middle + gap*0x1p-10} {
			cases[j*n+i], cases[(4+j)*n+i] = x, -x
		}
	}
	return cases
}

func isNaN16(f format, bits uint16) bool { return bits&0x7fff > f.infinity }

func checksum16(f format, values []uint16) uint32 {
	var raw bytes.Buffer
	for _, v := range values {
		if isNaN16(f, v) {
			v = 1
		}
		raw.Write(binary.LittleEndian.AppendUint16(nil, v))
	}
	return crc32.ChecksumIEEE(raw.Bytes())
}

func TestResultsMatchNumPy(t *testing.T) {
	text, err := os.ReadFile("../../testdata/golden/half.json")
	require.NoError(t, err)
	var golden map[string]uint32
	require.NoError(t, json.Unmarshal(text, &golden))
	require.Len(t, golden, 7)
	onFormats(t, func(t *testing.T, f format) {
		var wide bytes.Buffer
		for i := range 1 << 16 {
			bits := math.Float32bits(f.widen(uint16(i)))
			if bits&0x7fffffff > 0x7f800000 {
				bits = 1
			}
			wide.Write(binary.LittleEndian.AppendUint32(nil, bits))
		}
		assert.Equal(t, golden[f.name+" to float32"], crc32.ChecksumIEEE(wide.Bytes()))

		var between, scattered, nudged []uint16
		for _, x := range f.between() {
			between = append(between, f.narrow(float32(x)))
			nudged = append(nudged, f.narrow64(x*(1+0x1p-40)))
		}
		for i := range uint32(1 << 20) {
			scattered = append(scattered, f.narrow(math.Float32frombits(i*2654435761)))
		}
		assert.Equal(t, golden["float32 to "+f.name+", between"], checksum16(f, between))
		assert.Equal(t, golden["float32 to "+f.name+", scattered"], checksum16(f, scattered))
		if f.name == "float16" {
			assert.Equal(t, golden["float64 to float16, between"], checksum16(f, nudged))
		}
	})
}

// nearest is the definition of rounding: it returns the closer one of the two values
// around x or, if they are equally close, the one whose last bit is 0.
func nearest(f format, low uint16, x float64) uint16 {
	below, above := float64(f.widen(low)), float64(f.widen(low+1))
	if low+1 == f.infinity {
		above = 2*below - float64(f.widen(low-1))
	}
	switch d := (x - below) - (above - x); {
	case d < 0, d == 0 && low&1 == 0:
		return low
	default:
		return low + 1
	}
}

func TestRoundingIsToNearest(t *testing.T) {
	onFormats(t, func(t *testing.T, f format) {
		for low := range f.infinity {
			a, b := float64(f.widen(low)), float64(f.widen(low+1))
			if low+1 == f.infinity {
				b = 2*a - float64(f.widen(low-1))
			}
			middle := (a + b) / 2
			for _, x := range []float64{a, a + (b-a)/8, math.Nextafter(middle, a), middle, math.Nextafter(middle, b), b - (b-a)/8} {
				want := nearest(f, low, x)
				if f.narrow64(x) != want || f.narrow64(-x) != want|0x8000 || float64(float32(x)) == x && f.narrow(float32(x)) != want {
					require.Failf(t, "rounded wrong", "%x and its negative: want %#x, got %#x, %#x, %#x",
						x, want, f.narrow64(x), f.narrow64(-x), f.narrow(float32(x)))
				}
			}
		}
	})
}

func TestRoundTripIsExact(t *testing.T) {
	onFormats(t, func(t *testing.T, f format) {
		for i := range 1 << 16 {
			bits := uint16(i)
			want := bits
			if isNaN16(f, bits) {
				want |= f.quiet
			}
			if f.narrow(f.widen(bits)) != want || f.narrow64(float64(f.widen(bits))) != want {
				require.Failf(t, "changed", "%#04x: want %#04x, got %#04x, %#04x",
					bits, want, f.narrow(f.widen(bits)), f.narrow64(float64(f.widen(bits))))
			}
		}
	})
}

func TestNaNsKeepSignAndPayloadAndAreQuiet(t *testing.T) {
	assert.EqualValues(t, 0xfe91, half.Float32ToFloat16(math.Float32frombits(0xff923456)))
	assert.EqualValues(t, 0xffd2, half.Float32ToBFloat16(math.Float32frombits(0xff923456)))
	assert.EqualValues(t, 0x7e00, half.Float32ToFloat16(math.Float32frombits(0x7f800001)))
	assert.EqualValues(t, 0x7fc0, half.Float32ToBFloat16(math.Float32frombits(0x7f800001)))
	assert.EqualValues(t, 0x7fc02000, math.Float32bits(half.Float16ToFloat32(0x7c01)))
}

func TestSlicesMatchSingleValues(t *testing.T) {
	all := make([]uint16, 1<<16+7)
	for i := range all {
		all[i] = uint16(i)
	}
	var singles []float32
	var doubles []float64
	for i := range all {
		x := math.Float32frombits(uint32(i)<<16 | uint32(i*40503)&0xffff)
		singles, doubles = append(singles, x), append(doubles, float64(x)*(1+0x1p-30))
	}
	for _, f := range formats { // values that are hard to round
		for _, x := range f.between() {
			singles = append(singles, float32(x))
			doubles = append(doubles, x, math.Nextafter(x, 0), math.Nextafter(x, math.Inf(1)))
		}
	}
	doubles = append(doubles, math.NaN(), math.Float64frombits(0x7ff0000000000001), math.Float64frombits(0xfff8123456789abc))
	for n := range 20 { // all remainders after whole vectors
		check(t, all[n:], half.Float16sToFloat32s, half.Float16ToFloat32)
		check(t, all[:n], half.BFloat16sToFloat32s, half.BFloat16ToFloat32)
		check(t, singles[n:], half.Float32sToFloat16s, half.Float32ToFloat16)
		check(t, singles[:n], half.Float32sToBFloat16s, half.Float32ToBFloat16)
	}
	check(t, all, half.BFloat16sToFloat32s, half.BFloat16ToFloat32)
	check(t, all, half.Float16sToFloat64s, func(h uint16) float64 { return float64(half.Float16ToFloat32(h)) })
	check(t, all, half.BFloat16sToFloat64s, func(b uint16) float64 { return float64(half.BFloat16ToFloat32(b)) })
	check(t, singles, half.Float32sToFloat16s, half.Float32ToFloat16)
	check(t, singles, half.Float32sToBFloat16s, half.Float32ToBFloat16)
	check(t, doubles, half.Float64sToFloat16s, half.Float64ToFloat16)
	check(t, doubles, half.Float64sToBFloat16s, half.Float64ToBFloat16)
}

func check[T, F any](t *testing.T, src []F, slice func([]T, []F), one func(F) T) {
	t.Helper()
	got := make([]T, len(src))
	slice(got, src)
	for i, v := range src {
		if want := one(v); bitsOf(want) != bitsOf(got[i]) {
			t.Fatalf("element %d, %v: want %#x, got %#x", i, v, bitsOf(want), bitsOf(got[i]))
		}
	}
}

func bitsOf(v any) uint64 {
	switch v := v.(type) {
	case float64:
		return math.Float64bits(v)
	case float32:
		return uint64(math.Float32bits(v))
	case uint16:
		return uint64(v)
	default:
		panic(v)
	}
}

func BenchmarkHalf(b *testing.B) {
	const n = 1 << 16
	halves, singles, doubles := make([]uint16, n), make([]float32, n), make([]float64, n)
	for i := range n {
		halves[i], singles[i], doubles[i] = uint16(i), float32(i-n/2)/3, float64(i-n/2)/3
	}
	for _, c := range []struct {
		name string
		size int64
		run  func()
	}{
		{"Float16sToFloat32s", 6, func() { half.Float16sToFloat32s(singles, halves) }},
		{"Float16sToFloat64s", 10, func() { half.Float16sToFloat64s(doubles, halves) }},
		{"BFloat16sToFloat64s", 10, func() { half.BFloat16sToFloat64s(doubles, halves) }},
		{"Float32sToFloat16s", 6, func() { half.Float32sToFloat16s(halves, singles) }},
		{"Float64sToFloat16s", 10, func() { half.Float64sToFloat16s(halves, doubles) }},
		{"BFloat16sToFloat32s", 6, func() { half.BFloat16sToFloat32s(singles, halves) }},
		{"Float32sToBFloat16s", 6, func() { half.Float32sToBFloat16s(halves, singles) }},
		{"Float64sToBFloat16s", 10, func() { half.Float64sToBFloat16s(halves, doubles) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(c.size * n)
			for b.Loop() {
				c.run()
			}
		})
	}
}
