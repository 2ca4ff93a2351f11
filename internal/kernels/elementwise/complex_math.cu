// Functions of complex numbers. Those of complex64 are computed in double precision.

#include "common/element.cuh"
#include "elementwise/exact.cuh"
#include "elementwise/forms.cuh"
#include "elementwise/ops.cuh"

using C = c128;

// part * exp(x), which may be finite where exp(x) is not.
__device__ __forceinline__ double grown(double x, double part) {
    if (x < 700) return exp(x) * part;
    const double half = exp(x * 0.5);
    return half * part * half;
}

__device__ c128 expm1_of(c128 x) {
    if (x.im == 0) return {expm1(x.re), x.im};
    const double sine = sin(x.im / 2);
    return {expm1(x.re) * cos(x.im) - 2 * sine * sine, grown(x.re, sin(x.im))};
}

__device__ c128 exp2_of(c128 x) {
    const double ln2 = 0.693147180559945309417, low = 2.319046813846299558e-17;
    const double size = exp2(x.re), angle = __dmul_rn(x.im, ln2);
    if (x.im == 0) return {size, x.im};
    const double rest = __fma_rn(x.im, ln2, -angle) + x.im * low;
    double sine, cosine, sine_of_rest, cosine_of_rest;
    sincos(angle, &sine, &cosine);
    sincos(rest, &sine_of_rest, &cosine_of_rest);
    return {size * (cosine * cosine_of_rest - sine * sine_of_rest), size * (sine * cosine_of_rest + cosine * sine_of_rest)};
}

__device__ c128 log_of(c128 x) {
    const double a = absolute_of(x.re), b = absolute_of(x.im), h = hypot_of(x.re, x.im);
    double re = log(h);
    if (h > 0.5 && h < 2) { // near 1 the logarithm is small
        const double most = a > b ? a : b, least = a > b ? b : a;
        re = log1p((most - 1) * (most + 1) + least * least) * 0.5;
    } else if (infinite(h) && is_finite(a) && is_finite(b)) {
        re = log(hypot_of(a * 0.5, b * 0.5)) + 0.693147180559945309417;
    } else if (h < 0x1p-1000) { // where it has few digits
        re = log(hypot_of(a * 0x1p54, b * 0x1p54)) - 54 * 0.693147180559945309417;
    }
    return {re, atan2(x.im, x.re)};
}

__device__ c128 log1p_of(c128 x) {
    if (absolute_of(x.re) < 0.5 && absolute_of(x.im) < 0.5) {
        return {0.5 * log1p(x.re * (2 + x.re) + x.im * x.im), atan2(x.im, 1 + x.re)};
    }
    return log_of({1 + x.re, x.im});
}

__device__ __forceinline__ C times(C x, C y) { return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re}; }

__device__ C root_of(C x) {
    if (x.re == 0 && x.im == 0) return {0, x.im};
    if (infinite(x.im)) return {absolute_of(x.im), x.im};
    if (infinite(x.re)) {
        if (x.re > 0) return {x.re, x.im != x.im ? x.im : copysign_of(0.0, x.im)};
        return {x.im != x.im ? x.im : 0.0, copysign_of(absolute_of(x.re), x.im)};
    }
    // Scaled by a quarter, so that the sum does not overflow; tiny numbers are scaled up.
    const bool small = absolute_of(x.re) < 0x1p-1000 && absolute_of(x.im) < 0x1p-1000;
    const double scale = small ? 0x1p54 : 0.25, back = small ? 0x1p-27 : 2;
    x = {x.re * scale, x.im * scale};
    const double t = root((absolute_of(x.re) + hypot_of(x.re, x.im)) * 0.5);
    if (x.re >= 0) return {t * back, x.im / (2 * t) * back};
    return {absolute_of(x.im) / (2 * t) * back, copysign_of(t, x.im) * back};
}

__device__ C exp_of(C x) {
    if (x.im == 0) return {exp(x.re), x.im};
    const double e = exp(x.re);
    if (e == 0 && !is_finite(x.im)) return {0, 0};
    if (infinite(e) && !is_finite(x.im)) return {e, x.im - x.im};
    double s, c;
    sincos(x.im, &s, &c);
    return {grown(x.re, c), grown(x.re, s)};
}

__device__ __forceinline__ C scaled(C x, double by) { return {x.re * by, x.im * by}; }

