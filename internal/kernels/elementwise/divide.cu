// Integer operations of many instructions. A thread computes one element, as the code would
// be large if it were unrolled over vectors.

#include "elementwise/forms.cuh"
#include "elementwise/ops.cuh"

// Division by zero gives 0. The smallest integer divided by -1 is itself.
template <class T> __device__ __forceinline__ T quotient(T x, T y) {
    if (y == 0) return 0;
    if (is_signed<T> && y == (T)-1) return (T)(0 - (uint64_t)x);
    return x / y;
}
template <class T> __device__ __forceinline__ T modulus(T x, T y) {
    if (y == 0 || (is_signed<T> && y == (T)-1)) return 0;
    return x % y;
}
template <class T> __device__ __forceinline__ T floor_divide(T x, T y) {
    const T q = quotient(x, y), r = modulus(x, y);
    return r != 0 && (r < 0) != (y < 0) ? q - 1 : q;
}
template <class T> __device__ __forceinline__ T remainder(T x, T y) {
    const T r = modulus(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

// Integer power. For a negative exponent it is the exact power rounded towards zero.
template <class T> __device__ __forceinline__ T power(T base, T exponent) {
    if (exponent < 0) return base == 1 ? 1 : base == (T)-1 ? (exponent & 1 ? -1 : 1) : 0;
    uint64_t r = 1, x = (uint64_t)base;
#pragma unroll 1
    for (T y = exponent; y != 0; y >>= 1) {
        if (y & 1) r *= x;
        x *= x;
    }
    return (T)r;
}

template <class T> struct Divide {
    using W = T;
    template <int N>
    static __device__ __forceinline__ void apply(int op, const Elements<T, N>& x, const Elements<T, N>& y, Elements<T, N>& r) {
        switch (op) {
        EACH(op_floor_divide, floor_divide<T>(A, B))
        EACH(op_remainder, remainder<T>(A, B))
        EACH(op_fmod, modulus<T>(A, B))
        EACH(op_power, power<T>(A, B))
        EACH(op_reciprocal, quotient<T>(1, A))
        default:
            if constexpr (sizeof(T) == 8 && is_signed<T>) times(op, x, y, r);
        }
    }

    // Times divided by integers and by times. If there is no result, a time is NaT and an
    // integer is 0.
    template <int N>
    static __device__ __forceinline__ void times(int op, const Elements<T, N>& x, const Elements<T, N>& y, Elements<T, N>& r) {
        constexpr T nat = (T)(1ull << 63);
        switch (op) {
        EACH(op_time_divide, A == nat || B == 0 ? nat : quotient<T>(A, B))
        EACH(op_time_quotient, A == nat || B == nat ? 0 : floor_divide<T>(A, B))
        EACH(op_time_remainder, A == nat || B == nat || B == 0 ? nat : remainder<T>(A, B))
        }
    }
};

NEST_KERNEL(math_i8, int8_t, int8_t, Divide<int8_t>)
NEST_KERNEL(math_u8, uint8_t, uint8_t, Divide<uint8_t>)
NEST_KERNEL(math_i16, int16_t, int16_t, Divide<int16_t>)
NEST_KERNEL(math_u16, uint16_t, uint16_t, Divide<uint16_t>)
NEST_KERNEL(math_i32, int32_t, int32_t, Divide<int32_t>)
NEST_KERNEL(math_u32, uint32_t, uint32_t, Divide<uint32_t>)
NEST_KERNEL(math_i64, int64_t, int64_t, Divide<int64_t>)
NEST_KERNEL(math_u64, uint64_t, uint64_t, Divide<uint64_t>)
