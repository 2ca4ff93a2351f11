// Finds the matches of pieces of Zstandard frames: a warp for each piece.

#include "compress/zstd_encode.cuh"

// The repeat offsets of a block, 0 for those that depend on earlier blocks.
struct Repeats {
    uint32_t a = 0, b = 0, c = 0;

    // Returns the value of an offset and updates the repeat offsets.
    __device__ __forceinline__ uint32_t value(uint32_t offset, bool literals) {
        const uint32_t first = literals ? a : b, second = literals ? b : c, third = literals ? c : a - 1;
        if (offset == first) {
            if (!literals) b = a, a = offset;
            return 1;
        }
        if (offset == second) {
            if (!literals) c = b;
            b = a, a = offset;
            return 2;
        }
        c = b, b = a, a = offset;
        return offset == third ? 3 : offset + 3;
    }
};

extern "C" __global__ __launch_bounds__(warp_size) void quiver_zstd_matches(const uint8_t* src, const SourceBlock* blocks, const uint32_t* pieces, uint8_t* literals, EncodedSequence* sequences, EncodedBlock* encoded) {
    __shared__ uint32_t table[1 << table_bits];
    __shared__ uint32_t counts[256];
    const uint32_t first = pieces[blockIdx.x], last = pieces[blockIdx.x + 1];
    const uint8_t* const piece = src + blocks[first].src;
    Finder finder;
    finder.open(table, piece);
    uint32_t begin = 0;
    for (uint32_t k = first; k < last; k++) {
        const SourceBlock block = blocks[k];
        const uint32_t end = begin + block.size;
        uint8_t* const to = literals + block.scratch;
        EncodedSequence* const list = sequences + block.scratch / 4;
        uint32_t anchor = begin, used = 0, n = 0;
        Repeats repeats;
        finder.find<true>(begin, end, finder.entropy(begin, end, counts), [&](const Match& m) {
            const uint32_t before = m.position - anchor;
            copy_bytes(to + used, piece + anchor, before);
            const uint32_t value = repeats.value(m.offset, before > 0);
            if (lane() == 0) list[n] = {value, (uint16_t)before, (uint16_t)m.length};
            n++, used += before, anchor = m.position + m.length;
        });
        copy_bytes(to + used, piece + anchor, end - anchor);
        if (lane() == 0) encoded[k] = {used + end - anchor, n, 0, 0, raw_block, 0};
        begin = end;
    }
}
