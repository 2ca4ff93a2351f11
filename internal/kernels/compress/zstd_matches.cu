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

// Writes the literals and sequences of a block.
struct BlockWriter {
    uint8_t* literals;
    EncodedSequence* sequences;
    const uint8_t* piece;
    uint32_t used = 0, count = 0;
    Repeats repeats;

    __device__ __forceinline__ void matches(unsigned threads, const Match& m) {
        const uint32_t own = m.offset << 1 | (m.literals > 0);
        uint32_t value = 0;
        for (unsigned todo = threads; todo; todo &= todo - 1) {
            const int i = __ffs(todo) - 1;
            const uint32_t of_i = __shfl_sync(~0u, own, i), v = repeats.value(of_i >> 1, of_i & 1);
            if (lane() == i) value = v;
        }
        if (threads >> lane() & 1) sequences[count + __popc(threads & ((1u << lane()) - 1))] = {value, (uint16_t)m.literals, (uint16_t)m.length};
        count += __popc(threads);
    }
    __device__ __forceinline__ void drop(uint32_t n) { used -= n; }
    __device__ __forceinline__ void step(unsigned threads, uint32_t byte) {
        if (threads >> lane() & 1) literals[used + __popc(threads & ((1u << lane()) - 1))] = byte;
        used += __popc(threads);
    }
    __device__ __forceinline__ void gap(uint32_t position, uint32_t n) {
        copy_bytes(literals + used, piece + position, n);
        used += n;
    }
};

template <int table_bits> __device__ __forceinline__ void find_matches(const uint8_t* src, const SourceBlock* blocks, const uint32_t* pieces, uint8_t* literals, EncodedSequence* sequences, EncodedBlock* encoded) {
    __shared__ uint32_t table[1 << table_bits];
    __shared__ uint32_t counts[128];
    const uint32_t first = pieces[blockIdx.x], last = pieces[blockIdx.x + 1];
    const uint8_t* const piece = src + blocks[first].src;
    Finder<table_bits> finder;
    finder.open(table, piece);
    uint32_t begin = 0;
    for (uint32_t k = first; k < last; k++) {
        const SourceBlock block = blocks[k];
        const uint32_t end = begin + block.size;
        BlockWriter out = {literals + block.scratch, sequences + block.scratch / 4, piece};
        finder.template find<true>(begin, end, finder.entropy(begin, end, counts), out);
        if (lane() == 0) encoded[k] = {out.used, out.count, 0, 0, raw_block, 0};
        begin = end;
    }
}

extern "C" __global__ __launch_bounds__(warp_size) void quiver_zstd_matches(const uint8_t* src, const SourceBlock* blocks, const uint32_t* pieces, uint8_t* literals, EncodedSequence* sequences, EncodedBlock* encoded) {
    find_matches<small_table>(src, blocks, pieces, literals, sequences, encoded);
}

// The same with more matches.
extern "C" __global__ __launch_bounds__(warp_size) void quiver_zstd_more_matches(const uint8_t* src, const SourceBlock* blocks, const uint32_t* pieces, uint8_t* literals, EncodedSequence* sequences, EncodedBlock* encoded) {
    find_matches<large_table>(src, blocks, pieces, literals, sequences, encoded);
}
