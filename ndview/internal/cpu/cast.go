package cpu

import (
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/half"
	"github.com/quiver-gpu/quiver/ndview/internal/tick"
)

// Cast converts n contiguous elements to another type. The results are NumPy's, as
// kernels/elementwise/convert.cuh documents. dst and src must not overlap.
func Cast(dst, src unsafe.Pointer, n int64, to, from Type) {
	do := casts[from][to]
	if ShouldStream(n * (to.Size() + from.Size())) {
		do = castStreamed(do, to, from)
	}
	Parallel(n, grain/max(to.Size(), from.Size()), func(lo, hi int64) {
		do(unsafe.Add(dst, lo*to.Size()), unsafe.Add(src, lo*from.Size()), int(hi-lo))
	})
}

// castStreamed casts by way of cached blocks, which are written with non-temporal
// stores.
func castStreamed(do cast, to, from Type) cast {
	return func(dst, src unsafe.Pointer, n int) {
		block := streamBlockPool.Get().(*[StreamBlockBytes / 8]uint64)
		defer streamBlockPool.Put(block)
		items := min(StreamBlockBytes/int(to.Size()), 2*StreamBlockBytes/int(from.Size()))
		for i := 0; i < n; i += items {
			k := min(items, n-i)
			do(unsafe.Pointer(block), unsafe.Add(src, i*int(from.Size())), k)
			Stream(unsafe.Add(dst, i*int(to.Size())), unsafe.Pointer(block), int64(k)*to.Size())
		}
		StreamFence()
	}
}

// CastOne is Cast of one element.
func CastOne(dst, src unsafe.Pointer, to, from Type) { casts[from][to](dst, src, 1) }

// CastStrided casts the items of a walk, from src at w.Data to dst at w.Value.
func CastStrided(dst, src unsafe.Pointer, w *Walk, to, from Type) {
	do, last := casts[from][to], max(w.Axes-1, 0)
	in, out := w.Data[last], w.Value[last]
	gapless := in == from.Size() && out == to.Size()
	Parallel(w.Items, grain/max(to.Size(), from.Size()), func(lo, hi int64) {
		var r stridedBuffer
		w.rows(lo, hi, func(_, n int64, at Offset) {
			d, s := unsafe.Add(dst, at.Value), unsafe.Add(src, at.Data)
			if gapless {
				do(d, s, int(n))
			} else {
				r.cast(d, s, int(n), out, in, to, from)
			}
		})
	})
}

// blockItems is the number of elements between two steps of a cast.
const blockItems = 512

// stridedBuffer casts elements of a strided row by way of contiguous memory.
type stridedBuffer struct{ src, dst [blockItems][2]uint64 }

func (r *stridedBuffer) cast(dst, src unsafe.Pointer, n int, out, in int64, to, from Type) {
	s, d := unsafe.Pointer(&r.src), unsafe.Pointer(&r.dst)
	for i := 0; i < n; i += blockItems {
		k := min(n-i, blockItems)
		stridedCopies[from.Size()](s, unsafe.Add(src, int64(i)*in), k, from.Size(), in)
		casts[from][to](d, s, k)
		stridedCopies[to.Size()](unsafe.Add(dst, int64(i)*out), d, k, out, to.Size())
	}
}

// stridedCopies copy n elements of a size; out and in are the bytes between elements.
var stridedCopies = [...]func(dst, src unsafe.Pointer, n int, out, in int64){
	1: copyStrided[uint8], 2: copyStrided[uint16], 4: copyStrided[uint32], 8: copyStrided[uint64], 16: copyStrided[[2]uint64],
}

func copyStrided[T unit](dst, src unsafe.Pointer, n int, out, in int64) {
	for i := range int64(n) {
		*(*T)(unsafe.Add(dst, i*out)) = *(*T)(unsafe.Add(src, i*in))
	}
}

// cast converts n contiguous elements to another type.
type cast func(dst, src unsafe.Pointer, n int)

// casts are indexed by source and destination. Casts of 16-bit floats are composed of
// others.
var casts = newCasts(addAssembly)

