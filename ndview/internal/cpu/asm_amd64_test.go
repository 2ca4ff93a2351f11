//go:build !noasm

package cpu

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/cpu"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// The benchmarks of this file run each assembly function and its portable loop on the
// same data.

// benchAssembly runs f with the assembly for AVX2 and without. f processes that many bytes.
func benchAssembly(b *testing.B, name string, bytes int64, f func()) {
	for _, side := range []struct {
		name string
		asm  bool
	}{{"asm", true}, {"go", false}} {
		b.Run(name+"/"+side.name, func(b *testing.B) {
			defer func(avx2, list bool) { hasAVX2, hasListVectors = avx2, list }(hasAVX2, hasListVectors)
			if side.asm && !hasAVX2 {
				b.Skip("this processor has no AVX2")
			}
			hasAVX2, hasListVectors = hasAVX2 && side.asm, hasListVectors && side.asm
			b.SetBytes(bytes)
			for b.Loop() {
				f()
			}
		})
	}
}

// assemblyCasts are the casts in assembly, each with one pair of types that uses it. The
// portable loop is that of the types, unless a function is given.
var assemblyCasts = []struct {
	name     string
	blocks   cast
	from, to Type
	portable cast
}{
	{"i8to16", i8to16, Int8, Int16, nil},
	{"i8to32", i8to32, Int8, Int32, nil},
	{"i8to64", i8to64, Int8, Int64, nil},
	{"u8to16", u8to16, Uint8, Int16, nil},
	{"u8to32", u8to32, Uint8, Int32, nil},
	{"u8to64", u8to64, Uint8, Int64, nil},
	{"i16to32", i16to32, Int16, Int32, nil},
	{"i16to64", i16to64, Int16, Int64, nil},
	{"u16to32", u16to32, Uint16, Int32, nil},
	{"u16to64", u16to64, Uint16, Int64, nil},
	{"i32to64", i32to64, Int32, Int64, nil},
	{"u32to64", u32to64, Uint32, Int64, nil},
	{"n16to8", n16to8, Int16, Int8, nil},
	{"n32to8", n32to8, Int32, Int8, nil},
	{"n32to16", n32to16, Int32, Int16, nil},
	{"n64to8", n64to8, Int64, Int8, nil},
	{"n64to16", n64to16, Int64, Int16, nil},
	{"n64to32", n64to32, Int64, Int32, nil},
	{"floatTo8", floatTo8, Float32, Int8, nil},
	{"floatTo16", floatTo16, Float32, Int16, nil},
	{"doubleTo8", doubleTo8, Float64, Int8, nil},
	{"doubleTo16", doubleTo16, Float64, Int16, nil},
	{"truth8", truth8, Int8, Bool, nil},
	{"truth16", truth16, Int16, Bool, nil},
	{"truthHalf", truthHalf, Float16, Bool, nil},
	{"truth32", truth32, Int32, Bool, nil},
	{"truthFloat", truthFloat, Float32, Bool, nil},
	{"truth64", truth64, Int64, Bool, nil},
	{"truthDouble", truthDouble, Float64, Bool, nil},
	{"truthComplex", truthComplex, Complex64, Bool, nil},
	{"truthComplexDouble", truthComplexDouble, Complex128, Bool, nil},
	{"i32toFloat", i32toFloat, Int32, Float32, nil},
	{"i32toDouble", i32toDouble, Int32, Float64, nil},
	{"u32toFloat", u32toFloat, Uint32, Float32, nil},
	{"floatToI32", floatToI32, Float32, Int32, nil},
	{"floatToU32", floatToU32, Float32, Uint32, nil},
	{"floatToI64", floatToI64, Float32, Int64, nil},
	{"floatToDouble", floatToDouble, Float32, Float64, nil},
	{"doubleToI32", doubleToI32, Float64, Int32, nil},
	{"doubleToU32", doubleToU32, Float64, Uint32, nil},
	{"doubleToI64", doubleToI64, Float64, Int64, nil},
	{"floatToU64", floatToU64, Float32, Uint64, nil},
	{"doubleToU64", doubleToU64, Float64, Uint64, nil},
	{"n64to32Complex", n64to32, Complex64, Float32, nil},
	{"realDouble", realDouble, Complex128, Float64, nil},
	{"u32to64Complex", u32to64, Float32, Complex64, nil},
	{"doubleToComplex", doubleToComplex, Float64, Complex128, nil},
	{"doubleToFloat", doubleToFloat, Float64, Float32, nil},
	{"wideFloatToU32", wideFloatToU32, Float32, Uint32, nil},
	{"wideFloatToI64", wideFloatToI64, Float32, Int64, nil},
	{"wideFloatToU64", wideFloatToU64, Float32, Uint64, nil},
	{"wideDoubleToU32", wideDoubleToU32, Float64, Uint32, nil},
	{"wideDoubleToI64", wideDoubleToI64, Float64, Int64, nil},
	{"wideDoubleToU64", wideDoubleToU64, Float64, Uint64, nil},
	{"wideU32toDouble", wideU32toDouble, Uint32, Float64, nil},
	{"wideI64toFloat", wideI64toFloat, Int64, Float32, nil},
	{"wideI64toDouble", wideI64toDouble, Int64, Float64, nil},
	{"wideU64toFloat", wideU64toFloat, Uint64, Float32, nil},
	{"wideU64toDouble", wideU64toDouble, Uint64, Float64, nil},
	{"realTo32", realTo32, Complex64, Int32, nil},
	{"realDoubleTo32", realDoubleTo32, Complex128, Int32, nil},
	{"i8toFloat", i8toFloat, Int8, Float32, nil},
	{"i8toDouble", i8toDouble, Int8, Float64, nil},
	{"u8toFloat", u8toFloat, Uint8, Float32, nil},
	{"u8toDouble", u8toDouble, Uint8, Float64, nil},
	{"i16toFloat", i16toFloat, Int16, Float32, nil},
	{"i16toDouble", i16toDouble, Int16, Float64, nil},
	{"u16toFloat", u16toFloat, Uint16, Float32, nil},
	{"u16toDouble", u16toDouble, Uint16, Float64, nil},
	{"i8toComplex", i8toComplex, Int8, Complex64, nil},
	{"i8toComplexDouble", i8toComplexDouble, Int8, Complex128, nil},
	{"u8toComplex", u8toComplex, Uint8, Complex64, nil},
	{"u8toComplexDouble", u8toComplexDouble, Uint8, Complex128, nil},
	{"i16toComplex", i16toComplex, Int16, Complex64, nil},
	{"i16toComplexDouble", i16toComplexDouble, Int16, Complex128, nil},
	{"u16toComplex", u16toComplex, Uint16, Complex64, nil},
	{"u16toComplexDouble", u16toComplexDouble, Uint16, Complex128, nil},
	{"i32toComplex", i32toComplex, Int32, Complex64, nil},
	{"i32toComplexDouble", i32toComplexDouble, Int32, Complex128, nil},
	{"realTo8", realTo8, Complex64, Int8, nil},
	{"realTo16", realTo16, Complex64, Int16, nil},
	{"realDoubleTo8", realDoubleTo8, Complex128, Int8, nil},
	{"realDoubleTo16", realDoubleTo16, Complex128, Int16, nil},
	{"oddI32toFloat", oddI32toFloat, Int32, Float32, roundToOddSingle[int32]},
	{"oddU32toFloat", oddU32toFloat, Uint32, Float32, roundToOddSingle[uint32]},
	{"wideOddI64", wideOddI64, Int64, Float64, roundToOddDouble[int64]},
	{"wideOddU64", wideOddU64, Uint64, Float64, roundToOddDouble[uint64]},
}

