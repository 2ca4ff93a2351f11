// What the operations of reductions do with elements. An operation has
//   In     what an element is in memory
//   Acc    an accumulator; words of 4 bytes
//   Out    the result's type where the caller asks for no other
//   none   the accumulator of no elements
//   fold   adds elements x[i] to one
//   fold_words, fold_columns   the same for bytes, four in a word: those of a row to
//          one accumulator, those of words [row][word] to one for each column
//   merge  makes one accumulator of two
//   numbered   for one whose steps were every fold-th from s on
//   result, put, store   the result, as Out, to memory as that, and to memory as the type that finish.to says

#pragma once
#include "element.cuh"

struct Finish {
    uint64_t flip;   // Max: what turns elements' order around, or -min(-x) into a max; Count: the bits that make an element nonzero
    uint64_t bias;   // Max: is added to flipped integers, so that NaT is the largest
    int64_t total;   // the elements of a result
    int32_t to;      // the type of the results
    int32_t what;    // sums: the sum or the mean; Count: the number, whether any, whether all
};
enum { want_itself, want_mean, want_any, want_all };

// A double is rounded once: the last bit of an inexact float stands for what is lost.
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

// Accumulators that know no steps.
template <class A> struct Unnumbered {
    static constexpr bool is_numbered = false;
    static __device__ __forceinline__ A numbered(const A& a, int64_t, int64_t) { return a; }
};

// put writes a result as Out, which is what nearly all callers want; results of
// other types are left to finish.
#define PUT_RESULT \
    static __device__ __forceinline__ void put(const Acc& a, char* out, const Finish& f) { *(Out*)out = result(a, f); }

// ---- sums

// The sum of neighbours by halves.
template <int N, class W> __device__ __forceinline__ W tree(const W* x) {
    if constexpr (N == 1) return x[0];
    else return tree<N / 2>(x) + tree<N - N / 2>(x + N / 2);
}

__device__ __forceinline__ int32_t add_bytes(int32_t sum, uint32_t w, int8_t) { return __dp4a((int)w, 0x01010101, sum); }
__device__ __forceinline__ int32_t add_bytes(int32_t sum, uint32_t w, uint8_t) { return (int32_t)__dp4a(w, 0x01010101u, (unsigned)sum); }

template <class T> struct SumInteger : Unnumbered<int64_t> {
    using In = T;
    using Acc = int64_t;
    using Out = int64_t;
    static __device__ __forceinline__ Acc none() { return 0; }
    template <int N> static __device__ __forceinline__ void fold(Acc& a, const T (&x)[N], const Finish&) {
        if constexpr (sizeof(T) < 4) {
            int32_t sum = 0;
#pragma unroll
            for (int i = 0; i < N; i++) sum += x[i];
            a += sum;
        } else {
#pragma unroll
            for (int i = 0; i < N; i++) a += (int64_t)x[i];
        }
    }
    template <int N> static __device__ __forceinline__ void fold_words(Acc& a, const uint32_t (&w)[N], const Finish&) {
        int32_t sums[2] = {0, 0};
#pragma unroll
        for (int i = 0; i < N; i++) sums[i % 2] = add_bytes(sums[i % 2], w[i], T());
        a += sums[0] + sums[1];
    }
    // Signed bytes are taken as unsigned ones, 128 too large, so that two sums fit a
    // word without a carry between them.
    template <int U, int W> static __device__ __forceinline__ void fold_columns(Acc* a, const uint32_t (&w)[U][W], const Finish&) {
        constexpr uint32_t turn = is_unsigned<T> ? 0 : 0x80808080u;
#pragma unroll
        for (int i = 0; i < W; i++) {
            uint32_t even = 0, odd = 0;
#pragma unroll
            for (int u = 0; u < U; u++) {
                even += (w[u][i] ^ turn) & 0x00ff00ffu;
                odd += (w[u][i] ^ turn) >> 8 & 0x00ff00ffu;
            }
            constexpr int32_t excess = is_unsigned<T> ? 0 : 128 * U;
            a[4 * i] += (int32_t)(even & 0xffff) - excess;
            a[4 * i + 1] += (int32_t)(odd & 0xffff) - excess;
            a[4 * i + 2] += (int32_t)(even >> 16) - excess;
            a[4 * i + 3] += (int32_t)(odd >> 16) - excess;
        }
    }
    static __device__ __forceinline__ Acc merge(Acc a, Acc b) { return a + b; }
    static __device__ __forceinline__ Out result(Acc a, const Finish&) { return a; }
    PUT_RESULT
    static __device__ __forceinline__ void store(Acc a, char* out, const Finish& f) {
        if (f.what != want_mean) return store_integer(a, out, f.to, is_unsigned<T>);
        store_float((is_unsigned<T> ? (double)(uint64_t)a : (double)a) / (double)f.total, out, f.to);
    }
};

