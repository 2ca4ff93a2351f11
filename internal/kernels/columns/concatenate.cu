// Arrow columns: appends bitmaps, offsets, views, type ids and run ends to those of other
// arrays.
//
// A block has 2048 items, 8 per thread and 256 apart.

#include "common/warp.cuh"

constexpr int unroll = 8;

__device__ __forceinline__ int64_t item(int u) {
    return (int64_t)blockIdx.x * (blockDim.x * unroll) + u * blockDim.x + threadIdx.x;
}

// Returns the 32 bits from `at` on; the bitmap ends at `end`. It reads the aligned words
// that hold them, or single bytes if a word would reach past the end.
__device__ __forceinline__ uint32_t load32(const uint8_t* __restrict__ bytes, int64_t at, const uint8_t* end) {
    const uint8_t* from = bytes + (at >> 3);
    const int skew = (int)((uintptr_t)from & 3);
    const uint32_t* words = (const uint32_t*)(from - skew);
    const uint32_t shift = skew * 8 + (uint32_t)(at & 7);
    const int last = shift > 0;  // whether two words are needed
    if ((const uint8_t*)(words + last + 1) <= end) {
        const uint32_t low = __ldg(words);
        return shift ? __funnelshift_r(low, __ldg(words + 1), shift) : low;
    }
    uint64_t v = 0;
    for (int b = 0; b < 5 && from + b < end; b++) v |= (uint64_t)from[b] << (8 * b);
    return (uint32_t)(v >> (at & 7));
}

// Bit to + i of out = bit from + i of bytes for 0 <= i < n, or 1 without bytes. Other bits
// keep their values. out has 32-bit words.
extern "C" __global__ void quiver_copy_bits(const uint8_t* __restrict__ bytes, int64_t from, int64_t n,
                                            uint32_t* __restrict__ out, int64_t to) {
    const uint8_t* end = bytes + ((from + n + 7) >> 3);
#pragma unroll
    for (int u = 0; u < unroll; u++) {
        const int64_t word = (to >> 5) + item(u), first = word * 32 - to;  // index of the word's bit 0
        if (first >= n) return;
        if (first >= 0 && first + 32 <= n) {
            out[word] = bytes == nullptr ? ~0u : load32(bytes, from + first, end);
            continue;
        }
        uint32_t set = 0, ours = 0;
        for (int b = 0; b < 32; b++) {
            const int64_t i = first + b;
            if (i < 0 || i >= n) continue;
            ours |= 1u << b;
            const int64_t at = from + i;
            if (bytes == nullptr || (bytes[at >> 3] >> (at & 7) & 1)) set |= 1u << b;
        }
        out[word] = (out[word] & ~ours) | set;
    }
}

// out[0] = offsets[0], out[1] = offsets[n].
#define END_OFFSETS(BITS)                                                                                              \
    extern "C" __global__ void quiver_end_offsets_##BITS(const int##BITS##_t* offsets, int64_t n, int64_t* out) {      \
        if (blockIdx.x == 0 && threadIdx.x < 2) out[threadIdx.x] = offsets[threadIdx.x * n];                    \
    }

END_OFFSETS(32)
END_OFFSETS(64)

// out[i] = in[i] + delta.
template <typename I, typename O>
__device__ __forceinline__ void rebase(const I* __restrict__ in, int64_t n, int64_t delta, O* __restrict__ out) {
#pragma unroll
    for (int u = 0; u < unroll; u++) {
        const int64_t i = item(u);
        if (i < n) out[i] = (O)((int64_t)__ldcs(in + i) + delta);
    }
}

#define REBASE(FROM, TO)                                                                                      \
    extern "C" __global__ void quiver_rebase_##FROM##_##TO(const int##FROM##_t* in, int64_t n, int64_t delta, \
                                                           int##TO##_t* out) {                                \
        rebase(in, n, delta, out);                                                                            \
    }

REBASE(32, 32)
REBASE(32, 64)
REBASE(64, 32)
REBASE(64, 64)

// out[i] = in[i], a view; its buffer index grows by `shift` unless the bytes are inline.
extern "C" __global__ void quiver_shift_views(const uint4* __restrict__ in, int64_t n, int64_t shift, uint4* __restrict__ out) {
    constexpr uint32_t inlined = 12;  // bytes at most
    uint4 v[unroll];
#pragma unroll
    for (int u = 0; u < unroll; u++) v[u] = __ldcs(in + min(item(u), n - 1));
#pragma unroll
    for (int u = 0; u < unroll; u++) {
        if (v[u].x > inlined) v[u].z += (uint32_t)shift;
        if (item(u) < n) out[item(u)] = v[u];
    }
}

// out[i] = offsets[i] + shifts of the child with type code ids[i].
struct Shifts {
    int32_t of[128];
};
extern "C" __global__ void quiver_shift_union(const int8_t* __restrict__ ids, const int32_t* __restrict__ offsets, int64_t n,
                                              const __grid_constant__ Shifts shifts, int32_t* __restrict__ out) {
#pragma unroll
    for (int u = 0; u < unroll; u++) {
        const int64_t i = item(u);
        if (i < n) out[i] = offsets[i] + shifts.of[ids[i] & 127];
    }
}

// out[i] = min(in[i] - first, elements) + before, for run ends in[i].
template <typename E>
__device__ __forceinline__ void shift_ends(const E* __restrict__ in, int64_t n, int64_t first, int64_t elements, int64_t before,
                                           E* __restrict__ out) {
#pragma unroll
    for (int u = 0; u < unroll; u++) {
        const int64_t i = item(u);
        if (i < n) out[i] = (E)(min((int64_t)__ldcs(in + i) - first, elements) + before);
    }
}

#define SHIFT_ENDS(BITS)                                                                                       \
    extern "C" __global__ void quiver_shift_ends_##BITS(const int##BITS##_t* in, int64_t n, int64_t first,     \
                                                        int64_t elements, int64_t before, int##BITS##_t* out) { \
        shift_ends(in, n, first, elements, before, out);                                                       \
    }

SHIFT_ENDS(16)
SHIFT_ENDS(32)
SHIFT_ENDS(64)
