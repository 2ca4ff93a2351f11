package reduce

import (
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Elements in whole vectors and the others after them are compared by their keys, which
// must not depend on where an element lies.
func TestKeysDoNotDependOnThePosition(t *testing.T) {
	for name, infinity := range map[string]uint16{"float16": 0x7c00, "bfloat16": 0x7f80} {
		for _, alike := range []bool{false, true} {
			for _, flip := range []uint64{0, 1 << 63} {
				x := make([]uint16, 1<<16)
				for i := range x {
					x[i] = uint16(i)
				}
				checkKeys(t, floatKeys[uint16, int16](infinity, alike), x, flip, name, alike)
			}
		}
	}
	var singles []uint32
	var doubles []uint64
	for _, v := range []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), math.SmallestNonzeroFloat32, -math.MaxFloat32} {
		singles = append(singles, math.Float32bits(float32(v)), math.Float32bits(float32(v))^1)
		doubles = append(doubles, math.Float64bits(v), math.Float64bits(v)^1)
	}
	for range 4 {
		singles, doubles = append(singles, singles...), append(doubles, doubles...)
	}
	for _, alike := range []bool{false, true} {
		for _, flip := range []uint64{0, 1 << 63} {
			checkKeys(t, floatKeys[uint32, int32](0x7f800000, alike), singles, flip, "float32", alike)
			checkKeys(t, floatKeys[uint64, int64](0x7ff0000000000000, alike), doubles, flip, "float64", alike)
		}
	}
}

// checkKeys compares keys of many elements with those of single ones.
func checkKeys[U unsigned, S signed](t *testing.T, k keyCodec[U, S], x []U, flip uint64, about ...any) {
	t.Helper()
	f := &Finish{Flip: flip}
	together, alone := make([]S, len(x)), make([]S, len(x))
	k.encode(together, x, f)
	for i := range x {
		k.encode(alone[i:i+1], x[i:i+1], f)
	}
	require.Equal(t, alone, together, "%v", about)
}

// A reduction over 32 elements and one more, which differs by the least amount.
func TestPositionsOfNeighbouringHalves(t *testing.T) {
	for name, flip := range map[string]uint64{"argmax": 0, "argmin": 1 << 63} {
		least := uint16(0x0008)
		if flip == 0 {
			least = 0x8008
		}
		x := make([]uint16, 33)
		for i := range x {
			x[i] = least + 1
		}
		x[32] = least
		p := &Plan{Outputs: 1, Length: 33, Stride: 2, OutSize: 8, Finish: Finish{Flip: flip}}
		out := int64(-1)
		Run(p, Reducers["argmax_f16"], unsafe.Pointer(&x[0]), unsafe.Pointer(&out))
		assert.Equal(t, int64(32), out, name)
	}
}
