// The order of elements, one by one and several per word.

#pragma once
#include "reduce/op.cuh"

// The order of elements of type T. W is the type in which they are compared; over reports
// whether a is greater than b; best returns the greater one. A NaN is greater than all
// numbers.
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

// Real floats. flip is 0 or 2^63.
template <class R> struct OrderReal {
    using W = R;
    using B = decltype(bits(R()));
    static __device__ __forceinline__ W lowest() { return (W)(-1e300 * 1e300); }
    static __device__ __forceinline__ W turn(W w, const Finish& f) {
        const int32_t sign = (int32_t)(f.flip >> 32);
        if constexpr (sizeof(R) == 8) return __hiloint2double(__double2hiint(w) ^ sign, __double2loint(w));
        else return from_bits(bits(w) ^ (B)sign);
    }
    static __device__ __forceinline__ bool over(W a, W b) { return !(a <= b) && b == b; }
    // Of zeros it returns +0 rather than -0.
    static __device__ __forceinline__ W best(W a, W b) {
#if __CUDA_ARCH__ >= 800
        if constexpr (sizeof(R) == 4) {
            W m;
            asm("max.NaN.f32 %0, %1, %2;" : "=f"(m) : "f"(a), "f"(b));
            return m;
        }
#endif
        constexpr B all_but_sign = ~(B)0 >> 1;
        return !(a < b) && b == b ? from_bits((B)(bits(a) & (bits(b) | all_but_sign))) : b;
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
// Lexicographic order: real parts, then imaginary parts. A complex number is a NaN if
// either part is.
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

// Returns the greater of two signed 16-bit integers in each half.
__device__ __forceinline__ uint32_t greater_pair(uint32_t a, uint32_t b) {
#if __CUDA_ARCH__ >= 900
    uint32_t m;
    asm("max.s16x2 %0, %1, %2;" : "=r"(m) : "r"(a), "r"(b));
    return m;
#else
    return __vmaxs2(a, b);
#endif
}

// Returns the greatest byte of flipped integers. Bytes are compared in the upper halves of
// 16-bit integers, two per word; the lower halves do not matter.
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
// Returns the greater of two flipped 2-byte elements in each half; floats are compared as
// in Order.
template <class T> __device__ __forceinline__ uint32_t best_pair(uint32_t a, uint32_t b) {
    if constexpr (!is_float<T>) {
        return greater_pair(a, b);
    } else {
#if __CUDA_ARCH__ >= 800
        uint32_t m;
        if constexpr (is_same<T, f16>) asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(m) : "r"(a), "r"(b));
        else asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(m) : "r"(a), "r"(b));
        return m;
#else
        T low, high;
        narrow(OrderReal<float>::best(widen(T{(uint16_t)a}), widen(T{(uint16_t)b})), low);
        narrow(OrderReal<float>::best(widen(T{(uint16_t)(a >> 16)}), widen(T{(uint16_t)(b >> 16)})), high);
        return low.bits | (uint32_t)high.bits << 16;
#endif
    }
}
template <class T> __device__ __forceinline__ uint32_t flip_pair(const Finish& f) {
    return is_float<T> ? (uint32_t)(f.flip >> 32 & 0x80000000u | f.flip >> 48) : ((uint32_t)f.flip & 0xffff) * 0x10001u;
}

// Inverts the bits of negative numbers below the sign, as larger magnitudes are smaller
// numbers.
__device__ __forceinline__ uint32_t turn_negative(uint32_t w) {
    uint32_t signs;  // each half's sign, 16 times
    asm("prmt.b32 %0, %1, 0, 0xbb99;" : "=r"(signs) : "r"(w));
    return w ^ (signs & 0x7fff7fffu);
}

// Converts two 16-bit elements of a word to 16-bit integers of the same order, equal where
// NumPy's comparison is: -0 becomes 0, and a NaN the greatest.
__device__ __forceinline__ uint32_t ordered(uint32_t w, const Finish& f, uint16_t) { return w ^ flip_pair<uint16_t>(f); }
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
