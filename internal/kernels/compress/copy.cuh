// Copies of bytes at any alignment by words of 16 bytes.

#pragma once
#include "common/warp.cuh"

// Returns the 16 bytes that begin shift bytes after the start of low, 0 <= shift < 16.
__device__ __forceinline__ uint4 shift_bytes(const uint4& low, const uint4& high, int shift) {
    const bool two = shift & 8, one = shift & 4;
    const uint32_t a = two ? low.z : low.x, b = two ? low.w : low.y, c = two ? high.x : low.z, d = two ? high.y : low.w;
    const uint32_t e = two ? high.z : high.x, f = two ? high.w : high.y;
    const uint32_t p = one ? b : a, q = one ? c : b, r = one ? d : c, s = one ? e : d, t = one ? f : e, bits = 8 * (shift & 3);
    return {__funnelshift_r(p, q, bits), __funnelshift_r(q, r, bits), __funnelshift_r(r, s, bits), __funnelshift_r(s, t, bits)};
}

// Copies size bytes with some threads, which are numbered by `thread`. It reads no byte
// outside the words of 16 bytes that contain the source.
__device__ __forceinline__ void copy_bytes(uint8_t* dst, const uint8_t* src, int size, int thread, int threads) {
    const int head = min(size, (int)(-(uintptr_t)dst & 15));
#pragma unroll 1
    for (int i = thread; i < head; i += threads) dst[i] = src[i];
    dst += head, src += head, size -= head;
    const int count = size / 16, shift = (uintptr_t)src & 15;
    uint4* to = (uint4*)dst;
    const uint4* from = (const uint4*)(src - shift);
    if (shift == 0) {
#pragma unroll 4
        for (int i = thread; i < count; i += threads) to[i] = from[i];
    } else {
#pragma unroll 2
        for (int i = thread; i < count; i += threads) to[i] = shift_bytes(from[i], from[i + 1], shift);
    }
#pragma unroll 1
    for (int i = 16 * count + thread; i < size; i += threads) dst[i] = src[i];
}
