package reduce

import (
	"math"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// vectors tells whether there are vectors. If not, these functions do none of the
// elements; else they do whole blocks, and return how many elements those have.
var vectors = cpu.X86.HasAVX2

// wide tells whether there are those of AVX-512 too.
var wide = cpu.X86.HasAVX512F

// blocks is how many blocks of so many bytes there are in x, and how many elements
// they have.
func blocks[T any](x []T, bytes int) (n, elements int) {
	var element T
	each := bytes / int(unsafe.Sizeof(element))
	if !vectors {
		return 0, 0
	}
	return len(x) / each, len(x) / each * each
}

// spread repeats v in 8 bytes.
func spread[T unsigned | signed](v T) uint64 {
	bits := 8 * unsafe.Sizeof(v)
	return uint64(v) << (64 - bits) >> (64 - bits) * (math.MaxUint64 / (math.MaxUint64 >> (64 - bits)))
}

// the address of the first of x.
func data[T any](x []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(x)) }

func flipVectors[U unsigned, S signed](to []S, x []U, flip, bias U) int {
	n, done := blocks(x, 32)
	if n > 0 && (bias == 0 || unsafe.Sizeof(bias) == 8) {
		flipKeys(data(to), data(x), n, spread(flip), uint64(bias))
		return done
	}
	return 0
}

func floatKeyVectors[U unsigned, S signed](to []S, x []U, flip, infinity U, alike bool) int {
	n, done := blocks(x, 32)
	if n == 0 {
		return 0
	}
	all := uint64(0)
	if alike {
		all = math.MaxUint64
	}
	switch unsafe.Sizeof(flip) {
	case 2:
		keys16(data(to), data(x), n, spread(flip), spread(infinity), all)
	case 4:
		keys32(data(to), data(x), n, spread(flip), zeroBits[U](alike))
	case 8:
		keys64(data(to), data(x), n, spread(flip), zeroBits[U](alike))
	}
	return done
}

// zeroBits is what keeps zeros apart when it is added to them, or makes them alike.
func zeroBits[U unsigned](alike bool) uint64 {
	if alike {
		return 0
	}
	return spread(^(^U(0) >> 1))
}

func backVectors[U unsigned, S signed](to []U, keys []S, flip U) int {
	n, done := blocks(keys, 32)
	size := unsafe.Sizeof(flip)
	switch {
	case n > 0 && size == 4:
		back32(data(to), data(keys), n, spread(flip), 0)
	case n > 0 && size == 8:
		back64(data(to), data(keys), n, spread(flip), 0)
	default:
		return 0
	}
	return done
}

// greatestFloatVectors is greatestVectors of the keys of floats.
func greatestFloatVectors[U unsigned, S signed](w S, x []U, flip U, alike bool) (S, int) {
	each := 64
	if wide {
		each = 256
	}
	n, done := blocks(x, each)
	var lanes [8]uint64
	for i := range lanes {
		lanes[i] = spread(w)
	}
	at, size := unsafe.Pointer(&lanes), unsafe.Sizeof(flip)
	switch {
	case n > 0 && wide && size == 4:
		wideGreatestFloat32(at, data(x), n, spread(flip), zeroBits[U](alike))
	case n > 0 && wide && size == 8:
		wideGreatestFloat64(at, data(x), n, spread(flip), zeroBits[U](alike))
	case n > 0 && size == 4:
		greatestFloat32(at, data(x), n, spread(flip), zeroBits[U](alike))
	case n > 0 && size == 8:
		greatestFloat64(at, data(x), n, spread(flip), zeroBits[U](alike))
	default:
		return w, 0
	}
	for _, k := range unsafe.Slice((*S)(at), unsafe.Sizeof(lanes)/size) {
		w = max(w, k)
	}
	return w, done
}

// eachFloatVectors is eachGreatestVectors of the keys of floats of row r, or of
// four rows from there, and returns how many, too.
func eachFloatVectors[U unsigned, S signed](w []S, x grid[U], r int64, flip U, alike bool) (rows int64, done int) {
	row, size := x.row(r), unsafe.Sizeof(flip)
	if wide && size >= 4 && x.fourAt(r) {
		n, done := blocks(row, 64)
		switch {
		case n > 0 && size == 4:
			wideEachFloat32(data(w), data(row), n, spread(flip), zeroBits[U](alike), int(x.pitch))
		case n > 0:
			wideEachFloat64(data(w), data(row), n, spread(flip), zeroBits[U](alike), int(x.pitch))
		}
		return 4, done
	}
	n, done := blocks(row, 32)
	switch {
	case n > 0 && size == 4:
		eachFloat32(data(w), data(row), n, spread(flip), zeroBits[U](alike))
	case n > 0 && size == 8:
		eachFloat64(data(w), data(row), n, spread(flip), zeroBits[U](alike))
	default:
		return 1, 0
	}
	return 1, done
}

