// Functions of complex numbers that are inverse to others, or near them: those
// of internal/cpu/elementwise/complex_inverse.go, where the reasons are.

#pragma once
#include "elementwise/exact.cuh"
#include "common/element.cuh"

__device__ __forceinline__ c128 swapped(c128 x) { return {x.im, x.re}; }
__device__ __forceinline__ double not_a_number() { return __longlong_as_double(0x7ff8000000000000ll); }

struct ArcsinParts {
    double sine, cosine, im;
};

__device__ ArcsinParts arcsin_parts(double x, double y) {
    if (!(x < 1e15 && y < 1e15)) return {atan2(x, y), atan2(y, x), log(hypot(x / 2, y / 2)) + 2 * 0.693147180559945309417};
    const double r = hypot(x + 1, y), s = hypot(x - 1, y), a = (r + s) / 2;
    const double least = y * y / (r + (x + 1));
    const double above1 = x < 1 ? 0.5 * (least + y * (y / (s + (1 - x)))) : 0.5 * (least + (s + (x - 1)));
    const double above_x = x <= 1 ? 0.5 * (least + (s + (1 - x))) : 0.5 * y * (y / (r + (x + 1)) + y / (s + (x - 1)));
    ArcsinParts p;
    if (x <= 0.6417 * a) {
        p.sine = asin(x / a), p.cosine = acos(x / a);
    } else {
        const double other = root((a + x) * above_x);
        p.sine = atan2(x, other), p.cosine = atan2(other, x);
    }
    if (a > 1.5) p.im = log(a + root(a * a - 1));
    else if (x < 1 && y < 1e-8 * (1 - x)) p.im = y / root((1 - x) * (1 + x));
    else p.im = log1p(above1 + root(above1 * (a + 1)));
    return p;
}

__device__ c128 arcsin_nan(c128 x) {
    if (infinite(x.re) || infinite(x.im)) return {not_a_number(), copysign_of(1 / 0.0, x.im)};
    if (x.re == 0 || x.im == 0) return x;
    return {not_a_number(), not_a_number()};
}

__device__ c128 arcsin_of(c128 x) {
    if (x.re != x.re || x.im != x.im) return arcsin_nan(x);
    const ArcsinParts p = arcsin_parts(absolute_of(x.re), absolute_of(x.im));
    return {copysign_of(p.sine, x.re), copysign_of(p.im, x.im)};
}

__device__ c128 arccos_of(c128 x) {
    const double pi = 3.14159265358979323846;
    if (x.re != x.re || x.im != x.im) {
        const double im = arcsin_nan(x).im;
        return x.re == 0 ? c128{pi / 2, im} : c128{not_a_number(), -im};
    }
    const ArcsinParts p = arcsin_parts(absolute_of(x.re), absolute_of(x.im));
    return {negative(x.re) ? pi - p.cosine : p.cosine, -copysign_of(p.im, x.im)};
}

__device__ c128 arccosh_of(c128 x) {
    const c128 w = arccos_of(x);
    return {absolute_of(w.im), copysign_of(w.re, x.im)};
}

__device__ c128 arctanh_of(c128 z) {
    const double half_pi = 1.57079632679489661923, x = absolute_of(z.re), y = absolute_of(z.im);
    double re, im;
    if (infinite(x) || infinite(y)) {
        re = 0, im = y != y ? y : half_pi;
    } else if (x != x || y != y) {
        re = x == 0 ? 0 : not_a_number(), im = not_a_number();
    } else if (x > 1e150 || y > 1e150) {
        const double h = hypot(x, y);
        re = x / h / h, im = half_pi;
    } else if (x == 1 && y < 1e-100) {
        re = 0.5 * (0.693147180559945309417 - log(y)), im = 0.5 * atan2(2 * y, 0.0);
    } else {
        re = 0.25 * log1p(4 * x / ((1 - x) * (1 - x) + y * y));
        im = 0.5 * atan2(2 * y, (1 - x) * (1 + x) - y * y);
    }
    return {copysign_of(re, z.re), copysign_of(im, z.im)};
}

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
