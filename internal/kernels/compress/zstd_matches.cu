// Finds the matches of pieces of Zstandard frames: a warp for each piece.

#include "compress/zstd_encode.cuh"

// Writes the literals and sequences of a block.
struct BlockWriter {
    uint8_t* literals;
    EncodedSequence* sequences;
    const uint8_t* piece;
    uint32_t used = 0, count = 0;
    // The last two repeat offsets, 0 for those that depend on earlier blocks. The third one is
    // not used.
    uint32_t repeat = 0, other = 0;

    __device__ __forceinline__ void matches(unsigned threads, const Match& m) {
        const unsigned earlier = (1u << lane()) - 1;
        const bool mine = threads >> lane() & 1;
        const auto before = [&](unsigned of, uint32_t v, uint32_t otherwise) {  // v of the last one of some threads before this one
            v = __shfl_sync(~0u, v, of & earlier ? 31 - __clz(of & earlier) : 0);
            return of & earlier ? v : otherwise;
        };
        const uint32_t last = before(threads, m.offset, repeat);
        const bool same = m.offset == last && m.literals > 0;
        // All others put their offset before the last one.
        const unsigned changes = __ballot_sync(~0u, mine && !same);
        const bool second = m.offset == before(changes, last, other);
        if (mine) sequences[count + __popc(threads & earlier)] = {same ? 1 : second ? 1 + (m.literals > 0) : m.offset + 3, (uint16_t)m.literals, (uint16_t)m.length};
        count += __popc(threads);
        repeat = __shfl_sync(~0u, m.offset, 31 - __clz(threads));
        const uint32_t replaced = __shfl_sync(~0u, last, changes ? 31 - __clz(changes) : 0);
        if (changes) other = replaced;
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
    __shared__ union {
        uint32_t counts[128];
        Table<table_bits> table;
    } memory;
    const uint32_t first = pieces[blockIdx.x], last = pieces[blockIdx.x + 1];
    const uint8_t* const piece = src + blocks[first].src;
    uint32_t entropies = 0, begin = 0;  // thread i has the entropy of the i-th block
    for (uint32_t k = first; k < last; k++) {
        const uint32_t end = begin + blocks[k].size, entropy = sample_entropy(piece, begin, end, memory.counts);
        if (lane() == k - first) entropies = entropy;
        begin = end;
    }
    Finder<table_bits> finder;
    finder.open(memory.table, piece);
    begin = 0;
    for (uint32_t k = first; k < last; k++) {
        const SourceBlock block = blocks[k];
        const uint32_t end = begin + block.size;
        BlockWriter out = {literals + block.scratch, sequences + block.scratch / 4, piece};
        finder.template find<true>(begin, end, __shfl_sync(~0u, entropies, k - first), out);
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
