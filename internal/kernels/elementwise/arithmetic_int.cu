// Arithmetic of integers with wraparound, and of times.

#include "elementwise/forms.cuh"
#include "elementwise/ops.cuh"

template <class T> struct Unsigned;
template <> struct Unsigned<int8_t> { using type = uint32_t; };
template <> struct Unsigned<uint8_t> { using type = uint32_t; };
template <> struct Unsigned<int16_t> { using type = uint32_t; };
template <> struct Unsigned<uint16_t> { using type = uint32_t; };
template <> struct Unsigned<int32_t> { using type = uint32_t; };
template <> struct Unsigned<uint32_t> { using type = uint32_t; };
template <> struct Unsigned<int64_t> { using type = uint64_t; };
template <> struct Unsigned<uint64_t> { using type = uint64_t; };

// x << s and x >> s with NumPy's results: a count that is negative, or at least the number
// of bits, shifts all bits out.
template <class T> __device__ __forceinline__ T shift_left(T x, T s) {
    using U = typename Unsigned<T>::type;
    return (uint64_t)s < sizeof(T) * 8 ? (T)((U)x << (int)s) : (T)0;
}
template <class T> __device__ __forceinline__ T shift_right(T x, T s) {
    return (uint64_t)s < sizeof(T) * 8 ? (T)(x >> (int)s) : x < 0 ? (T)-1 : (T)0;
}

template <class T> struct Arithmetic {
    using W = T;
    using U = typename Unsigned<T>::type;
    // Four bytes per word.
    template <int N> static __device__ __forceinline__ bool words(int op, const Elements<T, N>& x, const Elements<T, N>& y, Elements<T, N>& r) {
#define WORDS(code, expression)                                 \
    case code:                                                  \
        _Pragma("unroll") for (int k = 0; k < N / 4; k++) {     \
            const uint32_t A = x.w[k], B = y.w[k];              \
            r.w[k] = expression;                                \
        }                                                       \
        return true;
        switch (op) {
        WORDS(op_add, __vadd4(A, B))
        WORDS(op_subtract, __vsub4(A, B))
        }
        return false;
#undef WORDS
    }

    template <int N> static __device__ __forceinline__ void apply(int op, const Elements<T, N>& x, const Elements<T, N>& y, Elements<T, N>& r) {
        if constexpr (sizeof(T) == 1) {
            if (words(op, x, y, r)) return;
        }
        switch (op) {
        EACH(op_add, (T)((U)A + (U)B))
        EACH(op_subtract, (T)((U)A - (U)B))
        EACH(op_multiply, (T)((U)A * (U)B))
        case op_fmax:
        EACH(op_maximum, A > B ? A : B)
        case op_fmin:
        EACH(op_minimum, A < B ? A : B)
        EACH(op_and, (T)(A & B))
        EACH(op_or, (T)(A | B))
        EACH(op_xor, (T)(A ^ B))
        EACH(op_left_shift, shift_left<T>(A, B))
        EACH(op_right_shift, shift_right<T>(A, B))
        EACH(op_positive, A)
        EACH(op_imag, (T)0)
        EACH(op_negative, (T)(0 - (U)A))
        EACH(op_absolute, A < 0 ? (T)(0 - (U)A) : A)
        EACH(op_sign, (T)((A > 0) - (A < 0)))
        EACH(op_square, (T)((U)A * (U)A))
        EACH(op_invert, (T)~A)
        default:
            if constexpr (sizeof(T) == 8 && is_signed<T>) times(op, x, y, r);
        }
    }

    // Times: a NaT operand makes the result NaT, except for op_time_fmax and op_time_fmin.
    template <int N> static __device__ __forceinline__ void times(int op, const Elements<T, N>& x, const Elements<T, N>& y, Elements<T, N>& r) {
        constexpr T nat = (T)(1ull << 63);
        switch (op) {
        EACH(op_time_add, A == nat || B == nat ? nat : (T)((U)A + (U)B))
        EACH(op_time_subtract, A == nat || B == nat ? nat : (T)((U)A - (U)B))
        EACH(op_time_multiply, A == nat || B == nat ? nat : (T)((U)A * (U)B))
        EACH(op_time_maximum, A == nat || (B != nat && A >= B) ? A : B)
        EACH(op_time_minimum, A == nat || (B != nat && A <= B) ? A : B)
        EACH(op_time_fmax, B == nat || (A != nat && A >= B) ? A : B)
        EACH(op_time_fmin, B == nat || (A != nat && A <= B) ? A : B)
        EACH(op_time_negative, (T)(0 - (U)A))
        EACH(op_time_absolute, A < 0 ? (T)(0 - (U)A) : A)
        }
    }
};

BINARY_KERNELS(arithmetic_i8, int8_t, int8_t, Arithmetic<int8_t>)
BINARY_KERNELS(arithmetic_u8, uint8_t, uint8_t, Arithmetic<uint8_t>)
BINARY_KERNELS(arithmetic_i16, int16_t, int16_t, Arithmetic<int16_t>)
BINARY_KERNELS(arithmetic_u16, uint16_t, uint16_t, Arithmetic<uint16_t>)
BINARY_KERNELS(arithmetic_i32, int32_t, int32_t, Arithmetic<int32_t>)
BINARY_KERNELS(arithmetic_u32, uint32_t, uint32_t, Arithmetic<uint32_t>)
BINARY_KERNELS(arithmetic_i64, int64_t, int64_t, Arithmetic<int64_t>)
BINARY_KERNELS(arithmetic_u64, uint64_t, uint64_t, Arithmetic<uint64_t>)
