// Arrow columns: resolves indices, and gathers bits by index.
//
// A block has 2048 items, 8 per thread and 256 apart, so that a thread has several loads in
// flight. Resolved indices are 64-bit positions in an array, or -1 for null.

#include "common/warp.cuh"

constexpr int unroll = 8;

__device__ __forceinline__ int64_t item(int u) {
    return (int64_t)blockIdx.x * (blockDim.x * unroll) + u * blockDim.x + threadIdx.x;
}

// Returns bit i of a bitmap whose bits begin at `first`; without a bitmap all bits are set.
__device__ __forceinline__ bool bit(const uint8_t* __restrict__ bytes, int64_t first, int64_t i) {
    i += first;
    return bytes == nullptr || (__ldg(bytes + (i >> 3)) >> (i & 7) & 1);
}

// out[j] = indices[j], or -1 if it is null. An index outside `extent` elements becomes -1
// and lowers the flag to j.
template <typename I>
__device__ __forceinline__ void resolve(const I* __restrict__ indices, const uint8_t* __restrict__ valid, int64_t first,
                                        int64_t n, int64_t extent, int64_t* __restrict__ out, unsigned long long* flag) {
    I index[unroll];
    bool is_valid[unroll];
#pragma unroll
    for (int u = 0; u < unroll; u++) {
        const int64_t j = min(item(u), n - 1);
        index[u] = __ldcs(indices + j);
        is_valid[u] = bit(valid, first, j);
    }
#pragma unroll
    for (int u = 0; u < unroll; u++) {
        const int64_t j = item(u);
        if (j >= n) return;
        int64_t i = (int64_t)index[u];
        if (!is_valid[u]) {
            i = -1;
        } else if ((uint64_t)i >= (uint64_t)extent) {
            atomicMin(flag, (unsigned long long)j);
            i = -1;
        }
        out[j] = i;
    }
}

#define RESOLVE(KIND, I)                                                                                             \
    extern "C" __global__ void quiver_resolve_##KIND(const I* indices, const uint8_t* valid, int64_t first, int64_t n, \
                                                     int64_t extent, int64_t* out, unsigned long long* flag) {       \
        resolve(indices, valid, first, n, extent, out, flag);                                                        \
    }

RESOLVE(i8, int8_t)
RESOLVE(i16, int16_t)
RESOLVE(i32, int32_t)
RESOLVE(i64, int64_t)
RESOLVE(u8, uint8_t)
RESOLVE(u16, uint16_t)
RESOLVE(u32, uint32_t)
RESOLVE(u64, uint64_t)

// Bit j of out = bit at[j] of an array of `extent` elements, 0 for -1. out has 32-bit
// words, the last padded with zeros. A warp makes 32 words: its threads read the bits of
// one word after the other, and each thread keeps one word.
extern "C" __global__ void quiver_take_bits(const uint8_t* __restrict__ bytes, int64_t first, int64_t extent,
                                            const int64_t* __restrict__ at, int64_t n, uint32_t* __restrict__ out) {
    const int64_t word = warp_index() * warp_size;
    if (word * 32 >= n) return;
    uint32_t mine = 0;
#pragma unroll 8
    for (int w = 0; w < warp_size; w++) {
        const int64_t j = (word + w) * 32 + lane();
        bool set = false;
        if (j < n) {
            const int64_t i = __ldcs(at + j);
            set = i >= 0 && bit(bytes, first, i);
        }
        const uint32_t bits = __ballot_sync(~0u, set);
        if (lane() == w) mine = bits;
    }
    if ((word + lane()) * 32 < n) out[word + lane()] = mine;
}

// out[k] = at[k/each]*each + k%each for 0 <= k < n, or -1 for -1: indices of fixed-size
// lists as indices of their values.
extern "C" __global__ void quiver_expand_fixed(const int64_t* __restrict__ at, int64_t n, int64_t each, int64_t* __restrict__ out) {
#pragma unroll
    for (int u = 0; u < unroll; u++) {
        const int64_t k = item(u);
        if (k >= n) return;
        const int64_t j = k >> 32 || each >> 32 ? k / each : (int64_t)((uint32_t)k / (uint32_t)each);
        const int64_t i = __ldg(at + j);
        out[k] = i < 0 ? -1 : i * each + (k - j * each);
    }
}