func greatestVectors[S signed](w S, keys []S) (S, int) {
	n, done := blocks(keys, 128)
	if n == 0 {
		return w, 0
	}
	lanes := [4]uint64{spread(w), spread(w), spread(w), spread(w)}
	at := unsafe.Pointer(&lanes)
	switch unsafe.Sizeof(w) {
	case 1:
		greatest8(at, data(keys), n)
	case 2:
		greatest16(at, data(keys), n)
	case 4:
		greatest32(at, data(keys), n)
	case 8:
		greatest64(at, data(keys), n)
	}
	for _, k := range unsafe.Slice((*S)(at), unsafe.Sizeof(lanes)/unsafe.Sizeof(w)) {
		w = max(w, k)
	}
	return w, done
}

func eachGreatestVectors[S signed](w, keys []S) int {
	n, done := blocks(w, 32)
	if n == 0 {
		return 0
	}
	switch unsafe.Sizeof(w[0]) {
	case 1:
		eachGreatest8(data(w), data(keys), n)
	case 2:
		eachGreatest16(data(w), data(keys), n)
	case 4:
		eachGreatest32(data(w), data(keys), n)
	case 8:
		eachGreatest64(data(w), data(keys), n)
	}
	return done
}

// eachGreatestOf4 is eachGreatestVectors of row r of keys, or of four rows from
// there, and returns how many, too.
func eachGreatestOf4[U unsigned, S signed](w []S, x grid[U], r int64) (rows int64, done int) {
	n, done := blocks(w, 32)
	if n == 0 || !x.fourAt(r) {
		return 1, 0
	}
	to, from, pitch := data(w), data(x.row(r)), int(x.pitch)
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

func eachPlaceVectors[S signed](best, at, keys []S, row S) int {
	n, done := blocks(keys, 32)
	if n == 0 {
		return 0
	}
	switch unsafe.Sizeof(row) {
	case 1:
		place8(data(best), data(at), data(keys), n, spread(row))
	case 2:
		place16(data(best), data(at), data(keys), n, spread(row))
	case 4:
		place32(data(best), data(at), data(keys), n, spread(row))
	case 8:
		place64(data(best), data(at), data(keys), n, spread(row))
	}
	return done
}

// findVectors returns where the block that has w begins.
func findVectors[S signed](w S, keys []S) int {
	n, _ := blocks(keys, 32)
	if n == 0 {
		return 0
	}
	switch unsafe.Sizeof(w) {
	case 1:
		n = find8(data(keys), n, spread(w))
	case 2:
		n = find16(data(keys), n, spread(w))
	case 4:
		n = find32(data(keys), n, spread(w))
	case 8:
		n = find64(data(keys), n, spread(w))
	}
	return n * 32 / int(unsafe.Sizeof(w))
}

// zeroVectors returns how many elements have no bit of mask, too.
func zeroVectors[T unsigned](x []T, mask T) (zeros, done int) {
	n, done := blocks(x, 32)
	if n == 0 {
		return 0, 0
	}
	switch unsafe.Sizeof(mask) {
	case 1:
		n = zeros8(data(x), n, spread(mask))
	case 2:
		n = zeros16(data(x), n, spread(mask))
	case 4:
		n = zeros32(data(x), n, spread(mask))
	case 8:
		n = zeros64(data(x), n, spread(mask))
	}
	return n / int(unsafe.Sizeof(mask)), done
}

func sumVectors(x []float32) (float64, int) {
	n, done := blocks(x, 64)
	if n == 0 {
		return 0, 0
	}
	var s [4]float64
	sums32(unsafe.Pointer(&s), data(x), n)
	return (s[0] + s[1]) + (s[2] + s[3]), done
}

// addVectors adds row r, or four from there, and returns how many, too.
func addVectors(acc []float64, x grid[float32], r int64) (rows int64, done int) {
	row := x.row(r)
	n, done := blocks(row, 32)
	switch {
	case n > 0 && x.fourAt(r):
		add32x4(data(acc), data(row), int(x.pitch), x.ahead(r), n)
		return 4, done
	case n > 0:
		add32(data(acc), data(row), n)
	}
	return 1, done
}

// valuesVectors is values.
func valuesVectors(acc []exact) int {
	n, done := blocks(acc, 64)
	if n > 0 {
		exactValues(data(acc), n)
	}
	return done
}

func narrowVectors(out []float32, x []float64) int {
	n, done := blocks(x, 32)
	if n > 0 {
		narrow(data(out), data(x), n)
	}
	return done
}

// exactVectors returns four sums of all that is done.
func exactVectors(x []float64) (lanes [4]exact, done int) {
	n, done := blocks(x, 256)
	if n == 0 {
		return lanes, 0
	}
	var sums, rests [4]float64
	sums64(unsafe.Pointer(&sums), unsafe.Pointer(&rests), data(x), n)
	for i := range lanes {
		lanes[i] = exact{sums[i], rests[i]}
	}
	return lanes, done
}

// addExactVectors is addVectors of doubles.
func addExactVectors(acc []exact, x grid[float64], r int64) (rows int64, done int) {
	row := x.row(r)
	n, done := blocks(row, 32)
	switch {
	case n > 0 && x.fourAt(r):
		add64x4(data(acc), data(row), int(x.pitch), x.ahead(r), n)
		return 4, done
	case n > 0:
		add64(data(acc), data(row), n)
	}
	return 1, done
}

// The loops of keys_amd64.s, keyswide_amd64.s and sums_amd64.s.

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
func exactValues(x unsafe.Pointer, n int)

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