func BenchmarkAssemblyCast(b *testing.B) {
	const n = 4 << 10 // the operands fit the second-level cache
	portable := newCasts(func(*[Types][Types]cast, map[Type]cast) {})
	src, dst := make([]uint64, 2*n), make([]uint64, 2*n)
	for _, c := range assemblyCasts {
		r := rand.New(rand.NewPCG(1, 2))
		for i := range src {
			src[i] = 0x4120000041200000 + uint64(r.Uint32N(1<<16)) // normal numbers as floats of any size
		}
		slow := c.portable
		if slow == nil {
			slow = portable[c.from][c.to]
		}
		bytes := n * (c.from.Size() + c.to.Size())
		b.Run(c.name+"/asm", func(b *testing.B) {
			wide := cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL
			if !cpu.X86.HasAVX2 || strings.HasPrefix(c.name, "wide") && !wide {
				b.Skip("this processor lacks the instructions")
			}
			b.SetBytes(bytes)
			for b.Loop() {
				c.blocks(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]), n/assemblyBlock)
			}
		})
		b.Run(c.name+"/go", func(b *testing.B) {
			b.SetBytes(bytes)
			for b.Loop() {
				slow(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]), n)
			}
		})
	}
}

// BenchmarkAssemblyReverse is for reverseBlocks.
func BenchmarkAssemblyReverse(b *testing.B) {
	const bytes = 32 << 10
	src, dst := make([]byte, bytes), make([]byte, bytes)
	for _, width := range []int64{1, 2, 4, 8} {
		l := line{bytes / width, width, -width}
		benchAssembly(b, fmt.Sprintf("reverseBlocks/width%d", width), 2*bytes, func() {
			copyUnits(width, unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[bytes-width]), l)
		})
	}
}

