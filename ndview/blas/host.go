package blas

import (
	"math"
	"unsafe"

	blasgonum "gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"

	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/half"
)

// The host implementations of products. All of them read A and B with the products of one
// result next to each other, so that a result is a dot product of two slices; operands of
// another layout are packed first. Sums do not skip zeros, so that NaNs spread as on a GPU.

// hostGrain is the number of products that are worth a goroutine.
const hostGrain = 1 << 16

// eachMatrix calls f with the operands of each matrix of the batch, in parallel if the
// matrices are small. Elements have size bytes.
func (x *product) eachMatrix(size int64, a, b, c unsafe.Pointer, f func(a, b, c unsafe.Pointer)) {
	work := max(1, x.m*x.n*max(1, x.k))
	cpu.Parallel(x.batch, max(1, hostGrain/work), func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			f(unsafe.Add(a, i*x.strideA*size), unsafe.Add(b, i*x.strideB*size), unsafe.Add(c, i*x.strideC*size))
		}
	})
}

// vectors is n vectors of k elements.
type vectors[T any] struct {
	values []T
	ld     int64 // from the start of one vector to that of the next
}

func (v *vectors[T]) at(i, k int64) []T {
	if k == 0 {
		return nil
	}
	return v.values[i*v.ld:][:k]
}

// rowsOfA returns the rows of op(A), and columnsOfB the columns of op(B). convert may be nil
// if T is S.
func rowsOfA[T, S any](x *product, a unsafe.Pointer, convert func(S) T) vectors[T] {
	if x.opA == opN {
		return pack(a, x.m, x.k, 1, x.lda, convert)
	}
	return pack(a, x.m, x.k, x.lda, 1, convert)
}

func columnsOfB[T, S any](x *product, b unsafe.Pointer, convert func(S) T) vectors[T] {
	if x.opB == opN {
		return pack(b, x.n, x.k, x.ldb, 1, convert)
	}
	return pack(b, x.n, x.k, 1, x.ldb, convert)
}

// pack returns n vectors of k elements, which are a step and a stride apart in memory.
func pack[T, S any](p unsafe.Pointer, n, k, step, stride int64, convert func(S) T) vectors[T] {
	if n == 0 || k == 0 {
		return vectors[T]{ld: max(1, k)}
	}
	source := unsafe.Slice((*S)(p), (n-1)*step+(k-1)*stride+1)
	if convert == nil && stride == 1 {
		return vectors[T]{unsafe.Slice((*T)(p), len(source)), max(step, k)}
	}
	v := vectors[T]{make([]T, n*k), k}
	// Blocks of both are in the cache while they are transposed.
	const block = 32
	cpu.Parallel((n-1)/block+1, max(1, hostGrain/(block*k)), func(lo, hi int64) {
		for i0 := lo * block; i0 < min(hi*block, n); i0 += block {
			for l0 := int64(0); l0 < k; l0 += block {
				for i := i0; i < min(i0+block, n); i++ {
					to := v.values[i*k:][:k]
					for l := l0; l < min(l0+block, k); l++ {
						value := source[i*step+l*stride]
						if convert == nil {
							to[l] = *(*T)(unsafe.Pointer(&value))
						} else {
							to[l] = convert(value)
						}
					}
				}
			}
		}
	})
	return v
}

// resultOf returns the columns of C.
func resultOf[T any](x *product, c unsafe.Pointer) vectors[T] {
	return vectors[T]{unsafe.Slice((*T)(c), (x.n-1)*x.ldc+x.m), x.ldc}
}

func multiplyFloat64(x *product, a, b, c unsafe.Pointer) {
	x.eachMatrix(8, a, b, c, func(a, b, c unsafe.Pointer) {
		rows, columns, result := rowsOfA[float64, float64](x, a, nil), columnsOfB[float64, float64](x, b, nil), resultOf[float64](x, c)
		alpha, beta := math.Float64frombits(x.alpha[0]), math.Float64frombits(x.beta[0])
		if x.k == 0 {
			scale(x, result, beta)
			return
		}
		// The rows of the transposed result are the columns of C.
		gonum.Implementation{}.Dgemm(blasgonum.NoTrans, blasgonum.Trans, int(x.n), int(x.m), int(x.k), alpha,
			columns.values, int(columns.ld), rows.values, int(rows.ld), beta, result.values, int(result.ld))
	})
}

