// Copies ranges of one buffer to positions in another: a warp for each tile of a range.

#include "compress/copy.cuh"
#include "compress/tiles.cuh"

constexpr int64_t tile_bytes = 16 << 10;

extern "C" __global__ __launch_bounds__(256) void quiver_pack(uint8_t* dst, const uint8_t* src, const Piece* pieces, int64_t count, int64_t tiles) {
    const int64_t tile = warp_index();
    if (tile >= tiles) return;
    const Piece p = pieces[find_piece(pieces, count, tile)];
    const int64_t begin = (tile - p.tile) * tile_bytes;
    copy_bytes(dst + p.dst + begin, src + p.src + begin, (int)min(p.size - begin, tile_bytes), lane(), warp_size);
}
