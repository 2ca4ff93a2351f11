// Functions of floats. float16 and bfloat16 are loaded and stored as such, and computed in
// float32. docs/ufuncs.md lists the errors in units of the last place; floor_divide,
// remainder and fmod are exact.

#include "elementwise/sincos.cuh"
#include "elementwise/exact.cuh"
#include "elementwise/forms.cuh"
#include "elementwise/ops.cuh"

#define FUNCTION(name) BOTH(name##_of, name##f(a), name(a))
FUNCTION(cbrt) FUNCTION(exp) FUNCTION(exp2) FUNCTION(expm1) FUNCTION(log) FUNCTION(log2) FUNCTION(log10) FUNCTION(log1p)
FUNCTION(sin) FUNCTION(cos) FUNCTION(tan) FUNCTION(asin) FUNCTION(acos) FUNCTION(atan)
FUNCTION(sinh) FUNCTION(cosh) FUNCTION(tanh) FUNCTION(asinh) FUNCTION(acosh) FUNCTION(atanh)
BOTH2(fmod_of, fmodf(a, b), fmod(a, b))
BOTH2(near_pow_of, powf(a, b), pow(a, b))
BOTH2(atan2_of, atan2f(a, b), atan2(a, b))
BOTH2(nextafter_of, nextafterf(a, b), nextafter(a, b))

// nextafter of values of the 16-bit type T that are held as floats.
template <class T> __device__ __forceinline__ float nextafter_half(float a, float b) {
    if (a != a || b != b) return a + b;
    if (a == b) return b;
    T next;
    narrow(a, next);
    if (a == 0) next.bits = b < 0 ? 0x8001 : 1;
    else next.bits += (a < b) == (a > 0) ? 1 : -1;
    return widen(next);
}

// The rounding error of a product.
template <class W> __device__ __forceinline__ W rest_of(W a, W b) { return fma(a, b, -product(a, b)); }

// Integral powers that are representable are exact: pow may be off by a unit in the last
// place, so products without rounding errors are preferred.
template <class W> __device__ __forceinline__ W pow_of(W x, W y) {
    constexpr W huge = (W)(sizeof(W) == 8 ? 1e290 : 1e30);  // for powers below it, rounding errors of products do not underflow
    const W near = near_pow_of(x, y), size = absolute_of(near);
    int left = (int)absolute_of(y);
    if (left != absolute_of(y) || left > 64 || !(size > 1 / huge && size < huge)) return near;
    W power = 1, square = x;
    bool exact = true;
    for (; left; left >>= 1) {
        if (left & 1) {
            exact &= rest_of(power, square) == 0;
            power *= square;
        }
        if (left > 1) {
            exact &= rest_of(square, square) == 0;
            square *= square;
        }
    }
    if (y < 0) {
        const W inverse = 1 / power;
        exact &= rest_of(inverse, power) == 0 && inverse * power == 1;
        power = inverse;
    }
    return exact ? power : near;
}

// The remainder has the sign of y, even if it is zero.
template <class W> __device__ __forceinline__ W remainder_of(W x, W y) {
    const W r = fmod_of(x, y);
    if (y == 0 || r != r) return r;
    if (r == 0) return copysign_of((W)0, y);
    return (r < 0) != (y < 0) ? r + y : r;
}

// Python's x // y, as exactly as the type allows.
template <class W> __device__ __forceinline__ W floor_divide_of(W x, W y) {
    if (y == 0) return x / y;
    const W r = fmod_of(x, y);
    W q = (x - r) / y;
    if (r != 0 && (r < 0) != (y < 0)) q -= 1;
    if (q == 0) return copysign_of((W)0, x / y);
    const W whole = floor_of(q);
    return q - whole > (W)0.5 ? whole + 1 : whole;
}

template <class T> struct Math {
    using W = T;
    template <int N>
    static __device__ __forceinline__ void apply(int op, const Elements<T, N>& x, const Elements<T, N>& y, Elements<T, N>& r) {
        if constexpr (sizeof(T) == 4) {
            if (op == op_sin) return sine_or_cosine<false>(x, r);
            if (op == op_cos) return sine_or_cosine<true>(x, r);
            switch (op) {
            EACH(op_nextafter_float16, nextafter_half<f16>(A, B))
            EACH(op_nextafter_bfloat16, nextafter_half<bf16>(A, B))
            }
        }
        switch (op) {
        EACH(op_floor_divide, floor_divide_of(A, B))
        EACH(op_remainder, remainder_of(A, B))
        EACH(op_fmod, fmod_of(A, B))
        EACH(op_power, pow_of(A, B))
        EACH(op_arctan2, atan2_of(A, B))
        EACH(op_hypot, hypot_of(A, B))
        EACH(op_nextafter, nextafter_of(A, B))
        EACH(op_angle, A != A ? A : negative(A) ? (W)3.14159265358979323846 : (W)0)
        EACH(op_cbrt, cbrt_of(A))
        EACH(op_exp, exp_of(A))
        EACH(op_exp2, exp2_of(A))
        EACH(op_expm1, expm1_of(A))
        EACH(op_log, log_of(A))
        EACH(op_log2, log2_of(A))
        EACH(op_log10, log10_of(A))
        EACH(op_log1p, log1p_of(A))
        EACH(op_sin, sin_of(A))
        EACH(op_cos, cos_of(A))
        EACH(op_tan, tan_of(A))
        EACH(op_arcsin, asin_of(A))
        EACH(op_arccos, acos_of(A))
        EACH(op_arctan, atan_of(A))
        EACH(op_sinh, sinh_of(A))
        EACH(op_cosh, cosh_of(A))
        EACH(op_tanh, tanh_of(A))
        EACH(op_arcsinh, asinh_of(A))
        EACH(op_arccosh, acosh_of(A))
        EACH(op_arctanh, atanh_of(A))
        }
    }
};

DENSE_KERNEL(math_f32, float, float, Math<float>)
NEST_KERNEL(math_f32, float, float, Math<float>)
DENSE_KERNEL(math_f64, double, double, Math<double>)
NEST_KERNEL(math_f64, double, double, Math<double>)