func multiplyFloat32(x *product, a, b, c unsafe.Pointer) {
	x.eachMatrix(4, a, b, c, func(a, b, c unsafe.Pointer) {
		x.multiplySingle(rowsOfA[float32, float32](x, a, nil), columnsOfB[float32, float32](x, b, nil), resultOf[float32](x, c))
	})
}

// multiplySingle computes one matrix in float32.
func (x *product) multiplySingle(rows, columns, result vectors[float32]) {
	alpha, beta := math.Float32frombits(uint32(x.alpha[0])), math.Float32frombits(uint32(x.beta[0]))
	if x.k == 0 {
		scale(x, result, beta)
		return
	}
	gonum.Implementation{}.Sgemm(blasgonum.NoTrans, blasgonum.Trans, int(x.n), int(x.m), int(x.k), alpha,
		columns.values, int(columns.ld), rows.values, int(rows.ld), beta, result.values, int(result.ld))
}

// scale computes the product of no columns and no rows.
func scale[T float32 | float64](x *product, result vectors[T], beta T) {
	for j := range x.n {
		for i, v := range result.at(j, x.m) {
			if x.readC == 0 {
				v = 0
			}
			result.at(j, x.m)[i] = v * beta
		}
	}
}

func multiplyFloat16(x *product, a, b, c unsafe.Pointer) {
	x.multiplyHalves(a, b, c, half.Float16ToFloat32, half.Float16sToFloat32s, half.Float32sToFloat16s)
}

func multiplyBFloat16(x *product, a, b, c unsafe.Pointer) {
	x.multiplyHalves(a, b, c, half.BFloat16ToFloat32, half.BFloat16sToFloat32s, half.Float32sToBFloat16s)
}

// multiplyHalves computes in float32, and rounds each result once.
func (x *product) multiplyHalves(a, b, c unsafe.Pointer, widenOne func(uint16) float32, widen func([]float32, []uint16), narrow func([]uint16, []float32)) {
	x.eachMatrix(2, a, b, c, func(a, b, c unsafe.Pointer) {
		rows, columns, result := rowsOfA(x, a, widenOne), columnsOfB(x, b, widenOne), resultOf[uint16](x, c)
		wide := vectors[float32]{make([]float32, x.n*x.m), x.m}
		for j := range x.n {
			if x.readC != 0 {
				widen(wide.at(j, x.m), result.at(j, x.m))
			}
		}
		x.multiplySingle(rows, columns, wide)
		for j := range x.n {
			narrow(result.at(j, x.m), wide.at(j, x.m))
		}
	})
}

type arithmetic interface {
	uint8 | uint16 | uint32 | uint64 | complex64 | complex128
}

func multiplyIntegers[T uint8 | uint16 | uint32 | uint64](x *product, a, b, c unsafe.Pointer) {
	x.eachMatrix(int64(unsafe.Sizeof(T(0))), a, b, c, func(a, b, c unsafe.Pointer) {
		multiplyMatrix(x, rowsOfA[T, T](x, a, nil), columnsOfB[T, T](x, b, nil), resultOf[T](x, c), T(x.alpha[0]), T(x.beta[0]))
	})
}

func multiplyComplex64(x *product, a, b, c unsafe.Pointer) {
	conj := func(v complex64) complex64 { return complex(real(v), -imag(v)) }
	conjA, conjB := conj, conj
	if x.opA != opC {
		conjA = nil
	}
	if x.opB != opC {
		conjB = nil
	}
	x.eachMatrix(8, a, b, c, func(a, b, c unsafe.Pointer) {
		multiplyMatrix(x, rowsOfA(x, a, conjA), columnsOfB(x, b, conjB), resultOf[complex64](x, c),
			*(*complex64)(unsafe.Pointer(&x.alpha)), *(*complex64)(unsafe.Pointer(&x.beta)))
	})
}

