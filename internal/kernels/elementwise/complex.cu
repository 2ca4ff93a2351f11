// Arithmetic and comparisons of complex numbers. Products and quotients are computed in
// NumPy's order of operations, with nothing fused. The order is lexicographic: real parts
// first, then imaginary parts.

#include "elementwise/exact.cuh"
#include "elementwise/forms.cuh"
#include "elementwise/ops.cuh"

template <class R> using C = complex<R>;
#define INLINE template <class R> __device__ __forceinline__

INLINE C<R> times(C<R> x, C<R> y) {
    return {product(x.re, y.re) - product(x.im, y.im), product(x.re, y.im) + product(x.im, y.re)};
}

// Smith's division.
INLINE C<R> over(C<R> x, C<R> y) {
    const R re = absolute_of(y.re), im = absolute_of(y.im);
    if (re >= im) {
        if (re == 0 && im == 0) return {x.re / re, x.im / re};
        const R r = y.im / y.re, scale = 1 / (y.re + product(y.im, r));
        return {product(x.re + product(x.im, r), scale), product(x.im - product(x.re, r), scale)};
    }
    const R r = y.re / y.im, scale = 1 / (y.im + product(y.re, r));
    return {product(product(x.re, r) + x.im, scale), product(product(x.im, r) - x.re, scale)};
}

INLINE C<R> reciprocal(C<R> x) {
    if (absolute_of(x.im) <= absolute_of(x.re)) {
        const R r = x.im / x.re, d = x.re + product(x.im, r);
        return {1 / d, -r / d};
    }
    const R r = x.re / x.im, d = product(x.re, r) + x.im;
    return {r / d, -1 / d};
}

INLINE bool is_nan(C<R> x) { return x.re != x.re || x.im != x.im; }
INLINE bool is_infinite(C<R> x) { return infinite(x.re) || infinite(x.im); }
INLINE bool truth(C<R> x) { return x.re != 0 || x.im != 0; }
INLINE bool are_equal(C<R> x, C<R> y) { return x.re == y.re && x.im == y.im; }
INLINE bool less(C<R> x, C<R> y) { return (x.re < y.re && x.im == x.im && y.im == y.im) || (x.re == y.re && x.im < y.im); }
INLINE bool less_equal(C<R> x, C<R> y) {
    return (x.re < y.re && x.im == x.im && y.im == y.im) || (x.re == y.re && x.im <= y.im);
}

// x / |x|.
INLINE C<R> sign(C<R> x) {
    const R size = hypot_of(x.re, x.im);
    if (size == 0) return {0, 0};
    if (infinite(size) && !(infinite(x.re) && infinite(x.im))) {
        if (infinite(x.re)) return {x.re > 0 ? (R)1 : (R)-1, 0};
        if (infinite(x.im)) return {0, x.im > 0 ? (R)1 : (R)-1};
    }
    return {x.re / size, x.im / size};
}

template <class T> struct Arithmetic;
template <class R> struct Arithmetic<C<R>> {
    using T = C<R>;
    using W = T;
    template <int N>
    static __device__ __forceinline__ void apply(int op, const Elements<T, N>& x, const Elements<T, N>& y, Elements<T, N>& r) {
        switch (op) {
        EACH(op_add, (W{A.re + B.re, A.im + B.im}))
        EACH(op_subtract, (W{A.re - B.re, A.im - B.im}))
        EACH(op_multiply, times(A, B))
        EACH(op_divide, over(A, B))
        EACH(op_maximum, less_equal(B, A) || is_nan(A) ? A : B)
        EACH(op_minimum, less_equal(A, B) || is_nan(A) ? A : B)
        EACH(op_fmax, less_equal(B, A) || is_nan(B) ? A : B)
        EACH(op_fmin, less_equal(A, B) || is_nan(B) ? A : B)
        EACH(op_positive, A)
        EACH(op_negative, (W{-A.re, -A.im}))
        EACH(op_conjugate, (W{A.re, -A.im}))
        EACH(op_sign, sign(A))
        EACH(op_square, times(A, A))
        EACH(op_reciprocal, reciprocal(A))
        EACH(op_rint, (W{rint_of(A.re), rint_of(A.im)}))
        }
    }
};

template <class T> struct Compare;
template <class R> struct Compare<C<R>> {
    using T = C<R>;
    using W = T;
    template <int N>
    static __device__ __forceinline__ void apply(int op, const Elements<T, N>& x, const Elements<T, N>& y,
                                                 Elements<uint8_t, N>& r) {
        switch (op) {
        EACH(op_equal, are_equal(A, B))
        EACH(op_not_equal, !are_equal(A, B))
        EACH(op_less, less(A, B))
        EACH(op_less_equal, less_equal(A, B))
        EACH(op_greater, less(B, A))
        EACH(op_greater_equal, less_equal(B, A))
        EACH(op_logical_and, truth(A) && truth(B))
        EACH(op_logical_or, truth(A) || truth(B))
        EACH(op_logical_xor, truth(A) != truth(B))
        EACH(op_logical_not, !truth(A))
        EACH(op_isnan, is_nan(A))
        EACH(op_isinf, is_infinite(A))
        EACH(op_isfinite, is_finite(A.re) && is_finite(A.im))
        }
    }
};

BOTH2(angle_of, atan2f(a, b), atan2(a, b))

// Operations with a real result.
template <class T> struct Parts;
template <class R> struct Parts<C<R>> {
    using T = C<R>;
    using W = T;
    template <int N>
    static __device__ __forceinline__ void apply(int op, const Elements<T, N>& x, const Elements<T, N>& y, Elements<R, N>& r) {
        switch (op) {
        EACH(op_absolute, hypot_of(A.re, A.im))
        EACH(op_real, A.re)
        EACH(op_imag, A.im)
        EACH(op_angle, angle_of(A.im, A.re))
        }
    }
};

BINARY_KERNELS(arithmetic_c64, c64, c64, Arithmetic<c64>)
BINARY_KERNELS(arithmetic_c128, c128, c128, Arithmetic<c128>)
BINARY_KERNELS(compare_c64, c64, uint8_t, Compare<c64>)
BINARY_KERNELS(compare_c128, c128, uint8_t, Compare<c128>)
BINARY_KERNELS(parts_c64, c64, float, Parts<c64>)
BINARY_KERNELS(parts_c128, c128, double, Parts<c128>)
