// Sine and cosine of floats below 2^16, within 1.5 units in the last place, and
// without a branch: CUDA's own look at each element on its own for one that is too
// large, which leaves memory waiting.

#pragma once
#include "element.cuh"

// What x is off the nearest multiple of pi/2, in three parts of fewer bits so that
// the first product is exact; quarter 1 turns the sine into the cosine. All is
// such that a zero keeps its sign.
__device__ __forceinline__ float near_sine(float x, uint32_t quarter) {
    constexpr float whole = 0x1.8p23f;  // added, leaves no bits for a fraction
    const float shifted = __fmaf_rn(x, 0x1.45f306p-1f, whole);
    quarter += __float_as_uint(shifted);
    const float turns = shifted - whole;
    float r = __fmaf_rn(turns, -0x1.921fb4p+0f, x);
    r = __fmaf_rn(turns, -0x1.4442dp-24f, r);
    r = __fmaf_rn(turns, -0x1.84698ap-48f, r);
    // The series that are best for |r| <= pi/4: r + r^3 p(r^2) and 1 + r^2 p(r^2).
    const bool odd = quarter & 1;
    const float s = r * r, first = odd ? 1 : r;
    float p = odd ? 0x1.99e9fap-16f : 0x1.6cd0ap-19f;
    p = __fmaf_rn(p, s, odd ? -0x1.6c0c2ep-10f : -0x1.a00f7ap-13f);
    p = __fmaf_rn(p, s, odd ? 0x1.55554ap-5f : 0x1.111108p-7f);
    p = __fmaf_rn(p, s, odd ? -0.5f : -0x1.555556p-3f);
    const float v = __fmaf_rn(p, __fmaf_rn(first, s, 0), first);
    return __uint_as_float(__float_as_uint(v) ^ (quarter & 2) << 30);
}

template <int quarter, int N> __device__ __forceinline__ void circle(const Elements<float, N>& x, Elements<float, N>& r) {
    bool near = true;
#pragma unroll
    for (int k = 0; k < N; k++) near = near && fabsf(x[k]) < 0x1p16f;
    if (near) {
#pragma unroll
        for (int k = 0; k < N; k++) r.set(k, near_sine(x[k], quarter));
    } else {
#pragma unroll
        for (int k = 0; k < N; k++) r.set(k, quarter ? cosf(x[k]) : sinf(x[k]));
    }
}
