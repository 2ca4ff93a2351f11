// Writes Zstandard frames from their encoded blocks.

#include "compress/zstd_checksum.cuh"
#include "compress/zstd_encode.cuh"

constexpr uint32_t window = 128 << 10, window_descriptor = 7 << 3;

__device__ __forceinline__ void put(uint8_t* to, uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++) to[i] = v >> 8 * i;
}

// Finds out where the blocks of each item go, and writes what is not in blocks: a warp for
// each item. The blocks of item i are those from starts[i] on. A frame of at most window
// bytes is a single segment.
extern "C" __global__ void quiver_zstd_frame(uint8_t* dst, const uint8_t* src, const Item* items, const uint32_t* starts, EncodedBlock* encoded, Result* results, int64_t n, int64_t checksum) {
    const int64_t i = warp_index();
    if (i >= n) return;
    const Item item = items[i];
    const uint64_t size = item.src_size;
    const uint32_t form = size < 256 ? 0 : size < 256 + (1 << 16) ? 1 : 2, size_bytes = 1 << form;
    const bool single = size <= window;
    const uint32_t header = 5 + !single + size_bytes;
    uint64_t at = header + (size == 0 ? 3 : 0);
    for (uint32_t first = starts[i]; first < starts[i + 1]; first += warp_size) {
        const uint32_t k = first + lane();
        const bool mine = k < starts[i + 1];
        uint32_t all;
        const uint32_t before = warp_sum_before(mine ? 3 + encoded[k].size : 0, all);
        if (mine) encoded[k].out = at + before;
        at += all;
    }
    const uint64_t end = at + (checksum ? 4 : 0);
    if (end > (uint64_t)item.dst_size || end > 0x7FFFFFFF) {
        if (lane() == 0) results[i] = {0, too_large, 0};
        return;
    }
    dst += item.dst;
    uint32_t hash = 0;
    if (checksum) hash = xxh64(src + item.src, size);
    if (lane() != 0) return;
    put(dst, 0xFD2FB528, 4);
    dst[4] = form << 6 | single << 5 | (checksum ? 4 : 0);
    if (!single) dst[5] = window_descriptor;
    put(dst + header - size_bytes, form == 1 ? size - 256 : size, size_bytes);
    if (size == 0) put(dst + header, 1, 3);  // the last block, raw and empty
    if (checksum) put(dst + at, hash, 4);
    results[i] = {(int64_t)end, ok, 0};
}

// Copies the blocks to their places, with their headers: a block of threads for each.
extern "C" __global__ void quiver_zstd_pack(uint8_t* dst, const uint8_t* src, const Item* items, const uint32_t* starts, const SourceBlock* blocks, const uint8_t* contents, const EncodedBlock* encoded, const Result* results) {
    const SourceBlock block = blocks[blockIdx.x];
    if (results[block.item].status != ok) return;
    const EncodedBlock b = encoded[blockIdx.x];
    uint8_t* const to = dst + items[block.item].dst + b.out;
    const bool last = starts[block.item + 1] == blockIdx.x + 1;
    if (threadIdx.x == 0) put(to, last | b.type << 1 | (b.type == rle_block ? block.size : b.size) << 3, 3);
    const uint8_t* const from = b.type == compressed_block ? contents + block.scratch : src + block.src;
    // Each warp copies a part.
    const uint32_t warps = blockDim.x / warp_size, part = (b.size + warps - 1) / warps, begin = min(b.size, part * (threadIdx.x / warp_size));
    copy_bytes(to + 3 + begin, from + begin, min(part, b.size - begin));
}