// Of floats of up to 4 bytes, in double: the result is rounded once.
template <class T> struct SumFloat : Unnumbered<double> {
    using In = T;
    using Acc = double;
    using Out = T;
    static __device__ __forceinline__ Acc none() { return 0; }
    template <int N> static __device__ __forceinline__ void fold(Acc& a, const T (&x)[N], const Finish&) {
        if constexpr (sizeof(T) == 2) {
            float w[N];
#pragma unroll
            for (int i = 0; i < N; i++) w[i] = widen(x[i]);
            a += tree<N>(w);
        } else {
            double w[N];
#pragma unroll
            for (int i = 0; i < N; i++) w[i] = x[i];
            a += tree<N>(w);
        }
    }
    static __device__ __forceinline__ Acc merge(Acc a, Acc b) { return a + b; }
    static __device__ __forceinline__ Out result(Acc a, const Finish& f) {
        Out r;
        round(mean_of(a, f), r);
        return r;
    }
    PUT_RESULT
    static __device__ __forceinline__ void store(Acc a, char* out, const Finish& f) {
        store_float(mean_of(a, f), out, f.to);
    }
};

// A sum and what its additions lost.
struct Exact {
    double sum, rest;
    __device__ __forceinline__ void add(double x) {
        const double s = sum + x, of_x = s - sum;
        rest += (sum - (s - of_x)) + (x - of_x);
        sum = s;
    }
    __device__ __forceinline__ void add(const Exact& b) {
        add(b.sum);
        rest += b.rest;
    }
    // Infinite and overflown sums have no rest.
    __device__ __forceinline__ double value() const { return sum - sum == 0 ? sum + rest : sum; }
};

// Of doubles, or of integers as such.
template <class T> struct SumDouble : Unnumbered<Exact> {
    using In = T;
    using Acc = Exact;
    using Out = double;
    static __device__ __forceinline__ Acc none() { return {0, 0}; }
    template <int N> static __device__ __forceinline__ void fold(Acc& a, const T (&x)[N], const Finish&) {
        double w[N];
#pragma unroll
        for (int i = 0; i < N; i++) w[i] = (double)x[i];
        a.add(tree<N>(w));
    }
    static __device__ __forceinline__ Acc merge(Acc a, const Acc& b) {
        a.add(b);
        return a;
    }
    static __device__ __forceinline__ Out result(const Acc& a, const Finish& f) { return mean_of(a.value(), f); }
    PUT_RESULT
    static __device__ __forceinline__ void store(const Acc& a, char* out, const Finish& f) { store_float(result(a, f), out, f.to); }
};

__device__ __forceinline__ void store_complex(double re, double im, char* out, int32_t to) {
    if (to == type_c64) *(c64*)out = {(float)re, (float)im};
    else *(c128*)out = {re, im};
}

