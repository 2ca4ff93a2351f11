//go:build !noasm

package reduce

import (
	"math"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// hasAVX2 reports whether the AVX2 assembly is used. The functions below process whole
// blocks, and return the number of elements processed: 0 without assembly.
var hasAVX2 = cpu.X86.HasAVX2

// hasAVX512 reports whether the AVX-512 assembly is used, too.
var hasAVX512 = cpu.X86.HasAVX512F

// wholeBlocks returns the number of blocks of that many bytes in x, and their number of
// elements. It returns 0 without assembly.
func wholeBlocks[T any](x []T, bytes int) (n, elements int) {
	var element T
	each := bytes / int(unsafe.Sizeof(element))
	if !hasAVX2 {
		return 0, 0
	}
	return len(x) / each, len(x) / each * each
}

// repeatBits repeats v in 8 bytes.
func repeatBits[T unsigned | signed](v T) uint64 {
	bits := 8 * unsafe.Sizeof(v)
	return uint64(v) << (64 - bits) >> (64 - bits) * (math.MaxUint64 / (math.MaxUint64 >> (64 - bits)))
}

// pointer returns the address of the first element.
func pointer[T any](x []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(x)) }

func flipVectors[U unsigned, S signed](to []S, x []U, flip, bias U) int {
	n, done := wholeBlocks(x, 32)
	if n > 0 && (bias == 0 || unsafe.Sizeof(bias) == 8) {
		flipKeys(pointer(to), pointer(x), n, repeatBits(flip), uint64(bias))
		return done
	}
	return 0
}

func floatKeyVectors[U unsigned, S signed](to []S, x []U, flip, infinity U, alike bool) int {
	n, done := wholeBlocks(x, 32)
	if n == 0 {
		return 0
	}
	all := uint64(0)
	if alike {
		all = math.MaxUint64
	}
	switch unsafe.Sizeof(flip) {
	case 2:
		keys16(pointer(to), pointer(x), n, repeatBits(flip), repeatBits(infinity), all)
	case 4:
		keys32(pointer(to), pointer(x), n, repeatBits(flip), zeroBits[U](alike))
	case 8:
		keys64(pointer(to), pointer(x), n, repeatBits(flip), zeroBits[U](alike))
	}
	return done
}

// zeroBits returns a zero that is added to floats: -0 keeps the signs of zeros, +0
// makes zeros alike.
func zeroBits[U unsigned](alike bool) uint64 {
	if alike {
		return 0
	}
	return repeatBits(^(^U(0) >> 1))
}

func decodeVectors[U unsigned, S signed](to []U, keys []S, flip U) int {
	n, done := wholeBlocks(keys, 32)
	size := unsafe.Sizeof(flip)
	switch {
	case n > 0 && size == 4:
		back32(pointer(to), pointer(keys), n, repeatBits(flip), 0)
	case n > 0 && size == 8:
		back64(pointer(to), pointer(keys), n, repeatBits(flip), 0)
	default:
		return 0
	}
	return done
}

// maxFloatVectors is maxVectors of the keys of floats.
func maxFloatVectors[U unsigned, S signed](w S, x []U, flip U, alike bool) (S, int) {
	each := 64
	if hasAVX512 {
		each = 256
	}
	n, done := wholeBlocks(x, each)
	var lanes [8]uint64
	for i := range lanes {
		lanes[i] = repeatBits(w)
	}
	at, size := unsafe.Pointer(&lanes), unsafe.Sizeof(flip)
	switch {
	case n > 0 && hasAVX512 && size == 4:
		wideGreatestFloat32(at, pointer(x), n, repeatBits(flip), zeroBits[U](alike))
	case n > 0 && hasAVX512 && size == 8:
		wideGreatestFloat64(at, pointer(x), n, repeatBits(flip), zeroBits[U](alike))
	case n > 0 && size == 4:
		greatestFloat32(at, pointer(x), n, repeatBits(flip), zeroBits[U](alike))
	case n > 0 && size == 8:
		greatestFloat64(at, pointer(x), n, repeatBits(flip), zeroBits[U](alike))
	default:
		return w, 0
	}
	for _, k := range unsafe.Slice((*S)(at), unsafe.Sizeof(lanes)/size) {
		w = max(w, k)
	}
	return w, done
}