func multiplyComplex128(x *product, a, b, c unsafe.Pointer) {
	conj := func(v complex128) complex128 { return complex(real(v), -imag(v)) }
	conjA, conjB := conj, conj
	if x.opA != opC {
		conjA = nil
	}
	if x.opB != opC {
		conjB = nil
	}
	x.eachMatrix(16, a, b, c, func(a, b, c unsafe.Pointer) {
		multiplyMatrix(x, rowsOfA(x, a, conjA), columnsOfB(x, b, conjB), resultOf[complex128](x, c),
			*(*complex128)(unsafe.Pointer(&x.alpha)), *(*complex128)(unsafe.Pointer(&x.beta)))
	})
}

// multiplyMatrix computes one matrix of integers or complex numbers.
func multiplyMatrix[T arithmetic](x *product, rows, columns, result vectors[T], alpha, beta T) {
	finish := func(to *T, sum T) {
		if alpha != 1 {
			sum *= alpha
		}
		switch {
		case x.readC == 0:
			*to = sum
		case beta == 1:
			*to += sum
		default:
			*to = sum + beta**to
		}
	}
	x.eachTile(func(i0, i1, j0, j1 int64) {
		for j := j0; j < j1; j++ {
			column, to := columns.at(j, x.k), result.at(j, x.m)
			i := i0
			for ; i+4 <= i1; i += 4 { // four sums at once hide the latency of each
				r0, r1, r2, r3 := rows.at(i, x.k), rows.at(i+1, x.k), rows.at(i+2, x.k), rows.at(i+3, x.k)
				var s0, s1, s2, s3 T
				r0, r1, r2, r3 = r0[:len(column)], r1[:len(column)], r2[:len(column)], r3[:len(column)]
				for l, v := range column {
					s0 += r0[l] * v
					s1 += r1[l] * v
					s2 += r2[l] * v
					s3 += r3[l] * v
				}
				finish(&to[i], s0)
				finish(&to[i+1], s1)
				finish(&to[i+2], s2)
				finish(&to[i+3], s3)
			}
			for ; i < i1; i++ {
				var sum T
				for l, v := range column {
					sum += rows.at(i, x.k)[l] * v
				}
				finish(&to[i], sum)
			}
		}
	})
}

// eachTile calls f with tiles of the result, in parallel if there is enough work. The rows
// of a tile stay in the cache while its columns are computed.
func (x *product) eachTile(f func(i0, i1, j0, j1 int64)) {
	const tile = 64
	tilesM, tilesN := (x.m-1)/tile+1, (x.n-1)/tile+1
	cpu.Parallel(tilesM*tilesN, max(1, hostGrain/(min(tile, x.m)*min(tile, x.n)*max(1, x.k))), func(lo, hi int64) {
		for t := lo; t < hi; t++ {
			i, j := t%tilesM*tile, t/tilesM*tile
			f(i, min(i+tile, x.m), j, min(j+tile, x.n))
		}
	})
}

// multiplyBool computes ors of ands, 64 at once.
func multiplyBool(x *product, a, b, c unsafe.Pointer) {
	words := (x.k-1)/64 + 1
	if x.k == 0 {
		words = 0
	}
	alpha, beta := x.alpha[0]&0xff != 0, x.beta[0]&0xff != 0
	x.eachMatrix(1, a, b, c, func(a, b, c unsafe.Pointer) {
		rows := bitsOf(rowsOfA[uint8, uint8](x, a, nil), x.m, x.k, words)
		columns, result := bitsOf(columnsOfB[uint8, uint8](x, b, nil), x.n, x.k, words), resultOf[uint8](x, c)
		x.eachTile(func(i0, i1, j0, j1 int64) {
			for j := j0; j < j1; j++ {
				column, to := columns.at(j, words), result.at(j, x.m)
				for i := i0; i < i1; i++ {
					found := false
					for w, v := range rows.at(i, words) {
						if v&column[w] != 0 {
							found = alpha
							break
						}
					}
					if x.readC != 0 && beta && to[i] != 0 {
						found = true
					}
					to[i] = 0
					if found {
						to[i] = 1
					}
				}
			}
		})
	})
}

// bitsOf returns the truth of elements, as bits of words.
func bitsOf(from vectors[uint8], n, k, words int64) vectors[uint64] {
	v := vectors[uint64]{make([]uint64, n*words), words}
	for i := range n {
		to := v.at(i, words)
		for l, truth := range from.at(i, k) {
			if truth != 0 {
				to[l/64] |= 1 << (l % 64)
			}
		}
	}
	return v
}