// The parts of complex numbers apart, as the sum S of their type has them.
template <class R, class S> struct SumComplex {
    static constexpr bool is_numbered = false;
    using In = complex<R>;
    struct Acc { typename S::Acc re, im; };
    using Out = In;
    static __device__ __forceinline__ Acc none() { return {S::none(), S::none()}; }
    template <int N> static __device__ __forceinline__ void fold(Acc& a, const In (&x)[N], const Finish& f) {
        R re[N], im[N];
#pragma unroll
        for (int i = 0; i < N; i++) re[i] = x[i].re, im[i] = x[i].im;
        S::template fold<N>(a.re, re, f);
        S::template fold<N>(a.im, im, f);
    }
    static __device__ __forceinline__ Acc merge(const Acc& a, const Acc& b) { return {S::merge(a.re, b.re), S::merge(a.im, b.im)}; }
    static __device__ __forceinline__ Acc numbered(const Acc& a, int64_t, int64_t) { return a; }
    static __device__ __forceinline__ Out result(const Acc& a, const Finish& f) { return {S::result(a.re, f), S::result(a.im, f)}; }
    PUT_RESULT
    static __device__ __forceinline__ void store(const Acc& a, char* out, const Finish& f) {
        double re, im;
        Finish part = f;
        part.to = type_f64;
        S::store(a.re, (char*)&re, part);
        S::store(a.im, (char*)&im, part);
        store_complex(re, im, out, f.to);
    }
};

constexpr int64_t nat = (int64_t)1 << 63;

// Of timedeltas: one NaT makes the sum NaT.
struct Ticks { int64_t sum, nats; };
struct SumTicks : Unnumbered<Ticks> {
    using In = int64_t;
    using Acc = Ticks;
    using Out = int64_t;
    static __device__ __forceinline__ Acc none() { return {0, 0}; }
    template <int N> static __device__ __forceinline__ void fold(Acc& a, const In (&x)[N], const Finish&) {
#pragma unroll
        for (int i = 0; i < N; i++) {
            a.sum += x[i];
            a.nats |= x[i] == nat;
        }
    }
    static __device__ __forceinline__ Acc merge(const Acc& a, const Acc& b) { return {a.sum + b.sum, a.nats | b.nats}; }
    static __device__ __forceinline__ Out result(const Acc& a, const Finish& f) {
        return a.nats || a.sum == nat ? nat : f.what != want_mean ? a.sum : f.total ? a.sum / f.total : nat;
    }
    PUT_RESULT
    static __device__ __forceinline__ void store(const Acc& a, char* out, const Finish& f) { *(int64_t*)out = result(a, f); }
};

// ---- products

template <class T> struct ProdInteger : Unnumbered<int64_t> {
    using In = T;
    using Acc = int64_t;
    using Out = int64_t;
    static __device__ __forceinline__ Acc none() { return 1; }
    template <int N> static __device__ __forceinline__ void fold(Acc& a, const T (&x)[N], const Finish&) {
#pragma unroll
        for (int i = 0; i < N; i++) a *= (int64_t)x[i];
    }
    static __device__ __forceinline__ Acc merge(Acc a, Acc b) { return a * b; }
    static __device__ __forceinline__ Out result(Acc a, const Finish&) { return a; }
    PUT_RESULT
    static __device__ __forceinline__ void store(Acc a, char* out, const Finish& f) { store_integer(a, out, f.to, is_unsigned<T>); }
};

// Of floats, and of integers whose product shall be one, in double.
template <class T, class R> struct ProdFloat : Unnumbered<double> {
    using In = T;
    using Acc = double;
    using Out = R;
    static __device__ __forceinline__ Acc none() { return 1; }
    template <int N> static __device__ __forceinline__ void fold(Acc& a, const T (&x)[N], const Finish&) {
#pragma unroll
        for (int i = 0; i < N; i++) a *= (double)widen(x[i]);
    }
    static __device__ __forceinline__ Acc merge(Acc a, Acc b) { return a * b; }
    static __device__ __forceinline__ Out result(Acc a, const Finish&) {
        Out r;
        round(a, r);
        return r;
    }
    PUT_RESULT
    static __device__ __forceinline__ void store(Acc a, char* out, const Finish& f) { store_float(a, out, f.to); }
};

