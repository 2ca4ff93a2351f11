package cpu

import (
	"sync"
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/half"
)

// Cast writes n elements of one type as elements of another; neither has gaps.
// Values are NumPy's, as kernels/convert.cuh says. The two do not overlap.
func Cast(dst, src unsafe.Pointer, n int64, to, from Type) {
	do := casts[from][to]
	if Streams(n * (to.Size() + from.Size())) {
		do = castStreamed(do, to, from)
	}
	Parallel(n, grain/max(to.Size(), from.Size()), func(lo, hi int64) {
		do(unsafe.Add(dst, lo*to.Size()), unsafe.Add(src, lo*from.Size()), int(hi-lo))
	})
}

// castStreamed casts by way of blocks that are streamed.
func castStreamed(do cast, to, from Type) cast {
	return func(dst, src unsafe.Pointer, n int) {
		block := streamBlocks.Get().(*[StreamBlock / 8]uint64)
		defer streamBlocks.Put(block)
		items := min(StreamBlock/int(to.Size()), 2*StreamBlock/int(from.Size()))
		for i := 0; i < n; i += items {
			k := min(items, n-i)
			do(unsafe.Pointer(block), unsafe.Add(src, i*int(from.Size())), k)
			Stream(unsafe.Add(dst, i*int(to.Size())), unsafe.Pointer(block), int64(k)*to.Size())
		}
		StreamEnd()
	}
}

// CastOne is Cast of one element.
func CastOne(dst, src unsafe.Pointer, to, from Type) { casts[from][to](dst, src, 1) }

// CastWalk casts the items of a walk, from its Data of src to its Value of dst.
func CastWalk(dst, src unsafe.Pointer, w *Walk, to, from Type) {
	do, last := casts[from][to], max(w.Axes-1, 0)
	in, out := w.Data[last], w.Value[last]
	gapless := in == from.Size() && out == to.Size()
	Parallel(w.Items, grain/max(to.Size(), from.Size()), func(lo, hi int64) {
		var r castRow
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

// blockItems is how many elements lie between two steps of a cast at a time.
const blockItems = 512

// castRow is where elements of a row lie together that lie apart in memory.
type castRow struct{ src, dst [blockItems][2]uint64 }

func (r *castRow) cast(dst, src unsafe.Pointer, n int, out, in int64, to, from Type) {
	s, d := unsafe.Pointer(&r.src), unsafe.Pointer(&r.dst)
	for i := 0; i < n; i += blockItems {
		k := min(n-i, blockItems)
		moves[from.Size()](s, unsafe.Add(src, int64(i)*in), k, from.Size(), in)
		casts[from][to](d, s, k)
		moves[to.Size()](unsafe.Add(dst, int64(i)*out), d, k, out, to.Size())
	}
}

// moves copies n elements, which are bytes apart on either side.
var moves = [...]func(dst, src unsafe.Pointer, n int, out, in int64){
	1: move[uint8], 2: move[uint16], 4: move[uint32], 8: move[uint64], 16: move[[2]uint64],
}

func move[T unit](dst, src unsafe.Pointer, n int, out, in int64) {
	for i := range int64(n) {
		*(*T)(unsafe.Add(dst, i*out)) = *(*T)(unsafe.Add(src, i*in))
	}
}

// cast writes n elements of src as elements of another type.
type cast func(dst, src unsafe.Pointer, n int)

// casts are by source and target. The 16-bit floats go through the others.
var casts = newCasts(addVectors)

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
		Int32: oddSingles[int32], Uint32: oddSingles[uint32],
		Int64: oddDoubles[int64], Uint64: oddDoubles[uint64],
	}
	composeReals(&table)
	addVectors(&table, odd)

	truth := table[Uint8][Bool]
	table[Complex64][Float64] = compose(table[Complex64][Float32], table[Float32][Float64], Complex64, Float64)
	table[Complex64][Complex64], table[Complex64][Complex128] = parts(table[Float32][Float32]), parts(table[Float32][Float64])
	table[Complex128][Complex64], table[Complex128][Complex128] = parts(table[Float64][Float32]), parts(table[Float64][Float64])
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

// composeReals casts complex numbers to integers as their real parts.
func composeReals(table *[Types][Types]cast) {
	for to := Int8; to <= Uint64; to++ {
		table[Complex64][to] = compose(table[Complex64][Float32], table[Float32][to], Complex64, to)
		table[Complex128][to] = compose(table[Complex128][Float64], table[Float64][to], Complex128, to)
	}
}

var castBlocks = sync.Pool{New: func() any { return new([blockItems]uint64) }}

// compose casts in two steps, block by block.
func compose(first, second cast, from, to Type) cast {
	return func(dst, src unsafe.Pointer, n int) {
		block := castBlocks.Get().(*[blockItems]uint64)
		defer castBlocks.Put(block)
		middle := unsafe.Pointer(block)
		for i := 0; i < n; i += blockItems {
			k := min(n-i, blockItems)
			first(middle, unsafe.Add(src, int64(i)*from.Size()), k)
			second(unsafe.Add(dst, int64(i)*to.Size()), middle, k)
		}
	}
}

// fromBools casts bools as bytes, of which any that is not 0 is true: as they are
// where all are 0 or 1.
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

// parts casts complex numbers by a cast of their parts.
func parts(do cast) cast {
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