__device__ C sinh_of(C x) {
    double s, c;
    sincos(x.im, &s, &c);
    if (x.im == 0) return {sinh(x.re), x.im};
    const double large = absolute_of(x.re);
    if (large > 40 && is_finite(x.im)) return {copysign_of(0.5, x.re) * grown(large, c), 0.5 * grown(large, s)};
    return {sinh(x.re) * c, cosh(x.re) * s};
}
__device__ C cosh_of(C x) {
    double s, c;
    sincos(x.im, &s, &c);
    if (x.re == 0 || x.im == 0) return {cosh(x.re) * c, copysign_of(0.0, x.re) * x.im};
    const double large = absolute_of(x.re);
    if (large > 40 && is_finite(x.im)) return {0.5 * grown(large, c), copysign_of(0.5, x.re) * grown(large, s)};
    return {cosh(x.re) * c, sinh(x.re) * s};
}
__device__ C tanh_of(C x) {
    if (absolute_of(x.re) > 20 && is_finite(x.im)) {
        return {copysign_of(1.0, x.re), 4 * sin(x.im) * cos(x.im) * exp(-2 * absolute_of(x.re))};
    }
    const double t = tan(x.im), beta = 1 + t * t, s = sinh(x.re), rho = root(1 + s * s), d = 1 + beta * s * s;
    return {beta * rho * s / d, t / d};
}
// f(i x) / i: sin and tan in terms of sinh and tanh.
#define TURNED(f, x) ([](C y) { return C{y.im, -y.re}; }(f(C{-(x).im, (x).re})))

__device__ C reciprocal_of(C x) {
    if (absolute_of(x.im) <= absolute_of(x.re)) {
        const double r = x.im / x.re, d = x.re + x.im * r;
        return {1 / d, -r / d};
    }
    const double r = x.re / x.im, d = x.re * r + x.im;
    return {r / d, -1 / d};
}

__device__ C power_of(C x, C y) {
    if (y.re == 0 && y.im == 0) return {1, 0};
    if (x.re == 0 && x.im == 0) {
        if (y.re > 0) return {0, 0};
        const double nan = __longlong_as_double(0x7ff8000000000000ll);
        return {nan, nan};
    }
    const int n = (int)y.re;
    if (y.im == 0 && y.re == n && n > -100 && n < 100) {
        const int whole = n < 0 ? -n : n;
        C r = x;
        for (int bit = 30 - __clz(whole); bit >= 0; bit--) {
            r = times(r, r);
            if (whole >> bit & 1) r = times(r, x);
        }
        return n > 0 ? r : reciprocal_of(r);
    }
    return exp_of(times(y, log_of(x)));
}

template <class T> struct Math {
    using W = T;
    using R = decltype(T{}.re);
    static __device__ __forceinline__ C in(T x) { return {(double)x.re, (double)x.im}; }
    static __device__ __forceinline__ T back(C x) { return {(R)x.re, (R)x.im}; }
    template <int N>
    static __device__ __forceinline__ void apply(int op, const Elements<T, N>& x, const Elements<T, N>& y, Elements<T, N>& r) {
        switch (op) {
        EACH(op_sqrt, back(root_of(in(A))))
        EACH(op_exp, back(exp_of(in(A))))
        EACH(op_log, back(log_of(in(A))))
        EACH(op_log2, back(scaled(log_of(in(A)), 1.44269504088896340736)))
        EACH(op_log10, back(scaled(log_of(in(A)), 0.434294481903251827651)))
        EACH(op_sinh, back(sinh_of(in(A))))
        EACH(op_cosh, back(cosh_of(in(A))))
        EACH(op_tanh, back(tanh_of(in(A))))
        EACH(op_sin, back(TURNED(sinh_of, in(A))))
        EACH(op_cos, back(cosh_of(C{-in(A).im, in(A).re})))
        EACH(op_tan, back(TURNED(tanh_of, in(A))))
        EACH(op_exp2, back(exp2_of(in(A))))
        EACH(op_expm1, back(expm1_of(in(A))))
        EACH(op_log1p, back(log1p_of(in(A))))
        EACH(op_power, back(power_of(in(A), in(B))))
        }
    }
};

NEST_KERNEL(math_c64, c64, c64, Math<c64>)
NEST_KERNEL(math_c128, c128, c128, Math<c128>)