template <class R> struct ProdComplex : Unnumbered<c128> {
    using In = complex<R>;
    using Acc = c128;
    using Out = In;
    static __device__ __forceinline__ Acc none() { return {1, 0}; }
    template <int N> static __device__ __forceinline__ void fold(Acc& a, const In (&x)[N], const Finish&) {
#pragma unroll
        for (int i = 0; i < N; i++) a = merge(a, {(double)x[i].re, (double)x[i].im});
    }
    static __device__ __forceinline__ Acc merge(const Acc& a, const Acc& b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
    static __device__ __forceinline__ Out result(const Acc& a, const Finish&) { return {(R)a.re, (R)a.im}; }
    PUT_RESULT
    static __device__ __forceinline__ void store(const Acc& a, char* out, const Finish& f) { store_complex(a.re, a.im, out, f.to); }
};

// ---- maxima, and minima as maxima of what is turned around

// How the elements of a type are ordered. W is what they are compared as, `over`
// whether one is greater than another, `best` one of the two that no other is
// over. A NaN is over all numbers.
template <class T> struct Order {
    static_assert(is_unsigned<T>, "integers are flipped as unsigned ones");
    template <int size, class = void> struct Of { using S = int32_t; using W = int32_t; };
    template <class X> struct Of<1, X> { using S = signed char; using W = int32_t; };
    template <class X> struct Of<2, X> { using S = short; using W = int32_t; };
    template <class X> struct Of<8, X> { using S = int64_t; using W = int64_t; };
    using S = typename Of<sizeof(T)>::S;
    using W = typename Of<sizeof(T)>::W;
    static __device__ __forceinline__ W lowest() { return sizeof(W) == 8 ? (W)nat : (W)((uint32_t)1 << 31); }
    static __device__ __forceinline__ W of(T x, const Finish& f) {
        if constexpr (sizeof(T) == 8) return (W)((x ^ f.flip) + f.bias);
        else return (S)(T)(x ^ (T)f.flip);
    }
    static __device__ __forceinline__ T back(W w, const Finish& f) {
        if constexpr (sizeof(T) == 8) return ((T)w - f.bias) ^ f.flip;
        else return (T)((T)w ^ (T)f.flip);
    }
    static __device__ __forceinline__ bool over(W a, W b) { return a > b; }
    static __device__ __forceinline__ W best(W a, W b) { return a > b ? a : b; }
};

__device__ __forceinline__ uint32_t bits(float f) { return __float_as_uint(f); }
__device__ __forceinline__ uint64_t bits(double f) { return (uint64_t)__double_as_longlong(f); }
__device__ __forceinline__ float from_bits(uint32_t b) { return __uint_as_float(b); }
__device__ __forceinline__ double from_bits(uint64_t b) { return __longlong_as_double((long long)b); }

// flip is 0 or 2^63.
template <class R> struct OrderReal {
    using W = R;
    using B = decltype(bits(R()));
    static __device__ __forceinline__ W lowest() { return (W)(-1e300 * 1e300); }
    static __device__ __forceinline__ W turn(W w, const Finish& f) { return from_bits(bits(w) ^ (B)(f.flip >> (64 - 8 * sizeof(R)))); }
    static __device__ __forceinline__ bool over(W a, W b) { return a > b || (a != a && b == b); }
    // Of equal ones +0 rather than -0.
    static __device__ __forceinline__ W best(W a, W b) {
#if __CUDA_ARCH__ >= 800
        if constexpr (sizeof(R) == 4) {
            W m;
            asm("max.NaN.f32 %0, %1, %2;" : "=f"(m) : "f"(a), "f"(b));
            return m;
        }
#endif
        return a == b ? from_bits((B)(bits(a) & bits(b))) : a > b || a != a ? a : b;
    }
};
template <class T> struct OrderNarrow : OrderReal<float> {
    static __device__ __forceinline__ float of(T x, const Finish& f) { return turn(widen(x), f); }
    static __device__ __forceinline__ T back(float w, const Finish& f) {
        T r;
        narrow(turn(w, f), r);
        return r;
    }
};
template <> struct Order<f16> : OrderNarrow<f16> {};
template <> struct Order<bf16> : OrderNarrow<bf16> {};
template <> struct Order<float> : OrderNarrow<float> {};
template <> struct Order<double> : OrderReal<double> {
    static __device__ __forceinline__ double of(double x, const Finish& f) { return turn(x, f); }
    static __device__ __forceinline__ double back(double w, const Finish& f) { return turn(w, f); }
};
// By the real parts, then the imaginary ones; a NaN is in either.
template <class R> struct Order<complex<R>> {
    using W = complex<R>;
    using O = OrderReal<R>;
    static __device__ __forceinline__ W lowest() { return {O::lowest(), O::lowest()}; }
    static __device__ __forceinline__ W of(W x, const Finish& f) { return {O::turn(x.re, f), O::turn(x.im, f)}; }
    static __device__ __forceinline__ W back(W w, const Finish& f) { return of(w, f); }
    static __device__ __forceinline__ bool is_nan(W a) { return a.re != a.re || a.im != a.im; }
    static __device__ __forceinline__ bool over(W a, W b) {
        if (is_nan(a) || is_nan(b)) return is_nan(a) && !is_nan(b);
        return a.re > b.re || (a.re == b.re && a.im > b.im);
    }
    static __device__ __forceinline__ W best(W a, W b) { return over(b, a) ? b : a; }
};

// The greater of two integers of 16 bits in each half.
__device__ __forceinline__ uint32_t greater_pair(uint32_t a, uint32_t b) {
#if __CUDA_ARCH__ >= 900
    uint32_t m;
    asm("max.s16x2 %0, %1, %2;" : "=r"(m) : "r"(a), "r"(b));
    return m;
#else
    return __vmaxs2(a, b);
#endif
}

// The greatest of bytes, of integers flipped as they are compared: as the upper
// halves of integers of 16 bits, two in a word, whose lower halves do not matter.
__device__ __forceinline__ uint32_t flips(const Finish& f) { return ((uint32_t)f.flip & 0xff) * 0x01010101u; }
template <int N> __device__ __forceinline__ int32_t best_byte(const uint32_t (&w)[N], uint32_t flip) {
    uint32_t odd = w[0] ^ flip, even = odd << 8;
#pragma unroll
    for (int i = 1; i < N; i++) {
        odd = greater_pair(odd, w[i] ^ flip);
        even = greater_pair(even, (w[i] ^ flip) << 8);
    }
    even = greater_pair(even, odd);
    return max((int32_t)even >> 24, (int32_t)(even << 16) >> 24);
}
// The greatest of each column.
template <int U, int W> __device__ __forceinline__ void best_bytes(int32_t (&best)[4 * W], const uint32_t (&w)[U][W], uint32_t flip) {
#pragma unroll
    for (int i = 0; i < W; i++) {
        uint32_t odd = w[0][i] ^ flip, even = odd << 8;
#pragma unroll
        for (int u = 1; u < U; u++) {
            odd = greater_pair(odd, w[u][i] ^ flip);
            even = greater_pair(even, (w[u][i] ^ flip) << 8);
        }
        best[4 * i] = (int32_t)(even << 16) >> 24;
        best[4 * i + 1] = (int32_t)(odd << 16) >> 24;
        best[4 * i + 2] = (int32_t)even >> 24;
        best[4 * i + 3] = (int32_t)odd >> 24;
    }
}

template <class T> struct Max : Unnumbered<typename Order<T>::W> {
    using In = T;
    using O = Order<T>;
    using Acc = typename O::W;
    using Out = T;
    static __device__ __forceinline__ Acc none() { return O::lowest(); }
    template <int N> static __device__ __forceinline__ void fold(Acc& a, const T (&x)[N], const Finish& f) {
#pragma unroll
        for (int i = 0; i < N; i++) a = O::best(a, O::of(x[i], f));
    }
    template <int N> static __device__ __forceinline__ void fold_words(Acc& a, const uint32_t (&w)[N], const Finish& f) {
        a = max(a, best_byte(w, flips(f)));
    }
    template <int U, int W> static __device__ __forceinline__ void fold_columns(Acc* a, const uint32_t (&w)[U][W], const Finish& f) {
        int32_t best[4 * W];
        best_bytes(best, w, flips(f));
#pragma unroll
        for (int k = 0; k < 4 * W; k++) a[k] = max(a[k], best[k]);
    }
    static __device__ __forceinline__ Acc merge(const Acc& a, const Acc& b) { return O::best(a, b); }
    static __device__ __forceinline__ Out result(const Acc& a, const Finish& f) { return O::back(a, f); }
    PUT_RESULT
    static __device__ __forceinline__ void store(const Acc& a, char* out, const Finish& f) { *(T*)out = O::back(a, f); }
};

// Two elements of 16 bits in a word, as integers of that size in their order:
// what NumPy takes as equal is. Of floats, -0 becomes 0, and a NaN the greatest.
__device__ __forceinline__ uint32_t flip_pair(const Finish& f) { return ((uint32_t)f.flip & 0xffff) * 0x10001u; }
// The other way round for what is negative, whose larger magnitudes are less.
__device__ __forceinline__ uint32_t turn_negative(uint32_t w) {
    uint32_t signs;  // each half's sign, 16 times
    asm("prmt.b32 %0, %1, 0, 0xbb99;" : "=r"(signs) : "r"(w));
    return w ^ (signs & 0x7fff7fffu);
}
__device__ __forceinline__ uint32_t ordered(uint32_t w, const Finish& f, uint16_t) { return w ^ flip_pair(f); }
__device__ __forceinline__ uint32_t ordered(uint32_t w, const Finish& f, f16) {
    uint32_t r;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(w), "r"(f.flip ? 0xbc00bc00u : 0x3c003c00u), "r"(0));
    return turn_negative(r);
}
__device__ __forceinline__ uint32_t ordered(uint32_t w, const Finish& f, bf16) {
    const float sign = f.flip ? -1.0f : 1.0f;
    const float low = __fmaf_rn(__uint_as_float(w << 16), sign, 0.0f), high = __fmaf_rn(__uint_as_float(w & 0xffff0000u), sign, 0.0f);
    return turn_negative(__byte_perm(__float_as_uint(low), __float_as_uint(high), 0x7632));
}
// What one of them is compared as otherwise.
template <class T> __device__ __forceinline__ auto disordered(int32_t i) {
    if constexpr (is_float<T>) return widen(T{(uint16_t)(i ^ (i >> 15 & 0x7fff))});
    else return i;
}

