// Products that the compiler does not fuse with sums, and functions with one name for float
// and double.

#pragma once
#include <stdint.h>

#define BOTH(name, f32, f64)                                           \
    __device__ __forceinline__ float name(float a) { return f32; }    \
    __device__ __forceinline__ double name(double a) { return f64; }
#define BOTH2(name, f32, f64)                                                   \
    __device__ __forceinline__ float name(float a, float b) { return f32; }    \
    __device__ __forceinline__ double name(double a, double b) { return f64; }

BOTH2(product, __fmul_rn(a, b), __dmul_rn(a, b))
BOTH2(copysign_of, copysignf(a, b), copysign(a, b))
BOTH2(hypot_of, hypotf(a, b), hypot(a, b))
BOTH(absolute_of, fabsf(a), fabs(a))
BOTH(root, __fsqrt_rn(a), __dsqrt_rn(a))
BOTH(floor_of, floorf(a), floor(a))
BOTH(ceil_of, ceilf(a), ceil(a))
BOTH(trunc_of, truncf(a), trunc(a))
BOTH(rint_of, rintf(a), rint(a))

__device__ __forceinline__ bool is_finite(float v) { return fabsf(v) <= 0x1.fffffep127f; }
__device__ __forceinline__ bool is_finite(double v) { return fabs(v) <= 0x1.fffffffffffffp1023; }
template <class R> __device__ __forceinline__ bool infinite(R v) { return v == v && !is_finite(v); }
__device__ __forceinline__ bool negative(float v) { return __float_as_int(v) < 0; }
__device__ __forceinline__ bool negative(double v) { return __double_as_longlong(v) < 0; }
