// Iterates over the items of a result whose operands are found by strides and by arrays of
// indices. Walk must match cpu.Walk.

#pragma once
#include "common/warp.cuh"

constexpr int max_axes = 32;

// Item (i0, i1, ...) of a result in C order has its operands at the sums of i*data, i*index
// and i*value, in bytes. There are fewer than 2^31 items; n / extent, for an extent of at
// least 2, is n*magic>>32>>shift.
struct Walk {
    int64_t items, axes;
    int64_t extent[max_axes];
    int64_t data[max_axes], index[max_axes], value[max_axes];
    uint32_t magic[max_axes], shift[max_axes];
};

// The items of a thread are blockDim.x apart; several loads hide each other's latency.
constexpr int unroll = 2;
__device__ __forceinline__ uint32_t first_item() { return blockIdx.x * (blockDim.x * unroll) + threadIdx.x; }
__device__ __forceinline__ bool is_item(const Walk& w, int u) { return first_item() + u * blockDim.x < (uint32_t)w.items; }

// Calls add(k, u, i) with the index i along axis k of a thread's item u, axis by axis.
// Items after the last one count as the last.
template <typename Add>
__device__ __forceinline__ void locate(const Walk& w, Add add) {
    uint32_t rest[unroll];
#pragma unroll
    for (int u = 0; u < unroll; u++) rest[u] = min(first_item() + u * blockDim.x, (uint32_t)w.items - 1);
    for (int k = (int)w.axes - 1; k > 0; k--) {
#pragma unroll
        for (int u = 0; u < unroll; u++) {
            const uint32_t q = __umulhi(rest[u], w.magic[k]) >> w.shift[k];
            add(k, u, (int64_t)(rest[u] - q * (uint32_t)w.extent[k]));
            rest[u] = q;
        }
    }
#pragma unroll
    for (int u = 0; u < unroll; u++) add(0, u, (int64_t)rest[u]);
}

// Returns the element that an index selects; a negative index counts from the end. A bad
// index returns 0 and lowers the flag to its item.
__device__ __forceinline__ int64_t resolve(int64_t i, int64_t extent, int64_t item, unsigned long long* flag) {
    if (i < 0) i += extent;
    if ((uint64_t)i < (uint64_t)extent) return i;
    atomicMin(flag, (unsigned long long)item);
    return 0;
}