// Where the first of the greatest of V columns is: of vectors 0, 1, ... The number
// of the vector, counted backwards, is put below an element of 1 or 2 bytes, so that
// the greatest of these is the first of the greatest.
template <class W> struct Best { W w; int32_t at, column; };
template <class T, int V, int size = sizeof(T)> struct PlacesOf {
    using O = Order<T>;
    using W = typename O::W;
    static constexpr int most = 1 << 30;
    W w[V];
    int32_t at[V];
    __device__ __forceinline__ PlacesOf() {
#pragma unroll
        for (int k = 0; k < V; k++) w[k] = O::lowest(), at[k] = 0;
    }
    template <class X> __device__ __forceinline__ void add(const X& vector, int i, const Finish& f) {
        T x[V];
        memcpy(x, &vector, sizeof x);
#pragma unroll
        for (int k = 0; k < V; k++) {
            const W next = O::of(x[k], f);
            const bool over = O::over(next, w[k]);
            w[k] = over ? next : w[k];
            at[k] = over ? i : at[k];
        }
    }
    __device__ __forceinline__ W greatest(int k) const { return w[k]; }
    __device__ __forceinline__ int32_t place(int k) const { return at[k]; }
    __device__ __forceinline__ Best<W> best() const {
        Best<W> b = {w[0], at[0], 0};
#pragma unroll
        for (int k = 1; k < V; k++)
            if (O::over(w[k], b.w) || (at[k] < b.at && !O::over(b.w, w[k]))) b = {w[k], at[k], k};
        return b;
    }
};
template <class T, int V> struct PlacesOf<T, V, 2> {
    static constexpr int most = 1 << 16;
    int32_t keys[V];
    __device__ __forceinline__ PlacesOf() {
#pragma unroll
        for (int k = 0; k < V; k++) keys[k] = (int32_t)(1u << 31);
    }
    template <class X> __device__ __forceinline__ void add(const X& vector, int i, const Finish& f) {
        if constexpr (V > 1) {
            uint32_t x[V / 2];
            memcpy(x, &vector, sizeof x);
            const uint32_t tag = 0xffff - i;
#pragma unroll
            for (int k = 0; k < V / 2; k++) {
                const uint32_t pair = ordered(x[k], f, T());
                keys[2 * k] = max(keys[2 * k], (int32_t)(pair << 16 | tag));
                keys[2 * k + 1] = max(keys[2 * k + 1], (int32_t)((pair & 0xffff0000u) | tag));
            }
        } else {
            uint16_t x;
            memcpy(&x, &vector, 2);
            keys[0] = max(keys[0], (int32_t)(ordered(x, f, T()) << 16 | (0xffff - i)));
        }
    }
    __device__ __forceinline__ auto greatest(int k) const { return disordered<T>(keys[k] >> 16); }
    __device__ __forceinline__ int32_t place(int k) const { return ~keys[k] & 0xffff; }
    __device__ __forceinline__ auto best() const {
        int32_t most = keys[0], column = 0;
#pragma unroll
        for (int k = 1; k < V; k++) most = max(most, keys[k]);
#pragma unroll
        for (int k = V - 1; k >= 0; k--) column = keys[k] == most ? k : column;
        return Best<typename Order<T>::W>{disordered<T>(most >> 16), ~most & 0xffff, column};
    }
};
template <class T, int V> struct PlacesOf<T, V, 1> {
    static constexpr int most = 1 << 8;
    static constexpr int N = V > 4 ? V / 4 : 1;
    uint32_t even[N], odd[N];
    __device__ __forceinline__ PlacesOf() {
#pragma unroll
        for (int k = 0; k < N; k++) even[k] = odd[k] = 0x80008000u;
    }
    template <class X> __device__ __forceinline__ void add(const X& vector, int i, const Finish& f) {
        uint32_t x[N] = {};
        memcpy(x, &vector, V);
        const uint32_t tag = (0xff - i) * 0x10001u;
#pragma unroll
        for (int k = 0; k < N; k++) {
            const uint32_t w = x[k] ^ flips(f);
            odd[k] = greater_pair(odd[k], (w & 0xff00ff00u) | tag);
            even[k] = greater_pair(even[k], (w << 8 & 0xff00ff00u) | tag);
        }
    }
    __device__ __forceinline__ int32_t key(int k) const {
        const uint32_t w = k % 2 ? odd[k / 4] : even[k / 4];
        return k & 2 ? (int32_t)w >> 16 : (int32_t)(w << 16) >> 16;
    }
    __device__ __forceinline__ int32_t greatest(int k) const { return key(k) >> 8; }
    __device__ __forceinline__ int32_t place(int k) const { return ~key(k) & 0xff; }
    __device__ __forceinline__ Best<int32_t> best() const {
        int32_t most = (int32_t)(1u << 31);
#pragma unroll
        for (int k = 0; k < V; k++) most = max(most, key(k) << 16 | (V - 1 - k));
        return {most >> 24, ~(most >> 16) & 0xff, V - 1 - (most & 0xff)};
    }
};

