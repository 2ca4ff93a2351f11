// Finds the parts of the blocks of Blosc 1 chunks: a thread for each block. A block is a
// sequence of parts, each its size in 4 bytes and then its bytes.

#include "compress/batch.cuh"

// A chunk whose header is valid and has a start for each block.
struct Chunk {
    int64_t src, size;            // in bytes
    int64_t first_block;          // number of blocks of the chunks before
    int64_t first_part;           // number of parts before
    int32_t blocks;               // their number
    int32_t parts, last_parts;    // of each block, and of the last one
    int32_t reserved;
};

struct Part {
    int64_t src;  // position of its bytes
    uint32_t size;
    int32_t status;
};

constexpr int header_bytes = 16;

__device__ __forceinline__ uint32_t load32(const uint8_t* p) { return p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24; }

extern "C" __global__ __launch_bounds__(256) void quiver_blosc_parts(const uint8_t* src, const Chunk* chunks, int64_t count, Part* parts, int64_t blocks) {
    const int64_t i = thread_index();
    if (i >= blocks) return;
    int64_t low = 0, high = count;  // the chunk is in [low, high)
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        if (chunks[middle].first_block <= i)
            low = middle;
        else
            high = middle;
    }
    const Chunk c = chunks[low];
    const int64_t block = i - c.first_block;
    const int32_t n = block == c.blocks - 1 ? c.last_parts : c.parts;
    src += c.src, parts += c.first_part + block * c.parts;
    int64_t at = load32(src + header_bytes + 4 * block);
    bool valid = true;
    for (int32_t k = 0; k < n; k++) {
        uint32_t size = 0;
        valid = valid && at <= c.size - 4;
        if (valid) {
            size = load32(src + at);
            at += 4;
            valid = size <= c.size - at;
        }
        parts[k] = {c.src + (valid ? at : 0), valid ? size : 0, valid ? ok : truncated};
        at += size;
    }
}
