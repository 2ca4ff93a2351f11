// Copies of bytes at any alignment by words of 16 bytes.

#pragma once
#include "common/warp.cuh"

// Returns the 16 bytes that begin `words` words of 4 bytes and `bits` bits after the start of low.
template <int words> __device__ __forceinline__ uint4 shift_words(const uint4& low, const uint4& high, uint32_t bits) {
    const uint32_t w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    return {__funnelshift_r(w[words], w[words + 1], bits), __funnelshift_r(w[words + 1], w[words + 2], bits),
            __funnelshift_r(w[words + 2], w[words + 3], bits), __funnelshift_r(w[words + 3], w[words + 4], bits)};
}

template <int words> __device__ __forceinline__ void copy_shifted(uint4* dst, const uint4* src, int count, uint32_t bits, int thread, int threads) {
#pragma unroll 4
    for (int i = thread; i < count; i += threads) dst[i] = shift_words<words>(src[i], src[i + 1], bits);
}

// Copies size bytes with some threads, which are numbered by `thread`. It reads no byte
// outside the words of 16 bytes that contain the source.
__device__ __forceinline__ void copy_bytes(uint8_t* dst, const uint8_t* src, int size, int thread, int threads) {
    const int head = min(size, (int)(-(uintptr_t)dst & 15));
    for (int i = thread; i < head; i += threads) dst[i] = src[i];
    dst += head, src += head, size -= head;
    const int count = size / 16, shift = (uintptr_t)src & 15;
    uint4* to = (uint4*)dst;
    const uint4* from = (const uint4*)(src - shift);
    const uint32_t bits = 8 * (shift & 3);
    if (shift == 0) {
#pragma unroll 4
        for (int i = thread; i < count; i += threads) to[i] = from[i];
    } else if (shift < 4) {
        copy_shifted<0>(to, from, count, bits, thread, threads);
    } else if (shift < 8) {
        copy_shifted<1>(to, from, count, bits, thread, threads);
    } else if (shift < 12) {
        copy_shifted<2>(to, from, count, bits, thread, threads);
    } else {
        copy_shifted<3>(to, from, count, bits, thread, threads);
    }
    for (int i = 16 * count + thread; i < size; i += threads) dst[i] = src[i];
}