// Where the first of the greatest is.
template <class T> struct ArgMax {
    static constexpr bool is_numbered = true;
    using In = T;
    using O = Order<T>;
    using W = typename O::W;
    struct Acc { W w; int64_t index; };
    using Out = int64_t;
    static __device__ __forceinline__ Acc none() { return {O::lowest(), ~nat}; }
    template <int V> struct Places : PlacesOf<T, V> {
        // Of column k, whose vector i is number + i * step.
        __device__ __forceinline__ Acc of(int k, int64_t number, int64_t step) const { return {this->greatest(k), number + this->place(k) * step}; }
        // Of all columns, which are neighbours in a row.
        __device__ __forceinline__ Acc of_row(int64_t number, int64_t step) const {
            const Best<W> b = this->best();
            return {b.w, number + b.column + b.at * step};
        }
    };
    // Where in a row of few.
    template <int L> static __device__ __forceinline__ Out place(const T (&x)[L], const Finish& f) {
        PlacesOf<T, 1> places;
#pragma unroll
        for (int i = 0; i < L; i++) places.add(x[i], i, f);
        return places.place(0);
    }
    static __device__ __forceinline__ bool is_new(const Acc& a, W w) { return O::over(w, a.w) || a.index == ~nat; }
    static __device__ __forceinline__ Acc one(T x, int64_t index, const Finish& f) { return {O::of(x, f), index}; }
    static __device__ __forceinline__ Acc merge(const Acc& a, const Acc& b) {
        if (O::over(a.w, b.w)) return a;
        if (O::over(b.w, a.w)) return b;
        return a.index <= b.index ? a : b;
    }
    static __device__ __forceinline__ Acc numbered(Acc a, int64_t s, int64_t fold) {
        if (a.index != ~nat) a.index = a.index * fold + s;
        return a;
    }
    static __device__ __forceinline__ Out result(const Acc& a, const Finish&) { return a.index; }
    PUT_RESULT
    static __device__ __forceinline__ void store(const Acc& a, char* out, const Finish&) { *(int64_t*)out = a.index; }
};

