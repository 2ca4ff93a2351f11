// Finds the parts of Blosc 1 chunks, and writes chunks from their encoded parts. A chunk is a
// header, the starts of its blocks, and the blocks. A block is a sequence of parts, each its
// size in 4 bytes and then its bytes.

#include "compress/batch.cuh"
#include "compress/copy.cuh"

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

// A thread for each block of all chunks.
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

// A chunk to write.
struct SourceChunk {
    int64_t src, size;          // the input in bytes
    int64_t dst, room;          // the output: position, and the number of bytes that it may have
    int64_t parts_at;           // position of the first part, as items have it
    int64_t first_part;         // number of parts before
    int32_t blocks;             // their number
    int32_t parts, last_parts;  // of each block, and of the last one
    uint32_t block_size;
    uint32_t head, reserved;    // the first four bytes of the output
};

// A part that is copied to its chunk.
struct PlacedPart {
    int64_t from, to;
    uint32_t size, source;
};

enum Source : uint32_t { from_encoded, from_parts, from_input };

constexpr uint32_t stored_flag = 2 << 16;  // of the head

__device__ __forceinline__ void store32(uint8_t* p, uint32_t v) {
    for (int i = 0; i < 4; i++) p[i] = v >> 8 * i;
}

// Returns the size of a part in its chunk: one that does not become smaller is stored.
__device__ __forceinline__ uint32_t part_size(const Item& item, const Result& encoded) {
    return encoded.status == ok && encoded.size < item.src_size ? encoded.size : item.src_size;
}

// Finds out where the parts of each chunk go, and writes what is not in parts: a warp for each
// chunk. A chunk that does not become smaller is stored.
extern "C" __global__ __launch_bounds__(256) void quiver_blosc_place(uint8_t* dst, const SourceChunk* chunks, const Item* items, const Result* encoded, PlacedPart* placed, Result* results, int64_t count) {
    const int64_t i = warp_index();
    if (i >= count) return;
    const SourceChunk c = chunks[i];
    const int64_t n = (int64_t)(c.blocks - 1) * c.parts + c.last_parts, head = header_bytes + 4 * (int64_t)c.blocks;
    items += c.first_part, encoded += c.first_part, placed += c.first_part;
    int64_t total = 0;
    for (int64_t k = lane(); k < n; k += warp_size) total += 4 + part_size(items[k], encoded[k]);
#pragma unroll
    for (int step = warp_size / 2; step; step /= 2) total += __shfl_xor_sync(~0u, total, step);
    total += head;
    const bool stored = total >= header_bytes + c.size;
    if (stored) total = header_bytes + c.size;
    const bool fits = total <= c.room;
    if (lane() == 0) results[i] = {fits ? total : 0, fits ? ok : too_large, 0};
    if (!fits) {
        for (int64_t k = lane(); k < n; k += warp_size) placed[k] = {0, 0, 0, from_encoded};
        return;
    }
    dst += c.dst;
    if (lane() == 0) {
        store32(dst, stored ? c.head | stored_flag : c.head);
        store32(dst + 4, c.size), store32(dst + 8, c.block_size), store32(dst + 12, total);
    }
    int64_t at = head;
    for (int64_t first = 0; first < n; first += warp_size) {
        const int64_t k = first + lane();
        if (stored) {
            if (k < n) {
                const int64_t offset = items[k].src - c.parts_at;
                placed[k] = {c.src + offset, c.dst + header_bytes + offset, (uint32_t)items[k].src_size, from_input};
            }
            continue;
        }
        const uint32_t size = k < n ? part_size(items[k], encoded[k]) : 0;
        uint32_t end = k < n ? 4 + size : 0;
#pragma unroll
        for (int step = 1; step < warp_size; step *= 2) {
            const uint32_t other = __shfl_up_sync(~0u, end, step);
            if (lane() >= step) end += other;
        }
        if (k < n) {
            const int64_t to = at + end - size;
            if (k % c.parts == 0) store32(dst + header_bytes + 4 * (k / c.parts), to - 4);
            store32(dst + to - 4, size);
            const bool smaller = size < items[k].src_size;
            placed[k] = {smaller ? items[k].dst : items[k].src, c.dst + to, size, smaller ? from_encoded : from_parts};
        }
        at += __shfl_sync(~0u, end, warp_size - 1);
    }
}

// Copies parts to their chunks: some blocks of threads for each part.
extern "C" __global__ __launch_bounds__(128) void quiver_blosc_pack(uint8_t* dst, const uint8_t* input, const uint8_t* parts, const uint8_t* encoded, const PlacedPart* placed, int64_t each) {
    const PlacedPart p = placed[blockIdx.x / each];
    const uint8_t* const from = p.source == from_encoded ? encoded : p.source == from_parts ? parts : input;
    const int64_t share = ((p.size + each - 1) / each + 15) / 16 * 16, begin = min((int64_t)p.size, share * (int64_t)(blockIdx.x % each));
    copy_bytes(dst + p.to + begin, from + p.from + begin, (int)min(share, p.size - begin), threadIdx.x, blockDim.x);
}
