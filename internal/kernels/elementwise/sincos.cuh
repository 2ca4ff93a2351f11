// Sine and cosine of floats below 2^16, within 1.8 units in the last place, and without
// branches. CUDA's own functions branch per element on large arguments, which delays memory
// accesses. Most instructions are sums and products, of which a GPU issues twice as many as
// of others.

#pragma once
#include "common/element.cuh"

// sin(x) = (-1)^n sin(x - n pi) for the nearest integer n; for the cosine, n + 1/2. pi is a
// sum of three parts, the first with few bits so that the difference is exact. A zero keeps
// its sign.
template <bool cosine> __device__ __forceinline__ float near_sine(float x) {
    constexpr float whole = 0x1.8p23f, half = cosine ? 0.5f : 0;  // adding `whole` rounds to an integer
    const float shifted = cosine ? __fmaf_rn(x, 0x1.45f306p-2f, -half) + whole : __fmaf_rn(x, 0x1.45f306p-2f, whole);
    const float turns = shifted - whole + half;
    float r = __fmaf_rn(turns, -0x1.921fb4p+1f, x);
    r = __fmaf_rn(turns, -0x1.4442dp-23f, r);
    r = __fmaf_rn(turns, -0x1.84698ap-47f, r);
    // r + r^3 p(r^2), the minimax polynomial for |r| <= pi/2.
    const float s = r * r;
    float p = __fmaf_rn(-0x1.9a666cp-26f, s, 0x1.717068p-19f);
    p = __fmaf_rn(p, s, -0x1.a017d8p-13f);
    p = __fmaf_rn(p, s, 0x1.11111p-7f);
    p = __fmaf_rn(p, s, -0x1.555556p-3f);
    const float v = __fmaf_rn(p, __fmaf_rn(r, s, 0), r);
    return __uint_as_float(__float_as_uint(v) ^ (__float_as_uint(shifted) + cosine) << 31);
}

// Only large elements use CUDA's function, so that the result of an element does not depend
// on its neighbours.
template <bool cosine, int N> __device__ __forceinline__ void sine_or_cosine(const Elements<float, N>& x, Elements<float, N>& r) {
    bool near = true;
#pragma unroll
    for (int k = 0; k < N; k++) near = near && fabsf(x[k]) < 0x1p16f;
#pragma unroll
    for (int k = 0; k < N; k++) r.set(k, near_sine<cosine>(x[k]));
    if (near) return;
#pragma unroll
    for (int k = 0; k < N; k++)
        if (!(fabsf(x[k]) < 0x1p16f)) r.set(k, cosine ? cosf(x[k]) : sinf(x[k]));
}
