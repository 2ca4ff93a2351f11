// Writing one value where a mask is true.
//
// Most masks are false nearly everywhere, so reading them sets the speed: a
// thread has several bytes of the mask on their way before it looks at one.

#include "warp.cuh"

constexpr int unroll = 8;
constexpr int tile = warp_size * unroll;  // rows that a warp does at a time

// Bit u tells whether mask[row + u*warp_size] is set. All of a warp's tile, which
// starts at first, is in the mask, or else what is beyond n counts as clear.
__device__ __forceinline__ uint32_t load_mask(const uint8_t* __restrict__ mask, int64_t first, int64_t row, int64_t n) {
    uint32_t set = 0;
    if (first + tile <= n) {
        uint8_t m[unroll];
#pragma unroll
        for (int u = 0; u < unroll; u++) m[u] = mask[row + u * warp_size];
#pragma unroll
        for (int u = 0; u < unroll; u++) set |= (uint32_t)(m[u] != 0) << u;
    } else {
#pragma unroll 1
        for (int u = 0; u < unroll && row + u * warp_size < n; u++) set |= (uint32_t)(mask[row + u * warp_size] != 0) << u;
    }
    return set;
}

// Writes rows in units of the type T, whose size divides the width and the
// address. Row by row through the tile, so that neighbours write together.
template <typename T>
__device__ __forceinline__ void fill(uint8_t* values, int64_t width, uint32_t set, uint64_t pattern) {
#pragma unroll 1
    for (int u = 0; u < unroll; u++) {
        if (!(set >> u & 1)) continue;
        uint8_t* to = values + u * warp_size * width;
#pragma unroll 1
        for (int64_t b = 0; b < width; b += sizeof(T)) *(T*)(to + b) = (T)(pattern >> (8 * (b & 7)));
    }
}

// For each i < n with mask[i] != 0, writes `width` bytes at values + i*width:
// the 8 bytes of pattern, little-endian, over and over. Both have any alignment.
extern "C" __global__ void quiver_fill_where(uint8_t* __restrict__ values, int64_t width,
                                             const uint8_t* __restrict__ mask, int64_t n, uint64_t pattern) {
    const int64_t first = warp_index() * tile;
    const int64_t row = first + lane();
    const uint32_t set = load_mask(mask, first, row, n);
    if (!set) return;
    const uint32_t divides = (uint32_t)(uintptr_t)values | (uint32_t)width;
    values += row * width;
    if (divides % 8 == 0) fill<uint64_t>(values, width, set, pattern);
    else if (divides % 4 == 0) fill<uint32_t>(values, width, set, pattern);
    else if (divides % 2 == 0) fill<uint16_t>(values, width, set, pattern);
    else fill<uint8_t>(values, width, set, pattern);
}
