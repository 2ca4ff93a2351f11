// Arithmetic of floats. Each operation is rounded once: nothing is fused, and quotients and
// roots are correctly rounded. The 16-bit types are computed in float32.

#include "elementwise/exact.cuh"
#include "elementwise/forms.cuh"
#include "elementwise/ops.cuh"

template <class T> struct Arithmetic {
    using W = work<T>;
    // Two sums, differences or products in a word. They equal those of float32, which has
    // enough bits that the second rounding changes nothing.
    template <int N> static __device__ __forceinline__ bool halves(int op, const Elements<f16, N>& x, const Elements<f16, N>& y, Elements<f16, N>& r) {
#define HALVES(code, instruction)                                                                              \
    case code:                                                                                                 \
        _Pragma("unroll") for (int k = 0; k < N / 2; k++)                                                      \
            asm(instruction ".rn.f16x2 %0, %1, %2;" : "=r"(r.w[k]) : "r"(x.w[k]), "r"(y.w[k]));               \
        return true;
        switch (op) {
        HALVES(op_add, "add")
        HALVES(op_subtract, "sub")
        HALVES(op_multiply, "mul")
        }
        return false;
#undef HALVES
    }

    template <int N> static __device__ __forceinline__ void apply(int op, const Elements<T, N>& x, const Elements<T, N>& y, Elements<T, N>& r) {
        if constexpr (is_same<T, f16>) {
            if (halves(op, x, y, r)) return;
        }
        switch (op) {
        EACH(op_add, A + B)
        EACH(op_subtract, A - B)
        EACH(op_multiply, A * B)
        EACH(op_divide, A / B)
        EACH(op_maximum, A >= B || A != A ? A : B)
        EACH(op_minimum, A <= B || A != A ? A : B)
        EACH(op_fmax, A >= B || B != B ? A : B)
        EACH(op_fmin, A <= B || B != B ? A : B)
        EACH(op_copysign, copysign_of(A, B))
        EACH(op_positive, A)
        EACH(op_imag, (W)0)
        EACH(op_negative, -A)
        EACH(op_absolute, absolute_of(A))
        EACH(op_sign, A > 0 ? (W)1 : A < 0 ? (W)-1 : A == 0 ? (W)0 : A)
        EACH(op_square, A * A)
        EACH(op_reciprocal, (W)1 / A)
        EACH(op_sqrt, root(A))
        EACH(op_floor, floor_of(A))
        EACH(op_ceil, ceil_of(A))
        EACH(op_trunc, trunc_of(A))
        EACH(op_rint, rint_of(A))
        }
    }
};

BINARY_KERNELS(arithmetic_f16, f16, f16, Arithmetic<f16>)
BINARY_KERNELS(arithmetic_bf16, bf16, bf16, Arithmetic<bf16>)
BINARY_KERNELS(arithmetic_f32, float, float, Arithmetic<float>)
BINARY_KERNELS(arithmetic_f64, double, double, Arithmetic<double>)
