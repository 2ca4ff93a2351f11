// Converts one element to another type, as NumPy casts on x86-64.
//
// A float becomes an integer by truncation. Numbers out of range, infinities and NaNs give
// the results of that processor's instructions: an int32, or for uint32 an int64, that is
// the smallest one if it cannot hold the number, truncated to the width of the result.
// Integers are truncated to fewer bits, and complex numbers to their real part. Other
// results are rounded once, to nearest, ties to even. A bool is one byte, 0 or 1.

#pragma once
#include "common/element.cuh"

struct b8 { uint8_t byte; };

// Round to odd: the next float towards 0, with its last bit set if it is not exact.
// Rounding that again, to fewer bits, gives the result of a single rounding.
__device__ __forceinline__ float to_odd(float f, bool inexact) { return __uint_as_float(__float_as_uint(f) | inexact); }
__device__ __forceinline__ float odd(float v) { return v; }
__device__ __forceinline__ float odd(double v) {
    const float f = __double2float_rz(v);
    return to_odd(f, v == v && (double)f != v);
}
__device__ __forceinline__ float odd(int32_t v) {
    const float f = __int2float_rz(v);
    return to_odd(f, __float2int_rz(f) != v);
}
__device__ __forceinline__ float odd(uint32_t v) {
    const float f = __uint2float_rz(v);
    return to_odd(f, __float2uint_rz(f) != v);
}
__device__ __forceinline__ float odd(int64_t v) {
    const float f = __ll2float_rz(v);
    return to_odd(f, __float2ll_rz(f) != v);
}
__device__ __forceinline__ float odd(uint64_t v) {
    const float f = __ull2float_rz(v);
    return to_odd(f, __float2ull_rz(f) != v);
}
__device__ __forceinline__ float odd(int8_t v) { return v; }
__device__ __forceinline__ float odd(uint8_t v) { return v; }
__device__ __forceinline__ float odd(int16_t v) { return v; }
__device__ __forceinline__ float odd(uint16_t v) { return v; }

__device__ __forceinline__ bf16 to_bf16(float f) {
    const uint32_t u = __float_as_uint(f);
    return {f != f ? (uint16_t)(u >> 16 | 0x40) : (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16)};
}
__device__ __forceinline__ f16 to_f16(float f) {
    f16 v;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(v.bits) : "f"(f));
    return v;
}

// A GPU's conversions saturate, so the range is checked first.
__device__ __forceinline__ int32_t to_int32(float v) { return v >= -0x1p31f && v < 0x1p31f ? (int32_t)v : (int32_t)0x80000000; }
__device__ __forceinline__ int32_t to_int32(double v) { return v > -0x1p31 - 1 && v < 0x1p31 ? (int32_t)v : (int32_t)0x80000000; }
__device__ __forceinline__ int64_t to_int64(float v) { return v >= -0x1p63f && v < 0x1p63f ? (int64_t)v : (int64_t)0x8000000000000000; }
__device__ __forceinline__ int64_t to_int64(double v) { return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : (int64_t)0x8000000000000000; }
template <class F> __device__ __forceinline__ uint64_t to_uint64(F v) {
    const bool large = v >= (F)0x1p63;
    return (uint64_t)to_int64(large ? v - (F)0x1p63 : v) ^ (uint64_t)large << 63;
}

template <class D, class S> __device__ __forceinline__ D convert(S v) {
    if constexpr (is_complex<S> && same<D, b8>) return {(uint8_t)(v.re != 0 || v.im != 0)};
    else if constexpr (is_complex<S> && is_complex<D>) return {(decltype(D::re))v.re, (decltype(D::re))v.im};
    else if constexpr (is_complex<S>) return convert<D>(v.re);
    else if constexpr (is_complex<D>) return {convert<decltype(D::re)>(v), 0};
    else if constexpr (same<S, f16> || same<S, bf16>) return convert<D>(widen(v));
    else if constexpr (same<D, b8>) return {(uint8_t)(v != 0)};
    else if constexpr (same<D, bf16>) return to_bf16(odd(v));
    else if constexpr (same<D, f16> && is_integer<S>) return to_f16((float)v);  // rounded once: an integer that is not exact in float overflows float16
    else if constexpr (same<D, f16>) return to_f16(odd(v));
    else if constexpr (is_integer<S> || !is_integer<D>) return (D)v;
    else if constexpr (same<D, uint64_t>) return to_uint64(v);
    else if constexpr (sizeof(D) == 8 || same<D, uint32_t>) return (D)to_int64(v);
    else return (D)to_int32(v);
}