// maxEachFloatVectors is maxEachVectors of the keys of floats, for row r or for four
// rows from r on. It also returns the number of rows.
func maxEachFloatVectors[U unsigned, S signed](w []S, x grid[U], r int64, flip U, alike bool) (rows int64, done int) {
	row, size := x.row(r), unsafe.Sizeof(flip)
	if hasAVX512 && size >= 4 && x.fourAt(r) {
		n, done := wholeBlocks(row, 64)
		switch {
		case n > 0 && size == 4:
			wideEachFloat32(pointer(w), pointer(row), n, repeatBits(flip), zeroBits[U](alike), int(x.pitch))
		case n > 0:
			wideEachFloat64(pointer(w), pointer(row), n, repeatBits(flip), zeroBits[U](alike), int(x.pitch))
		}
		return 4, done
	}
	n, done := wholeBlocks(row, 32)
	switch {
	case n > 0 && size == 4:
		eachFloat32(pointer(w), pointer(row), n, repeatBits(flip), zeroBits[U](alike))
	case n > 0 && size == 8:
		eachFloat64(pointer(w), pointer(row), n, repeatBits(flip), zeroBits[U](alike))
	default:
		return 1, 0
	}
	return 1, done
}

func maxVectors[S signed](w S, keys []S) (S, int) {
	n, done := wholeBlocks(keys, 128)
	if n == 0 {
		return w, 0
	}
	lanes := [4]uint64{repeatBits(w), repeatBits(w), repeatBits(w), repeatBits(w)}
	at := unsafe.Pointer(&lanes)
	switch unsafe.Sizeof(w) {
	case 1:
		greatest8(at, pointer(keys), n)
	case 2:
		greatest16(at, pointer(keys), n)
	case 4:
		greatest32(at, pointer(keys), n)
	case 8:
		greatest64(at, pointer(keys), n)
	}
	for _, k := range unsafe.Slice((*S)(at), unsafe.Sizeof(lanes)/unsafe.Sizeof(w)) {
		w = max(w, k)
	}
	return w, done
}

func maxEachVectors[S signed](w, keys []S) int {
	n, done := wholeBlocks(w, 32)
	if n == 0 {
		return 0
	}
	switch unsafe.Sizeof(w[0]) {
	case 1:
		eachGreatest8(pointer(w), pointer(keys), n)
	case 2:
		eachGreatest16(pointer(w), pointer(keys), n)
	case 4:
		eachGreatest32(pointer(w), pointer(keys), n)
	case 8:
		eachGreatest64(pointer(w), pointer(keys), n)
	}
	return done
}

// maxEachOf4Rows is maxEachVectors of the keys of row r, or of four rows from r on. It
// also returns the number of rows.
func maxEachOf4Rows[U unsigned, S signed](w []S, x grid[U], r int64) (rows int64, done int) {
	n, done := wholeBlocks(w, 32)
	if n == 0 || !x.fourAt(r) {
		return 1, 0
	}
	to, from, pitch := pointer(w), pointer(x.row(r)), int(x.pitch)
	switch unsafe.Sizeof(w[0]) {
	case 1:
		eachGreatestOf4x8(to, from, n, pitch)
	case 2:
		eachGreatestOf4x16(to, from, n, pitch)
	case 4:
		eachGreatestOf4x32(to, from, n, pitch)
	case 8:
		eachGreatestOf4x64(to, from, n, pitch)
	}
	return 4, done
}

func updateEachVectors[S signed](best, at, keys []S, row S) int {
	n, done := wholeBlocks(keys, 32)
	if n == 0 {
		return 0
	}
	switch unsafe.Sizeof(row) {
	case 1:
		place8(pointer(best), pointer(at), pointer(keys), n, repeatBits(row))
	case 2:
		place16(pointer(best), pointer(at), pointer(keys), n, repeatBits(row))
	case 4:
		place32(pointer(best), pointer(at), pointer(keys), n, repeatBits(row))
	case 8:
		place64(pointer(best), pointer(at), pointer(keys), n, repeatBits(row))
	}
	return done
}