func newCasts(addVectors func(table *[Types][Types]cast, odd map[Type]cast)) (table [Types][Types]cast) {
	table[Int8] = castsOfInteger[int8]()
	table[Uint8] = castsOfInteger[uint8]()
	table[Int16] = castsOfInteger[int16]()
	table[Uint16] = castsOfInteger[uint16]()
	table[Int32] = castsOfInteger[int32]()
	table[Uint32] = castsOfInteger[uint32]()
	table[Int64] = castsOfInteger[int64]()
	table[Uint64] = castsOfInteger[uint64]()
	table[Float32] = castsOfFloat[float32]()
	table[Float64] = castsOfFloat[float64]()
	table[Complex64] = castsOfComplex[float32]()
	table[Complex128] = castsOfComplex[float64]()
	table[Int8][Bool], table[Uint8][Bool] = bytesToBool, bytesToBool
	table[Float16][Bool], table[BFloat16][Bool] = halvesToBool, halvesToBool
	odd := map[Type]cast{
		Int32: roundToOddSingle[int32], Uint32: roundToOddSingle[uint32],
		Int64: roundToOddDouble[int64], Uint64: roundToOddDouble[uint64],
	}
	composeRealParts(&table)
	addVectors(&table, odd)

	truth := table[Uint8][Bool]
	table[Complex64][Float64] = compose(table[Complex64][Float32], table[Float32][Float64], Complex64, Float64)
	table[Complex64][Complex64], table[Complex64][Complex128] = castParts(table[Float32][Float32]), castParts(table[Float32][Float64])
	table[Complex128][Complex64], table[Complex128][Complex128] = castParts(table[Float64][Float32]), castParts(table[Float64][Float64])
	for _, from := range []Type{Int8, Uint8, Int16, Uint16, Int32, Uint32, Int64, Uint64, Float32, Complex64} {
		table[from][Float16] = compose(table[from][Float32], toFloat16, from, Float16)
	}
	table[Float32][Float16], table[Float64][Float16] = toFloat16, doubleToFloat16
	for _, from := range []Type{Int8, Uint8, Int16, Uint16, Complex64} {
		table[from][BFloat16] = compose(table[from][Float32], toBFloat16, from, BFloat16)
	}
	table[Float32][BFloat16], table[Float64][BFloat16] = toBFloat16, doubleToBFloat16
	table[Int32][BFloat16] = compose(odd[Int32], toBFloat16, Int32, BFloat16)
	table[Uint32][BFloat16] = compose(odd[Uint32], toBFloat16, Uint32, BFloat16)
	table[Int64][BFloat16] = compose(odd[Int64], doubleToBFloat16, Int64, BFloat16)
	table[Uint64][BFloat16] = compose(odd[Uint64], doubleToBFloat16, Uint64, BFloat16)
	table[Complex128][Float16] = compose(table[Complex128][Float64], doubleToFloat16, Complex128, Float16)
	table[Complex128][BFloat16] = compose(table[Complex128][Float64], doubleToBFloat16, Complex128, BFloat16)

	table[Float16][Float32], table[BFloat16][Float32] = fromFloat16, fromBFloat16
	for to := range Types {
		if to != Float32 && to != Bool {
			table[Float16][to] = compose(fromFloat16, table[Float32][to], Float16, to)
			table[BFloat16][to] = compose(fromBFloat16, table[Float32][to], BFloat16, to)
		}
		table[Bool][to] = fromBools(truth, table[Uint8][to], to)
	}
	table[Float16][Float64], table[BFloat16][Float64] = fromFloat16ToDouble, fromBFloat16ToDouble
	for _, from := range []Type{Float16, BFloat16} {
		table[from][Complex128] = compose(table[from][Float64], table[Float64][Complex128], from, Complex128)
	}
	table[Float16][Float16], table[BFloat16][BFloat16] = table[Uint16][Uint16], table[Uint16][Uint16]
	table[Bool][Bool], table[Bool][Uint8], table[Bool][Int8] = truth, truth, truth
	return table
}

// composeRealParts adds casts of complex numbers to integers, by way of their real
// parts.
func composeRealParts(table *[Types][Types]cast) {
	for to := Int8; to <= Uint64; to++ {
		table[Complex64][to] = compose(table[Complex64][Float32], table[Float32][to], Complex64, to)
		table[Complex128][to] = compose(table[Complex128][Float64], table[Float64][to], Complex128, to)
	}
}

var castBlockPool = sync.Pool{New: func() any { return new([blockItems]uint64) }}

// compose casts in two steps, block by block.
func compose(first, second cast, from, to Type) cast {
	return func(dst, src unsafe.Pointer, n int) {
		block := castBlockPool.Get().(*[blockItems]uint64)
		defer castBlockPool.Put(block)
		middle := unsafe.Pointer(block)
		for i := 0; i < n; i += blockItems {
			k := min(n-i, blockItems)
			first(middle, unsafe.Add(src, int64(i)*from.Size()), k)
			second(unsafe.Add(dst, int64(i)*to.Size()), middle, k)
		}
	}
}

