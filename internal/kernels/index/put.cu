// Writes values to elements at given positions.
//
// If a position repeats, the last value must win, as if the values were written one after
// the other. So each item first claims its position in a table that keeps the largest
// claim, and the positions of all other items are discarded. The remaining writes do not
// overlap, so their order does not matter.

#include "common/walk.cuh"

constexpr int64_t discarded = -1;

// Writes each item's value (at w.value) to the element at its position (at w.index) of an
// axis of `extent` elements, `step` bytes apart, from w.data on. Positions outside the axis
// are skipped.
template <typename T>
__device__ __forceinline__ void scatter(uint8_t* __restrict__ dst, const uint8_t* __restrict__ pos,
                                        const uint8_t* __restrict__ values, const Walk& w, int64_t extent, int64_t step) {
    int64_t data[unroll] = {}, index[unroll] = {}, value[unroll] = {};
    locate(w, [&](int k, int u, int64_t i) {
        data[u] += i * w.data[k];
        index[u] += i * w.index[k];
        value[u] += i * w.value[k];
    });
    int64_t p[unroll];
    T v[unroll];
#pragma unroll
    for (int u = 0; u < unroll; u++) p[u] = __ldg((const long long*)(pos + index[u]));
#pragma unroll
    for (int u = 0; u < unroll; u++) v[u] = __ldg((const T*)(values + value[u]));
#pragma unroll
    for (int u = 0; u < unroll; u++)
        if (is_item(w, u) && (uint64_t)p[u] < (uint64_t)extent) *(T*)(dst + data[u] + p[u] * step) = v[u];
}

#define SCATTER(WIDTH, T)                                                                                             \
    extern "C" __global__ void quiver_scatter_##WIDTH(uint8_t* dst, const uint8_t* pos, const uint8_t* values,        \
                                                      const __grid_constant__ Walk w, int64_t extent, int64_t step) { \
        scatter<T>(dst, pos, values, w, extent, step);                                                                        \
    }

SCATTER(1, uint8_t)
SCATTER(2, uint16_t)
SCATTER(4, uint32_t)
SCATTER(8, uint2)
SCATTER(16, uint4)

// Returns the first slot of a hash table. If keys is not null, the table is a hash table of
// a power of two slots with linear probing: the key of a position is the position plus one,
// and 0 marks an empty slot. Otherwise the slot is the position itself.
__device__ __forceinline__ uint64_t first_slot(uint64_t key, uint64_t slots) {
    key ^= key >> 32;
    key *= 0x9e3779b97f4a7c15ull;
    return (key ^ key >> 29) & (slots - 1);
}

using word = unsigned long long;

// claims[slot of pos[j]] = the largest j + 1, for 0 <= j < n. All claims and keys must be 0
// at first.
template <typename Claim>
__device__ __forceinline__ void claim(const int64_t* __restrict__ pos, int64_t n, Claim* claims, word* keys, uint64_t slots) {
    int64_t j = blockIdx.x * (int64_t)(blockDim.x * unroll) + threadIdx.x;
#pragma unroll
    for (int u = 0; u < unroll; u++, j += blockDim.x) {
        if (j >= n) return;
        uint64_t slot = (uint64_t)pos[j];
        if (keys) {
            const word key = slot + 1;
            for (slot = first_slot(key, slots);; slot = (slot + 1) & (slots - 1)) {
                const word old = atomicCAS(keys + slot, 0ull, key);
                if (old == 0 || old == key) break;
            }
        }
        atomicMax(claims + slot, (Claim)(j + 1));
    }
}

// pos[j] = discarded for each j whose claim is not the largest.
template <typename Claim>
__device__ __forceinline__ void discard(int64_t* __restrict__ pos, int64_t n, const Claim* __restrict__ claims,
                                       const word* __restrict__ keys, uint64_t slots) {
    int64_t j = blockIdx.x * (int64_t)(blockDim.x * unroll) + threadIdx.x;
#pragma unroll
    for (int u = 0; u < unroll; u++, j += blockDim.x) {
        if (j >= n) return;
        uint64_t slot = (uint64_t)pos[j];
        if (keys) {
            const word key = slot + 1;
            for (slot = first_slot(key, slots); keys[slot] != key;) slot = (slot + 1) & (slots - 1);
        }
        if (claims[slot] != (Claim)(j + 1)) pos[j] = discarded;
    }
}

extern "C" __global__ void quiver_claim_32(const int64_t* pos, int64_t n, uint32_t* claims, word* keys, uint64_t slots) {
    claim(pos, n, claims, keys, slots);
}
extern "C" __global__ void quiver_claim_64(const int64_t* pos, int64_t n, word* claims, word* keys, uint64_t slots) {
    claim(pos, n, claims, keys, slots);
}
extern "C" __global__ void quiver_discard_32(int64_t* pos, int64_t n, const uint32_t* claims, const word* keys, uint64_t slots) {
    discard(pos, n, claims, keys, slots);
}
extern "C" __global__ void quiver_discard_64(int64_t* pos, int64_t n, const word* claims, const word* keys, uint64_t slots) {
    discard(pos, n, claims, keys, slots);
}
