// Ranges that are processed a tile at a time.

#pragma once
#include "common/warp.cuh"

struct Piece {
    int64_t src, dst, size;  // in bytes
    int64_t tile;            // number of its first tile
};

// Returns the number of the piece that has a tile: the last one whose first tile is not
// after it. All threads of the warp search together, with 32 probes per step.
__device__ __forceinline__ int64_t find_piece(const Piece* pieces, int64_t count, int64_t tile) {
    int64_t low = 0, high = count;  // it is in [low, high)
    while (high - low > 1) {
        const int64_t step = (high - low + warp_size - 1) / warp_size, probe = low + lane() * step;
        const uint32_t before = __ballot_sync(~0u, probe < high && pieces[probe].tile <= tile);
        low += (int64_t)(31 - __clz(before)) * step;  // the first probe always is
        high = min(high, low + step);
    }
    return low;
}