// fromBools casts bools, any nonzero byte of which is true. Blocks of only 0 and 1 skip
// the first step.
func fromBools(truth, second cast, to Type) cast {
	made := compose(truth, second, Bool, to)
	return func(dst, src unsafe.Pointer, n int) {
		const items = 4 << 10
		for i := 0; i < n; i += items {
			d, s, k := unsafe.Add(dst, int64(i)*to.Size()), unsafe.Add(src, i), min(n-i, items)
			if atMost1(unsafe.Slice((*byte)(s), k)) {
				second(d, s, k)
			} else {
				made(d, s, k)
			}
		}
	}
}

// castParts casts complex numbers by a cast of their parts.
func castParts(do cast) cast {
	return func(dst, src unsafe.Pointer, n int) { do(dst, src, 2*n) }
}

func operands[D, S any](dst, src unsafe.Pointer, n int) ([]D, []S) {
	return unsafe.Slice((*D)(dst), n), unsafe.Slice((*S)(src), n)
}

func toFloat16(dst, src unsafe.Pointer, n int) {
	half.Float32sToFloat16s(operands[uint16, float32](dst, src, n))
}
func toBFloat16(dst, src unsafe.Pointer, n int) {
	half.Float32sToBFloat16s(operands[uint16, float32](dst, src, n))
}
func doubleToFloat16(dst, src unsafe.Pointer, n int) {
	half.Float64sToFloat16s(operands[uint16, float64](dst, src, n))
}
func doubleToBFloat16(dst, src unsafe.Pointer, n int) {
	half.Float64sToBFloat16s(operands[uint16, float64](dst, src, n))
}
func fromFloat16(dst, src unsafe.Pointer, n int) {
	half.Float16sToFloat32s(operands[float32, uint16](dst, src, n))
}
func fromBFloat16(dst, src unsafe.Pointer, n int) {
	half.BFloat16sToFloat32s(operands[float32, uint16](dst, src, n))
}
func fromFloat16ToDouble(dst, src unsafe.Pointer, n int) {
	half.Float16sToFloat64s(operands[float64, uint16](dst, src, n))
}
func fromBFloat16ToDouble(dst, src unsafe.Pointer, n int) {
	half.BFloat16sToFloat64s(operands[float64, uint16](dst, src, n))
}

type integer interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

type float interface{ float32 | float64 }

func castsOfInteger[S integer]() (to [Types]cast) {
	to[Bool] = toBool[S]
	to[Int8], to[Uint8] = convert[uint8, S], convert[uint8, S]
	to[Int16], to[Uint16] = convert[uint16, S], convert[uint16, S]
	to[Int32], to[Uint32] = convert[uint32, S], convert[uint32, S]
	to[Int64], to[Uint64] = convert[uint64, S], convert[uint64, S]
	for t := Int8; t <= Uint64; t++ {
		if t.Size() == int64(unsafe.Sizeof(*new(S))) {
			to[t] = sameBits[S]
		}
	}
	to[Float32], to[Float64] = convert[float32, S], convert[float64, S]
	to[Complex64], to[Complex128] = toComplex[float32, S], toComplex[float64, S]
	return to
}

func castsOfFloat[S float]() (to [Types]cast) {
	to[Bool] = toBool[S]
	to[Int8], to[Uint8] = truncate[uint8, S], truncate[uint8, S]
	to[Int16], to[Uint16] = truncate[uint16, S], truncate[uint16, S]
	to[Int32], to[Uint32] = truncate[uint32, S], truncateInt64[uint32, S]
	to[Int64], to[Uint64] = truncateInt64[uint64, S], truncateUint64[S]
	to[Float32], to[Float64] = convert[float32, S], convert[float64, S]
	to[Complex64], to[Complex128] = toComplex[float32, S], toComplex[float64, S]
	return to
}

func castsOfComplex[R float]() (to [Types]cast) {
	to[Bool] = complexToBool[R]
	to[Float32], to[Float64] = realPart[float32, R], realPart[float64, R]
	return to
}

func convert[D, S integer | float](dst, src unsafe.Pointer, n int) {
	d, s := operands[D, S](dst, src, n)
	for i, v := range s {
		d[i] = D(v)
	}
}

func sameBits[S any](dst, src unsafe.Pointer, n int) {
	d, s := operands[S, S](dst, src, n)
	copy(d, s)
}

func toComplex[R float, S integer | float](dst, src unsafe.Pointer, n int) {
	d, s := operands[[2]R, S](dst, src, n)
	for i, v := range s {
		d[i] = [2]R{R(v), 0}
	}
}

