// What the kernels that encode Zstandard share (RFC 8878). Encoding a batch takes these
// steps, each for all pieces, blocks or items at once:
//
//	zstd_matches   finds the matches of every block, and collects its literals
//	zstd_entropy   encodes the literals and the sequences of every block
//	zstd_frame     finds out where every block goes, and writes the frames
//
// The host divides each input into pieces, and pieces into blocks. A match reads its own
// piece only, and a block does not depend on the repeat offsets of earlier blocks.

#pragma once
#include "compress/matches.cuh"

enum BlockType : uint8_t { raw_block, rle_block, compressed_block };
enum LiteralsType : uint8_t { raw_literals, rle_literals, huffman_literals };
enum TableMode : uint8_t { predefined, rle_table, described };

struct SourceBlock {
    int64_t src;      // position of its bytes
    int64_t scratch;  // position in the scratch memory: a multiple of 64
    uint32_t size;    // in bytes, at least 1
    uint32_t item;    // counted from the first one of the launch
};

// Where parts of a block lie in the scratch memory: literals at its position, encoded bytes
// after the literals of all blocks, and sequences after those. A block may have
// size / 4 sequences, and encoded bytes for its size rounded up to a multiple of 64, and
// 64 more.
constexpr uint32_t scratch_unit = 64;
__device__ __forceinline__ uint32_t scratch_size(uint32_t size) { return (size + scratch_unit - 1) / scratch_unit * scratch_unit + scratch_unit; }

struct EncodedSequence {
    uint32_t value;  // of the offset: that + 3, or 1 to 3 for a repeat offset
    uint16_t literals, match;
};

struct EncodedBlock {
    uint32_t literals, sequences;  // their number
    uint32_t section;              // size of the encoded literals in bytes
    uint32_t size;                 // of the contents in bytes
    uint32_t type;
    uint32_t out;                  // position of the contents in the frame
};

__device__ __forceinline__ int high_bit(uint32_t v) { return 31 - __clz(v); }

// Writes bits from the lowest of each byte on, in one thread, to bytes in shared memory.
struct ByteWriter {
    uint8_t* out;
    uint32_t size = 0, used = 0;
    uint64_t word = 0;

    __device__ __forceinline__ void add(uint32_t value, int n) {
        word |= (uint64_t)value << used;
#pragma unroll 1
        for (used += n; used >= 8; used -= 8, word >>= 8) out[size++] = word;
    }
    __device__ __forceinline__ void flush() {
        if (used > 0) out[size++] = word;
        word = used = 0;
    }
};

// Writes bits with all threads of a warp, from a byte of the scratch memory on.
struct WarpBits {
    static constexpr int words = 3 * warp_size + 4;
    uint32_t* buffer;  // words elements in shared memory
    uint32_t* out;
    uint32_t limit;    // in words: those after it are not written
    uint32_t word;     // the next one to write
    uint32_t used;     // bits of it that are in the buffer, less than 32

    // Earlier bytes of the first word are kept.
    __device__ __forceinline__ void open(uint32_t* shared, uint8_t* to, uint32_t at, uint32_t size) {
        buffer = shared, out = (uint32_t*)to, limit = size / 4, word = at / 4, used = at % 4 * 8;
#pragma unroll 1
        for (int i = lane(); i < words; i += warp_size) buffer[i] = 0;
        __syncwarp();
        if (lane() == 0 && used) buffer[0] = out[word] & ((1u << used) - 1);
        __syncwarp();
    }

    // Adds the n lowest bits of low, middle and high, those of the first thread first. Bits
    // above must be 0.
    __device__ __forceinline__ void add(uint32_t low, uint32_t middle, uint32_t high, uint32_t n) {
        uint32_t all;
        const uint32_t at = used + warp_sum_before(n, all), w = at / 32, shift = at % 32;
        if (low) atomicOr(&buffer[w], low << shift);
        const uint32_t second = __funnelshift_l(low, middle, shift), third = __funnelshift_l(middle, high, shift), fourth = __funnelshift_l(high, 0, shift);
        if (second) atomicOr(&buffer[w + 1], second);
        if (third) atomicOr(&buffer[w + 2], third);
        if (fourth) atomicOr(&buffer[w + 3], fourth);
        __syncwarp();
        all += used;
        const uint32_t whole = all / 32, last = buffer[whole];
#pragma unroll 1
        for (uint32_t i = lane(); i < whole; i += warp_size)
            if (word + i < limit) out[word + i] = buffer[i];
        __syncwarp();
#pragma unroll 1
        for (uint32_t i = lane(); i <= whole; i += warp_size) buffer[i] = i == 0 ? last : 0;
        __syncwarp();
        word += whole, used = all % 32;
    }

    // Ends a stream that is read backwards. Returns the position of the byte after it.
    __device__ __forceinline__ uint32_t close() {
        add(lane() == 0, 0, 0, lane() == 0 ? 8 - used % 8 : 0);
        if (used && lane() == 0 && word < limit) out[word] = buffer[0];
        __syncwarp();
        return 4 * word + used / 8;
    }
};

// How a symbol changes the state of an encoder of finite state entropy.
struct Transform {
    int32_t bits, find;
};

// The table of such an encoder, with 1 << log states.
struct EncodingTable {
    static constexpr int most_symbols = 53, most_log = 8;
    Transform transforms[most_symbols];
    uint16_t states[1 << most_log];
    uint8_t spread[1 << most_log];
    int16_t norm[most_symbols];  // of the states: how many a symbol has, or -1
    int symbols, log;
};

// Returns the logarithm of the size of a table for total symbols, of which distinct are
// different.
__device__ __forceinline__ int table_log(uint32_t total, uint32_t distinct, int most) {
    return min(most, max(max(high_bit(total - 1) - 2, high_bit(distinct) + 1), 5));
}

