// The operations of reductions. An operation has
//   In     the type of an element in memory
//   Acc    the accumulator, a multiple of 4 bytes
//   Out    the result type, unless the caller asks for another
//   none   returns the accumulator of no elements
//   fold   adds elements x[i] to an accumulator
//   fold_words   the same for bytes of a row, four per word
//   merge  merges two accumulators
//   Held   the accumulators of a thread for neighbouring columns
//   numbered   renumbers an accumulator whose steps were every fold-th from s on
//   result, put, store   return the result as Out, write it as Out, write it as finish.to

#pragma once
#include "common/element.cuh"

struct Finish {
    uint64_t flip;   // Max: flips the order of elements for minima; Count: the bits that make an element nonzero
    uint64_t bias;   // Max: added to flipped integers, so that NaT is the largest
    int64_t total;   // elements per result
    int32_t to;      // type of the results
    int32_t what;    // one of want_...: sums: sum or mean; Count: number, any or all
};
enum { want_itself, want_mean, want_any, want_all };

// Rounds a double once, through a float rounded to odd.
template <class H> __device__ __forceinline__ void round(double d, H& v) {
    float f = __double2float_rz(d);
    if (d == d && (double)f != d) f = __uint_as_float(__float_as_uint(f) | 1);
    narrow(f, v);
}
__device__ __forceinline__ void round(double d, float& v) { v = (float)d; }
__device__ __forceinline__ void round(double d, double& v) { v = d; }

__device__ __forceinline__ void store_float(double v, char* out, int32_t to) {
    switch (to) {
    case type_f16: round(v, *(f16*)out); break;
    case type_bf16: round(v, *(bf16*)out); break;
    case type_f32: *(float*)out = (float)v; break;
    case type_f64: *(double*)out = v; break;
    case type_c64: *(c64*)out = {(float)v, 0}; break;
    case type_c128: *(c128*)out = {v, 0}; break;
    }
}

__device__ __forceinline__ void store_complex(double re, double im, char* out, int32_t to) {
    if (to == type_c64) *(c64*)out = {(float)re, (float)im};
    else *(c128*)out = {re, im};
}

__device__ __forceinline__ void store_integer(int64_t v, char* out, int32_t to, bool is_unsigned) {
    switch (to) {
    case type_bool: *(uint8_t*)out = v != 0; break;
    case type_i8: case type_u8: *(uint8_t*)out = (uint8_t)v; break;
    case type_i16: case type_u16: *(uint16_t*)out = (uint16_t)v; break;
    case type_i32: case type_u32: *(uint32_t*)out = (uint32_t)v; break;
    case type_i64: case type_u64: *(int64_t*)out = v; break;
    default: store_float(is_unsigned ? (double)(uint64_t)v : (double)v, out, to);
    }
}

__device__ __forceinline__ double mean_of(double sum, const Finish& f) { return f.what == want_mean ? sum / (double)f.total : sum; }

template <class T> constexpr bool is_unsigned = (T)~0 > (T)0;

template <bool yes, class A, class B> struct Choose { using type = A; };
template <class A, class B> struct Choose<false, A, B> { using type = B; };

constexpr int64_t nat = (int64_t)1 << 63;

// Accumulators without step numbers.
template <class A> struct Unnumbered {
    static constexpr bool is_numbered = false;
    static __device__ __forceinline__ A numbered(const A& a, int64_t, int64_t) { return a; }
};

// V neighbouring elements as words.
template <int bytes> struct Row { uint32_t w[(bytes + 3) / 4]; };
template <class T, int V> using RowOf = Row<V * sizeof(T)>;

// The accumulators of a thread for V neighbouring columns, of at most `most` rows. add
// folds rows i, i+1, ...; of returns the accumulator of column k, whose row i has step
// number + i * step. This general form has one accumulator per column; bytes and 2-byte
// elements have packed forms.
template <class Op, int V> struct HeldApart {
    using T = typename Op::In;
    static constexpr int most = 1 << 30;
    typename Op::Acc acc[V];
    __device__ __forceinline__ HeldApart() {
#pragma unroll
        for (int k = 0; k < V; k++) acc[k] = Op::none();
    }
    template <int U> __device__ __forceinline__ void add(const RowOf<T, V> (&rows)[U], int, const Finish& f) {
        T x[U][V];
#pragma unroll
        for (int u = 0; u < U; u++) memcpy(x[u], rows[u].w, sizeof x[u]);
#pragma unroll
        for (int k = 0; k < V; k++) {
            T column[U];
#pragma unroll
            for (int u = 0; u < U; u++) column[u] = x[u][k];
            Op::fold(acc[k], column, f);
        }
    }
    __device__ __forceinline__ const typename Op::Acc& of(int k, int64_t, int64_t) const { return acc[k]; }
};

// Defines put, which writes a result as Out, the usual result type. Results of other types
// are written by finish.
#define PUT_RESULT \
    static __device__ __forceinline__ void put(const Acc& a, char* out, const Finish& f) { *(Out*)out = result(a, f); }