func realPart[D, R float](dst, src unsafe.Pointer, n int) {
	d, s := operands[D, [2]R](dst, src, n)
	for i := range s {
		d[i] = D(s[i][0])
	}
}

func toBool[S integer | float](dst, src unsafe.Pointer, n int) {
	d, s := operands[bool, S](dst, src, n)
	for i, v := range s {
		d[i] = v != 0
	}
}

func complexToBool[R float](dst, src unsafe.Pointer, n int) {
	d, s := operands[bool, [2]R](dst, src, n)
	for i := range s {
		d[i] = s[i][0] != 0 || s[i][1] != 0
	}
}

// halvesToBool is for both 16-bit floats: all but 0 and -0 are true.
func halvesToBool(dst, src unsafe.Pointer, n int) {
	d, s := operands[bool, uint16](dst, src, n)
	for i, v := range s {
		d[i] = v<<1 != 0
	}
}

// bytesToBool converts eight bytes at a time. A byte is nonzero if its highest bit is
// set, or if adding 127 to its other bits sets it.
func bytesToBool(dst, src unsafe.Pointer, n int) {
	d, s := operands[byte, byte](dst, src, n)
	const low = 0x7f7f7f7f7f7f7f7f
	i := 0
	for ; i+8 <= n; i += 8 {
		v := binary.LittleEndian.Uint64(s[i:])
		binary.LittleEndian.PutUint64(d[i:], (v&low+low|v)>>7&(low/0x7f))
	}
	for ; i < n; i++ {
		d[i] = min(s[i], 1)
	}
}

// The range is checked first, as Go's conversion of a float out of range depends on the
// processor. The results are those of x86 instructions on all processors.

// truncate converts to integers of up to 32 bits other than uint32: the low bits of an
// int32.
func truncate[D uint8 | uint16 | uint32, S float](dst, src unsafe.Pointer, n int) {
	d, s := operands[D, S](dst, src, n)
	for i, v := range s {
		t := int32(math.MinInt32)
		if v > -1<<31-1 && v < 1<<31 {
			t = int32(v)
		}
		d[i] = D(t)
	}
}

// truncateInt64 converts to int64 and uint32: the low bits of an int64.
func truncateInt64[D uint32 | uint64, S float](dst, src unsafe.Pointer, n int) {
	d, s := operands[D, S](dst, src, n)
	for i, v := range s {
		d[i] = D(toInt64(v))
	}
}

func truncateUint64[S float](dst, src unsafe.Pointer, n int) {
	d, s := operands[uint64, S](dst, src, n)
	for i, v := range s {
		if v >= 1<<63 {
			d[i] = uint64(toInt64(v-1<<63)) ^ 1<<63
		} else {
			d[i] = uint64(toInt64(v))
		}
	}
}

func toInt64[S float](v S) int64 {
	if v >= -1<<63 && v < 1<<63 {
		return int64(v)
	}
	return math.MinInt64
}

// roundToOddDouble rounds integers to odd: if a float64 cannot hold all bits, its last
// bit is set. Rounding the result again, to fewer bits, gives the result of a single
// rounding.
func roundToOddDouble[S int64 | uint64](dst, src unsafe.Pointer, n int) {
	d, s := operands[float64, S](dst, src, n)
	const lost = 1<<11 - 1
	for i, v := range s {
		if v>>53 != 0 && v>>53 != S(0)-1 && v&lost != 0 {
			v = v&^lost | 1<<11
		}
		d[i] = float64(v)
	}
}

// roundToOddSingle is roundToOddDouble for float32.
func roundToOddSingle[S int32 | uint32](dst, src unsafe.Pointer, n int) {
	d, s := operands[float32, S](dst, src, n)
	const lost = 1<<8 - 1
	for i, v := range s {
		if v>>24 != 0 && v>>24 != S(0)-1 && v&lost != 0 {
			v = v&^lost | 1<<8
		}
		d[i] = float32(v)
	}
}

// ConvertUnit converts n times to another unit. It sets *bad to 1 if an int64 cannot hold
// one.
func ConvertUnit(dst, src unsafe.Pointer, n int64, c *tick.Conversion, bad *uint32) {
	Parallel(n, grain/8, func(lo, hi int64) {
		from := unsafe.Slice((*int64)(src), n)[lo:hi]
		to := unsafe.Slice((*int64)(dst), n)[lo:hi]
		for i, v := range from {
			count, ok := c.Apply(v)
			if !ok {
				atomic.StoreUint32(bad, 1)
			}
			to[i] = count
		}
	})
}