// findVectors returns the index of the block that contains w.
func findVectors[S signed](w S, keys []S) int {
	n, _ := wholeBlocks(keys, 32)
	if n == 0 {
		return 0
	}
	switch unsafe.Sizeof(w) {
	case 1:
		n = find8(pointer(keys), n, repeatBits(w))
	case 2:
		n = find16(pointer(keys), n, repeatBits(w))
	case 4:
		n = find32(pointer(keys), n, repeatBits(w))
	case 8:
		n = find64(pointer(keys), n, repeatBits(w))
	}
	return n * 32 / int(unsafe.Sizeof(w))
}

// countZerosVectors also returns the number of elements without any bit of mask.
func countZerosVectors[T unsigned](x []T, mask T) (zeros, done int) {
	n, done := wholeBlocks(x, 32)
	if n == 0 {
		return 0, 0
	}
	switch unsafe.Sizeof(mask) {
	case 1:
		n = zeros8(pointer(x), n, repeatBits(mask))
	case 2:
		n = zeros16(pointer(x), n, repeatBits(mask))
	case 4:
		n = zeros32(pointer(x), n, repeatBits(mask))
	case 8:
		n = zeros64(pointer(x), n, repeatBits(mask))
	}
	return n / int(unsafe.Sizeof(mask)), done
}

func sumVectors(x []float32) (float64, int) {
	n, done := wholeBlocks(x, 64)
	if n == 0 {
		return 0, 0
	}
	var s [4]float64
	sums32(unsafe.Pointer(&s), pointer(x), n)
	return (s[0] + s[1]) + (s[2] + s[3]), done
}

// addVectors adds row r, or four rows from r on, and also returns the number of rows.
func addVectors(acc []float64, x grid[float32], r int64) (rows int64, done int) {
	row := x.row(r)
	n, done := wholeBlocks(row, 32)
	switch {
	case n > 0 && x.fourAt(r):
		add32x4(pointer(acc), pointer(row), int(x.pitch), x.prefetchDistance(r), n)
		return 4, done
	case n > 0:
		add32(pointer(acc), pointer(row), n)
	}
	return 1, done
}

// valuesVectors is values for whole blocks.
func valuesVectors(acc []compensated) int {
	n, done := wholeBlocks(acc, 64)
	if n > 0 {
		compensatedValues(pointer(acc), n)
	}
	return done
}

func narrowVectors(out []float32, x []float64) int {
	n, done := wholeBlocks(x, 32)
	if n > 0 {
		narrow(pointer(out), pointer(x), n)
	}
	return done
}

// compensatedVectors returns four partial sums.
func compensatedVectors(x []float64) (lanes [4]compensated, done int) {
	n, done := wholeBlocks(x, 256)
	if n == 0 {
		return lanes, 0
	}
	var sums, rests [4]float64
	sums64(unsafe.Pointer(&sums), unsafe.Pointer(&rests), pointer(x), n)
	for i := range lanes {
		lanes[i] = compensated{sums[i], rests[i]}
	}
	return lanes, done
}

// addCompensatedVectors is addVectors for doubles.
func addCompensatedVectors(acc []compensated, x grid[float64], r int64) (rows int64, done int) {
	row := x.row(r)
	n, done := wholeBlocks(row, 32)
	switch {
	case n > 0 && x.fourAt(r):
		add64x4(pointer(acc), pointer(row), int(x.pitch), x.prefetchDistance(r), n)
		return 4, done
	case n > 0:
		add64(pointer(acc), pointer(row), n)
	}
	return 1, done
}

// The functions of asm_amd64.s.

//go:noescape
func flipKeys(to, x unsafe.Pointer, n int, flip, other uint64)

//go:noescape
func keys16(to, x unsafe.Pointer, n int, flip, other, alike uint64)

