// Copies ranges of one buffer to positions in another: a warp for each tile of a range.

#include "compress/copy.cuh"

struct Copy {
    int64_t src, dst, size;  // in bytes
    int64_t tile;            // number of its first tile
};

constexpr int64_t tile_bytes = 16 << 10;

extern "C" __global__ __launch_bounds__(256) void quiver_pack(uint8_t* dst, const uint8_t* src, const Copy* copies, int64_t count, int64_t tiles) {
    const int64_t tile = warp_index();
    if (tile >= tiles) return;
    // The last copy whose first tile is not after this one: a search with 32 probes a step.
    int64_t low = 0, high = count;  // it is in [low, high)
    while (high - low > 1) {
        const int64_t step = (high - low + warp_size - 1) / warp_size, probe = low + lane() * step;
        const uint32_t before = __ballot_sync(~0u, probe < high && copies[probe].tile <= tile);
        low += (int64_t)(31 - __clz(before)) * step;  // the first probe always is
        high = min(high, low + step);
    }
    const Copy c = copies[low];
    const int64_t begin = (tile - c.tile) * tile_bytes;
    copy_bytes(dst + c.dst + begin, src + c.src + begin, (int)min(c.size - begin, tile_bytes), lane(), warp_size);
}
