// Comparisons, logical operations and predicates. Results are bools.

#include "elementwise/exact.cuh"
#include "elementwise/forms.cuh"
#include "elementwise/ops.cuh"

template <class W> __device__ __forceinline__ bool truth(W v) { return v != 0; }
template <class T> struct Compare {
    using W = work<T>;
    template <int N>
    static __device__ __forceinline__ void apply(int op, const Elements<T, N>& x, const Elements<T, N>& y, Elements<uint8_t, N>& r) {
        if constexpr (sizeof(T) == 1) {
            if (words(op, x, y, r)) return;
        }
        switch (op) {
        EACH(op_equal, A == B)
        EACH(op_not_equal, A != B)
        EACH(op_less, A < B)
        EACH(op_less_equal, A <= B)
        EACH(op_greater, A > B)
        EACH(op_greater_equal, A >= B)
        EACH(op_logical_and, truth(A) && truth(B))
        EACH(op_logical_or, truth(A) || truth(B))
        EACH(op_logical_xor, truth(A) != truth(B))
        EACH(op_logical_not, !truth(A))
        default:
            if constexpr (is_float<W>) floats(op, x, r);
            else if constexpr (sizeof(W) == 8 && !is_signed<W>) mixed(op, x, y, r);
            else if constexpr (sizeof(W) == 8) times(op, x, y, r);
        }
    }

    // Four bytes per word.
    template <int N>
    static __device__ __forceinline__ bool words(int op, const Elements<T, N>& x, const Elements<T, N>& y, Elements<uint8_t, N>& r) {
#define WORDS(code, expression)                                 \
    case code:                                                  \
        _Pragma("unroll") for (int k = 0; k < N / 4; k++) {     \
            const uint32_t A = x.w[k], B = y.w[k];              \
            r.w[k] = (expression) & 0x01010101u;                \
        }                                                       \
        return true;
        switch (op) {
        WORDS(op_equal, __vcmpeq4(A, B))
        WORDS(op_not_equal, __vcmpne4(A, B))
        WORDS(op_less, is_signed<T> ? __vcmplts4(A, B) : __vcmpltu4(A, B))
        WORDS(op_less_equal, is_signed<T> ? __vcmples4(A, B) : __vcmpleu4(A, B))
        WORDS(op_greater, is_signed<T> ? __vcmpgts4(A, B) : __vcmpgtu4(A, B))
        WORDS(op_greater_equal, is_signed<T> ? __vcmpges4(A, B) : __vcmpgeu4(A, B))
        }
        return false;
#undef WORDS
    }

    template <int N> static __device__ __forceinline__ void floats(int op, const Elements<T, N>& x, Elements<uint8_t, N>& r) {
        const auto& y = x;
        switch (op) {
        EACH(op_isnan, A != A)
        EACH(op_isinf, infinite(A))
        EACH(op_isfinite, is_finite(A))
        EACH(op_signbit, negative(A))
        }
    }

    // A NaT is not equal to itself.
    template <int N>
    static __device__ __forceinline__ void times(int op, const Elements<T, N>& x, const Elements<T, N>& y, Elements<uint8_t, N>& r) {
        constexpr W nat = (W)(1ull << 63);
        switch (op) {
        EACH(op_time_equal, A == B && A != nat)
        EACH(op_time_not_equal, A != B || A == nat)
        EACH(op_time_less, A < B && A != nat)
        EACH(op_time_less_equal, A <= B && A != nat)
        EACH(op_time_greater, A > B && B != nat)
        EACH(op_time_greater_equal, A >= B && B != nat)
        EACH(op_time_isnan, A == nat)
        EACH(op_time_isfinite, A != nat)
        }
    }

    // An int64 x and a uint64 y.
    template <int N>
    static __device__ __forceinline__ void mixed(int op, const Elements<T, N>& x, const Elements<T, N>& y, Elements<uint8_t, N>& r) {
        switch (op) {
        EACH(op_mixed_equal, (int64_t)A >= 0 && A == B)
        EACH(op_mixed_not_equal, (int64_t)A < 0 || A != B)
        EACH(op_mixed_less, (int64_t)A < 0 || A < B)
        EACH(op_mixed_less_equal, (int64_t)A < 0 || A <= B)
        EACH(op_mixed_greater, (int64_t)A >= 0 && A > B)
        EACH(op_mixed_greater_equal, (int64_t)A >= 0 && A >= B)
        }
    }
};

BINARY_KERNELS(compare_i8, int8_t, uint8_t, Compare<int8_t>)
BINARY_KERNELS(compare_u8, uint8_t, uint8_t, Compare<uint8_t>)
BINARY_KERNELS(compare_i16, int16_t, uint8_t, Compare<int16_t>)
BINARY_KERNELS(compare_u16, uint16_t, uint8_t, Compare<uint16_t>)
BINARY_KERNELS(compare_i32, int32_t, uint8_t, Compare<int32_t>)
BINARY_KERNELS(compare_u32, uint32_t, uint8_t, Compare<uint32_t>)
BINARY_KERNELS(compare_i64, int64_t, uint8_t, Compare<int64_t>)
BINARY_KERNELS(compare_u64, uint64_t, uint8_t, Compare<uint64_t>)
BINARY_KERNELS(compare_f16, f16, uint8_t, Compare<f16>)
BINARY_KERNELS(compare_bf16, bf16, uint8_t, Compare<bf16>)
BINARY_KERNELS(compare_f32, float, uint8_t, Compare<float>)
BINARY_KERNELS(compare_f64, double, uint8_t, Compare<double>)
