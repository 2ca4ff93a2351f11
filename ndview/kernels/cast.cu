// Widening casts.

#include "warp.cuh"

constexpr int unroll = 4;
constexpr int tile = warp_size * unroll;  // elements that a warp does at a time

// One element of any alignment, byte by byte.
__device__ __forceinline__ void widen_bytes(const uint8_t* from, uint8_t* to) {
    uint32_t v = 0;
    for (int b = 0; b < 4; b++) v |= (uint32_t)from[b] << (8 * b);
    for (int b = 0; b < 8; b++) to[b] = (uint8_t)((int64_t)(int32_t)v >> (8 * b));
}

// out[i] = in[i] for 0 <= i < n. Both have any alignment, but are meant to have
// that of their elements.
extern "C" __global__ void quiver_widen_i32_i64(const int32_t* __restrict__ in, int64_t n, int64_t* __restrict__ out) {
    const bool aligned = (uintptr_t)in % sizeof(*in) == 0 && (uintptr_t)out % sizeof(*out) == 0;
    const int64_t first = warp_index() * tile;
    const int64_t i = first + lane();
    if (aligned && first + tile <= n) {
        int32_t v[unroll];
#pragma unroll
        for (int u = 0; u < unroll; u++) v[u] = in[i + u * warp_size];
#pragma unroll
        for (int u = 0; u < unroll; u++) out[i + u * warp_size] = v[u];
        return;
    }
#pragma unroll 1
    for (int64_t j = i; j < n && j < first + tile; j += warp_size)
        widen_bytes((const uint8_t*)(in + j), (uint8_t*)(out + j));
}