//go:noescape
func keys32(to, x unsafe.Pointer, n int, flip, other uint64)

//go:noescape
func keys64(to, x unsafe.Pointer, n int, flip, other uint64)

//go:noescape
func greatest8(lanes, keys unsafe.Pointer, n int)

//go:noescape
func greatest16(lanes, keys unsafe.Pointer, n int)

//go:noescape
func greatest32(lanes, keys unsafe.Pointer, n int)

//go:noescape
func greatest64(lanes, keys unsafe.Pointer, n int)

//go:noescape
func eachGreatest8(w, keys unsafe.Pointer, n int)

//go:noescape
func eachGreatest16(w, keys unsafe.Pointer, n int)

//go:noescape
func eachGreatest32(w, keys unsafe.Pointer, n int)

//go:noescape
func eachGreatest64(w, keys unsafe.Pointer, n int)

//go:noescape
func eachGreatestOf4x8(w, keys unsafe.Pointer, n, pitch int)

//go:noescape
func eachGreatestOf4x16(w, keys unsafe.Pointer, n, pitch int)

//go:noescape
func eachGreatestOf4x32(w, keys unsafe.Pointer, n, pitch int)

//go:noescape
func eachGreatestOf4x64(w, keys unsafe.Pointer, n, pitch int)

//go:noescape
func place8(best, at, keys unsafe.Pointer, n int, row uint64)

//go:noescape
func place16(best, at, keys unsafe.Pointer, n int, row uint64)

//go:noescape
func place32(best, at, keys unsafe.Pointer, n int, row uint64)

//go:noescape
func place64(best, at, keys unsafe.Pointer, n int, row uint64)

//go:noescape
func find8(keys unsafe.Pointer, n int, w uint64) int

//go:noescape
func find16(keys unsafe.Pointer, n int, w uint64) int

//go:noescape
func find32(keys unsafe.Pointer, n int, w uint64) int

//go:noescape
func find64(keys unsafe.Pointer, n int, w uint64) int

//go:noescape
func zeros8(x unsafe.Pointer, n int, mask uint64) int

//go:noescape
func zeros16(x unsafe.Pointer, n int, mask uint64) int

//go:noescape
func zeros32(x unsafe.Pointer, n int, mask uint64) int

//go:noescape
func zeros64(x unsafe.Pointer, n int, mask uint64) int

//go:noescape
func sums32(lanes, x unsafe.Pointer, n int)

//go:noescape
func add32(acc, x unsafe.Pointer, n int)

//go:noescape
func sums64(sums, rests, x unsafe.Pointer, n int)

//go:noescape
func add64(acc, x unsafe.Pointer, n int)

//go:noescape
func add32x4(acc, x unsafe.Pointer, pitch, ahead, n int)

//go:noescape
func add64x4(acc, x unsafe.Pointer, pitch, ahead, n int)

//go:noescape
func compensatedValues(x unsafe.Pointer, n int)

//go:noescape
func narrow(out, x unsafe.Pointer, n int)

//go:noescape
func back32(to, x unsafe.Pointer, n int, flip, other uint64)

//go:noescape
func back64(to, x unsafe.Pointer, n int, flip, other uint64)

//go:noescape
func greatestFloat32(to, x unsafe.Pointer, n int, flip, other uint64)

//go:noescape
func greatestFloat64(to, x unsafe.Pointer, n int, flip, other uint64)

//go:noescape
func eachFloat32(to, x unsafe.Pointer, n int, flip, other uint64)

//go:noescape
func eachFloat64(to, x unsafe.Pointer, n int, flip, other uint64)

//go:noescape
func wideGreatestFloat32(lanes, x unsafe.Pointer, n int, flip, zero uint64)

//go:noescape
func wideGreatestFloat64(lanes, x unsafe.Pointer, n int, flip, zero uint64)

//go:noescape
func wideEachFloat32(w, x unsafe.Pointer, n int, flip, zero uint64, pitch int)

//go:noescape
func wideEachFloat64(w, x unsafe.Pointer, n int, flip, zero uint64, pitch int)
