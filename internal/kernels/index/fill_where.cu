// Writes one value where a mask is true.
//
// Most masks are mostly false, so the speed is that of reading them: a lane reads 16 rows
// of the mask at once. The rows that are set are then redistributed to the lanes, so that
// neighbouring rows are written together.

#include "common/warp.cuh"

constexpr uint32_t all_lanes = 0xffffffff;
constexpr int lane_rows = 16, tile = warp_size * lane_rows;  // rows per lane, and per warp

// Bit b is set if byte b of the word is not 0.
__device__ __forceinline__ uint32_t set_bytes(uint32_t word) {
    return ((__vcmpne4(word, 0) & 0x08040201u) * 0x01010101u) >> 24;
}

// Bit b is set if byte first + b is not 0; bytes outside [0, n) count as 0. bytes + first
// is a multiple of 16.
__device__ __forceinline__ uint32_t load16(const uint8_t* __restrict__ bytes, int64_t first, int64_t n) {
    if (first >= 0 && first + 16 <= n) {
        const uint4 m = *(const uint4*)(bytes + first);
        return set_bytes(m.x) | set_bytes(m.y) << 4 | set_bytes(m.z) << 8 | set_bytes(m.w) << 12;
    }
    uint32_t set = 0;
    for (int b = 0; b < 16; b++)
        if (first + b >= 0 && first + b < n) set |= (uint32_t)(bytes[first + b] != 0) << b;
    return set;
}

struct alignas(16) Pair { uint64_t low, high; };
template <typename T> __device__ __forceinline__ T unit(uint64_t pattern, int64_t at) { return (T)(pattern >> (8 * (at & 7))); }
template <> __device__ __forceinline__ Pair unit<Pair>(uint64_t pattern, int64_t) { return {pattern, pattern}; }

// Writes the rows whose bits are set, the first of which is at `values`, in units of type
// T. The size of T divides the width and the address. All lanes write a long row together.
template <typename T> __device__ __forceinline__ void fill(uint8_t* values, int64_t width, uint32_t rows, uint64_t pattern) {
    if (width >= 8 * (int64_t)sizeof(T)) {
        for (; rows; rows &= rows - 1) {
            uint8_t* row = values + (__ffs(rows) - 1) * width;
            for (int64_t b = lane() * sizeof(T); b < width; b += warp_size * sizeof(T)) *(T*)(row + b) = unit<T>(pattern, b);
        }
    } else if (rows >> lane() & 1) {
        uint8_t* row = values + lane() * width;
        for (int64_t b = 0; b < width; b += sizeof(T)) *(T*)(row + b) = unit<T>(pattern, b);
    }
}

// For each i < n with mask[i] != 0, writes `width` bytes at values + i*width: the 8
// little-endian bytes of the pattern, repeated. values and mask may have any alignment;
// mask - turn is a multiple of 16.
extern "C" __global__ void quiver_fill_where(uint8_t* __restrict__ values, int64_t width, const uint8_t* __restrict__ mask,
                                             int64_t n, uint32_t turn, uint64_t pattern) {
    const int64_t first = warp_index() * tile - turn;
    const uint32_t set = load16(mask, first + lane() * lane_rows, n);
    if (!__any_sync(all_lanes, set)) return;
    // Lane s has rows 32*s to 32*s+31.
    const uint32_t low = __shfl_sync(all_lanes, set, 2 * lane() % warp_size), high = __shfl_sync(all_lanes, set, (2 * lane() + 1) % warp_size);
    const uint32_t mine = lane() < warp_size / 2 ? low | high << 16 : 0;
    const uint32_t divides = (uint32_t)(uintptr_t)values | (uint32_t)width;
    for (uint32_t left = __ballot_sync(all_lanes, mine != 0); left; left &= left - 1) {
        const int s = __ffs(left) - 1;
        const uint32_t rows = __shfl_sync(all_lanes, mine, s);
        uint8_t* to = values + (first + s * warp_size) * width;
        if (divides % 16 == 0) fill<Pair>(to, width, rows, pattern);
        else if (divides % 8 == 0) fill<uint64_t>(to, width, rows, pattern);
        else if (divides % 4 == 0) fill<uint32_t>(to, width, rows, pattern);
        else if (divides % 2 == 0) fill<uint16_t>(to, width, rows, pattern);
        else fill<uint8_t>(to, width, rows, pattern);
    }
}