// ---- counts

// Of the elements that have any of the bits of flip.
template <class T> struct Count : Unnumbered<int64_t> {
    using In = T;
    using Acc = int64_t;
    using Out = int64_t;
    static __device__ __forceinline__ Acc none() { return 0; }
    static __device__ __forceinline__ bool set(T x, uint64_t mask) { return (x & (T)mask) != 0; }
    // The highest bit of each byte that is not 0.
    static __device__ __forceinline__ uint32_t set_bytes(uint32_t w) { return (((w & 0x7f7f7f7fu) + 0x7f7f7f7fu) | w) & 0x80808080u; }
    template <int N> static __device__ __forceinline__ void fold(Acc& a, const T (&x)[N], const Finish& f) {
        int32_t n = 0;
#pragma unroll
        for (int i = 0; i < N; i++) n += set(x[i], f.flip);
        a += n;
    }
    template <int N> static __device__ __forceinline__ void fold_words(Acc& a, const uint32_t (&w)[N], const Finish&) {
        int32_t n = 0;
#pragma unroll
        for (int i = 0; i < N; i++) n += __popc(set_bytes(w[i]));
        a += n;
    }
    template <int U, int W> static __device__ __forceinline__ void fold_columns(Acc* a, const uint32_t (&w)[U][W], const Finish&) {
#pragma unroll
        for (int i = 0; i < W; i++) {
            uint32_t n = 0;
#pragma unroll
            for (int u = 0; u < U; u++) n += set_bytes(w[u][i]) >> 7;
#pragma unroll
            for (int k = 0; k < 4; k++) a[4 * i + k] += n >> 8 * k & 0xff;
        }
    }
    static __device__ __forceinline__ Acc merge(Acc a, Acc b) { return a + b; }
    static __device__ __forceinline__ Out result(Acc a, const Finish&) { return a; }
    static __device__ __forceinline__ void store(Acc a, char* out, const Finish& f) {
        if (f.what == want_itself) *(int64_t*)out = a;
        else *(uint8_t*)out = f.what == want_any ? a != 0 : a == f.total;
    }
    static __device__ __forceinline__ void put(Acc a, char* out, const Finish& f) { store(a, out, f); }
};
struct alignas(16) Words { uint64_t low, high; };
template <> __device__ __forceinline__ bool Count<Words>::set(Words x, uint64_t mask) { return ((x.low | x.high) & mask) != 0; }