// BenchmarkAssemblyEveryNth is for takeEvery.
func BenchmarkAssemblyEveryNth(b *testing.B) {
	const bytes = 8 << 10
	for _, width := range []int64{1, 2} {
		for _, step := range []int64{2, 3, 4} {
			if step > maxEveryStep[width] {
				continue
			}
			src, dst := make([]byte, bytes*step), make([]byte, bytes)
			l := line{bytes / width, width, step * width}
			benchAssembly(b, fmt.Sprintf("takeEvery/width%d/step%d", width, step), bytes*(step+1), func() {
				copyUnits(width, unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]), l)
			})
		}
	}
}

// BenchmarkAssemblyStream is for streamLines: a copy that is larger than the caches, in
// one goroutine.
func BenchmarkAssemblyStream(b *testing.B) {
	n := 4 * minStreamed
	src, dst := make([]byte, n), make([]byte, n)
	b.Run("streamLines/asm", func(b *testing.B) {
		if !canStream {
			b.Skip("this processor has no AVX2")
		}
		b.SetBytes(2 * n)
		for b.Loop() {
			Stream(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]), n)
			StreamFence()
		}
	})
	b.Run("streamLines/go", func(b *testing.B) {
		b.SetBytes(2 * n)
		for b.Loop() {
			copyBytes(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]), n)
		}
	})
}

// BenchmarkAssemblySwapBytes is for swapVectors.
func BenchmarkAssemblySwapBytes(b *testing.B) {
	const n = 32 << 10
	src, dst := make([]byte, n), make([]byte, n)
	for _, size := range []int64{2, 4, 8} {
		benchAssembly(b, fmt.Sprintf("swapVectors/size%d", size), 2*n, func() {
			done := swapAssembly(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]), n, size)
			swapWords(dst[done:], src[done:], size)
		})
	}
}

// BenchmarkAssemblyMask is for countVectors, orVectors and listVectors.
func BenchmarkAssemblyMask(b *testing.B) {
	mask, counts := make([]byte, Tile), make([]uint32, 1)
	r := rand.New(rand.NewPCG(1, 2))
	for _, every := range []int{1, 2, 16, 256} {
		trues := 0
		for i := range mask {
			mask[i] = 0
			if r.IntN(every) == 0 {
				mask[i] = 1
				trues++
			}
		}
		name := fmt.Sprintf("1in%d", every)
		benchAssembly(b, "countVectors/"+name, Tile, func() { CountTiles(mask, counts) })
		benchAssembly(b, "orVectors/"+name, Tile, func() { atMost1(mask) })
		out := make([]uint64, trues)
		benchAssembly(b, "listVectors/"+name, Tile, func() { listTrue(mask, 0, out) })
	}
}

// BenchmarkAssemblyTranspose is for the functions of transpose_amd64.s: transposeBytes,
// transposeWords and transposeDwords by width, with copyRows, and copyRows alone. The array exceeds the caches.
func BenchmarkAssemblyTranspose(b *testing.B) {
	const side = 4096
	names := map[int64]string{1: "transposeBytes", 2: "transposeWords", 4: "transposeDwords"}
	for _, width := range []int64{1, 2, 4} {
		src, dst := make([]byte, side*side*width), make([]byte, side*side*width)
		n := layout.Nest{Shape: []int64{side, side}, Strides: [][]int64{{side * width, width}, {width, side * width}}, Offsets: []int64{0, 0}}
		for _, s := range []struct {
			name   string
			blocks [17]registerTranspose
		}{{"asm", registerTransposes}, {"go", goTransposes}} {
			b.Run(names[width]+"/"+s.name, func(b *testing.B) {
				defer func(before [17]registerTranspose) { registerTransposes = before }(registerTransposes)
				registerTransposes = s.blocks
				b.SetBytes(2 * side * side * width)
				for b.Loop() {
					Copy(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]), width, n)
				}
			})
		}
	}
	const step = 4096 // rows compete for the same cache sets
	from, to := make([]byte, cacheLine*64), make([]byte, step*64)
	b.Run("copyRows/asm", func(b *testing.B) {
		b.SetBytes(2 * cacheLine * 64)
		for b.Loop() {
			copyRows(unsafe.Pointer(&to[0]), step, unsafe.Pointer(&from[0]), 1, 64)
		}
	})
	b.Run("copyRows/go", func(b *testing.B) {
		b.SetBytes(2 * cacheLine * 64)
		for b.Loop() {
			for i := range int64(64) {
				copyBytes(unsafe.Pointer(&to[i*step]), unsafe.Pointer(&from[i*cacheLine]), cacheLine)
			}
		}
	})
}