__device__ __forceinline__ uint32_t warp_max(uint32_t v) {
#pragma unroll
    for (int step = warp_size / 2; step; step /= 2) v = max(v, __shfl_xor_sync(~0u, v, step));
    return v;
}

// Scales counts of a total to the norm of a table, whose sum is that of its states: at least 1
// for each that is not 0. Each thread has two of the symbols.
__device__ inline void normalize(const uint32_t* counts, uint32_t total, EncodingTable& t) {
    const auto scaled = [&](int s) { return s < t.symbols && counts[s] > 0 ? max(1u, ((counts[s] << t.log) + total / 2) / total) : 0; };
    uint32_t low = scaled(lane()), high = scaled(lane() + warp_size);
    int rest = (1 << t.log) - (int)warp_sum(low + high);
#pragma unroll 1
    while (rest != 0) {
        // The first of the largest ones changes.
        const uint32_t low_key = low << 6 | (63 - lane()), high_key = high << 6 | (31 - lane()), largest = warp_max(max(low_key, high_key));
        const int step = rest < 0 ? -1 : rest;
        if (low_key == largest) low += step;
        if (high_key == largest) high += step;
        rest -= step;
    }
    if (lane() < t.symbols) t.norm[lane()] = low;
    if (lane() + warp_size < t.symbols) t.norm[lane() + warp_size] = high;
    __syncwarp();
}

// Writes the description of a table. Runs in one thread.
__device__ inline void write_counts(ByteWriter& w, const int16_t* norm, int log) {
    w.add(log - 5, 4);
    int remaining = (1 << log) + 1, threshold = 1 << log, width = log + 1;
#pragma unroll 1
    for (int s = 0; remaining > 1; s++) {
        const int n = norm[s], limit = 2 * threshold - 1 - remaining;
        remaining -= n;
        int code = n + 1;
        if (code >= threshold) code += limit;
        w.add(code, code < limit ? width - 1 : width);
#pragma unroll 1
        while (remaining < threshold) width--, threshold >>= 1;
        if (n == 0) {
            int zeros = 0;
#pragma unroll 1
            while (norm[s + 1 + zeros] == 0) zeros++;
            s += zeros;
#pragma unroll 1
            for (; zeros >= 3; zeros -= 3) w.add(3, 2);
            w.add(zeros, 2);
        }
    }
}

// Builds a table from its norm and log. Symbols of norm -1 come after all others.
__device__ inline void build_encoding(EncodingTable& t) {
    const int log = t.log, size = 1 << log, step = (size >> 1) + (size >> 3) + 3;
    uint8_t* const symbols = (uint8_t*)t.states;  // in the order in which they are spread
#pragma unroll 1
    for (int i = lane(); i < size / 4; i += warp_size) ((uint32_t*)symbols)[i] = 0;
    __syncwarp();
    uint32_t sum = 0;
    int high = size - 1;
#pragma unroll 1
    for (int s = lane(); s - lane() < t.symbols; s += warp_size) {
        const int norm = s < t.symbols ? t.norm[s] : 0, n = norm < 0 ? 1 : norm;
        uint32_t all;
        const int before = sum + warp_sum_before(n, all);
        const unsigned last = __ballot_sync(~0u, norm < 0);
        if (norm > 0) symbols[before] = s;
        if (norm < 0) t.spread[high - __popc(last & ((1u << lane()) - 1))] = s;
        if (n == 1) {
            t.transforms[s] = {(log << 16) - size, before - 1};
        } else if (n > 1) {
            const int most = log - high_bit(n - 1);
            t.transforms[s] = {(most << 16) - (n << most), before - n};
        }
        __syncwarp();
        if (s < t.symbols) t.norm[s] = before;
        sum += all, high -= __popc(last);
    }
    __syncwarp();
    // A symbol stays until the next one begins. Each thread has neighbouring ones.
    const int each = size / warp_size;
    uint32_t latest = 0;
#pragma unroll 1
    for (int i = each * lane(); i < each * (lane() + 1); i++) latest = max(latest, (uint32_t)symbols[i]);
#pragma unroll
    for (int step = 1; step < warp_size; step *= 2) {
        const uint32_t other = __shfl_up_sync(~0u, latest, step);
        if (lane() >= step) latest = max(latest, other);
    }
    latest = __shfl_up_sync(~0u, latest, 1);
    if (lane() == 0) latest = 0;
#pragma unroll 1
    for (int i = each * lane(); i < each * (lane() + 1); i++) symbols[i] = latest = max(latest, (uint32_t)symbols[i]);
    __syncwarp();
    int placed = 0;
#pragma unroll 1
    for (int i = lane(); i < size; i += warp_size) {
        const int at = i * step & (size - 1);
        const unsigned free = __ballot_sync(~0u, at <= high);
        if (at <= high) t.spread[at] = symbols[placed + __popc(free & ((1u << lane()) - 1))];
        placed += __popc(free);
    }
    __syncwarp();
#pragma unroll 1
    for (int u = lane(); u < size; u += warp_size) {
        const int symbol = t.spread[u];
        const unsigned same = __match_any_sync(~0u, symbol), before = same & ((1u << lane()) - 1);
        t.states[t.norm[symbol] + __popc(before)] = size + u;
        __syncwarp();
        if (before == 0) t.norm[symbol] += __popc(same);
        __syncwarp();
    }
}

// Returns the state of the last symbol.
__device__ __forceinline__ int first_state(const EncodingTable& t, int symbol) {
    const Transform f = t.transforms[symbol];
    const int n = (f.bits + (1 << 15)) >> 16;
    return t.states[(((n << 16) - f.bits) >> n) + f.find];
}
