// What the kernels of Zstandard share (RFC 8878). Decoding a batch takes these steps,
// each for all items or all blocks of the batch at once:
//
//	zstd_scan       finds frames and blocks, and what each block inherits
//	zstd_blocks     decodes the literals and the sequences of every block
//	zstd_place      finds out where the output of every block begins
//	zstd_write      executes the sequences, a window of the output at a time
//	zstd_checksum   compares checksums

#pragma once
#include "compress/windows.cuh"

constexpr uint32_t max_block = 128 << 10;

// Literals and sequences of a block are decoded by four threads each.
constexpr int threads_per_block = 4, blocks_per_warp = warp_size / threads_per_block;

enum BlockType : uint8_t { raw_block, rle_block, compressed_block };
enum LiteralsType : uint8_t { raw_literals, rle_literals, huffman_literals, treeless_literals };
enum TableMode : uint8_t { predefined, rle_table, described, repeated };

struct Block {
    // From zstd_scan.
    int64_t src;                     // position of the contents
    uint32_t src_size;               // in bytes
    uint32_t literals, sequences;    // their number; sequences is at least 1, as it counts the last literals
    int64_t first_literal, first_sequence;  // positions in the scratch memory of the batch
    uint32_t literals_src, literals_src_size;    // where the literals are in the contents
    uint32_t sequences_src;          // where the modes of the tables are in the contents, if sequences > 1
    int32_t huffman, tables[3];      // which block describes a table: distance to an earlier one
    uint8_t type, literals_type, streams;
    uint8_t modes;                   // of the tables for literals lengths, offsets and match lengths, from bit 6, 4 and 2
    uint8_t frame_begins, frame_ends, has_checksum, reserved;
    uint32_t checksum;
    int64_t content_size;            // of the frame that ends here, or -1
    // From zstd_blocks.
    int32_t status;
    uint32_t size;                   // of the output
    uint32_t repeats[3];             // offsets for the next block; in zstd_place: for this block
    // From zstd_place.
    uint32_t out, frame;             // position in the output of the item, and where that of its frame begins
    int64_t item;                    // from zstd_scan

    // Whether the literals have Huffman codes. Other literals are not in the scratch memory.
    __device__ __forceinline__ bool coded_literals() const { return type == compressed_block && literals_type >= huffman_literals; }
    // Whether all literals are the first one.
    __device__ __forceinline__ bool same_literals() const { return type == rle_block || type == compressed_block && literals_type == rle_literals; }
};

// For every index_step bytes of a block's output, zstd_blocks notes the sequence that they
// begin in, or one shortly before it.
constexpr uint32_t index_step = 2 << 10, index_size = max_block / index_step;

// The blocks, literals, sequences and windows of an item, or their positions. There may be
// fewer windows.
struct Counts {
    int64_t blocks, literals, sequences, windows;
    int64_t status;
};

// Reads bits from the end of a stream of bytes to its start. Bits before the start are 0.
//
// The stream goes through a ring of words in shared memory. All threads of a warp load the
// next units of their streams at the same time, once per round, since a warp waits for the
// loads of all of its threads. Between begin_round and end_round a thread may read
// round_bits bits.
constexpr int ring_words = 32, round_units = 3, round_bits = 32 * (4 * round_units - 1);

struct BackwardBits {
    const uint4 *unit, *first;  // the next unit to load, and the lowest one that has bytes of the stream
    uint4 ahead[round_units];
    int pending;                // how many of them are loaded
    uint32_t* ring;             // the words of this thread: every stride-th
    int stride;
    uint32_t loaded, used;      // words put into and taken from the ring
    uint32_t next;              // the word that is taken next, loaded early
    uint32_t high, low;         // the bits to be read next, from the highest of high
    int have;                   // how many of them are valid
    int32_t left;               // bits left in the stream, negative if more were read

    // Returns false if there is no valid stream in size bytes at p, at most 128 KiB.
    __device__ __forceinline__ bool open(const uint8_t* p, uint32_t size, uint32_t* ring_, int stride_) {
        ring = ring_, stride = stride_, loaded = used = high = low = 0, have = 0, left = 0;
        first = (const uint4*)((uintptr_t)p & ~(uintptr_t)15);
        unit = first - 1;
        const bool valid = size > 0 && p[size - 1] != 0;
        int top = 0;
        if (valid) {
            const uintptr_t last = (uintptr_t)(p + size - 1);
            unit = (const uint4*)(last & ~(uintptr_t)15);
            const int bit = 31 - __clz(p[size - 1]);
            left = 8 * (size - 1) + bit;
            top = (last & 3) * 8 + bit;
            used = 3 - (last & 15) / 4;
        }
        for (int i = 0; i < ring_words / 4 / round_units; i++) begin_round(), end_round();
        if (valid) {
            const uint32_t word = ring[used++ % ring_words * stride];
            high = __funnelshift_lc(0, word, 32 - top);
            have = top;
        }
        next = ring[used % ring_words * stride];
        return valid;
    }

    __device__ __forceinline__ void begin_round() {
        pending = min(round_units, (int)(ring_words - (loaded - used)) / 4);
#pragma unroll
        for (int i = 0; i < round_units; i++) {
            ahead[i] = {0, 0, 0, 0};
            if (i < pending && unit - first >= i) ahead[i] = unit[-i];
        }
        unit -= pending;
    }

    __device__ __forceinline__ void end_round() {
#pragma unroll
        for (int i = 0; i < round_units; i++)
            if (i < pending) {
                put(ahead[i].w), put(ahead[i].z), put(ahead[i].y), put(ahead[i].x);
            }
    }

    // Makes at least 32 bits available.
    __device__ __forceinline__ void fill() {
        if (have < 32) {
            high |= next >> have;
            low = __funnelshift_lc(0, next, 32 - have);
            have += 32, used++;
        }
        next = ring[used % ring_words * stride];
    }

    __device__ __forceinline__ uint32_t peek(int n) const { return __funnelshift_rc(high, 0, 32 - n); }  // n <= 32
    __device__ __forceinline__ void skip(int n) {
        high = __funnelshift_lc(low, high, n);
        low = __funnelshift_lc(0, low, n);
        have -= n, left -= n;
    }
    __device__ __forceinline__ uint32_t read(int n) {
        const uint32_t v = peek(n);
        skip(n);
        return v;
    }

private:
    __device__ __forceinline__ void put(uint32_t word) { ring[loaded++ % ring_words * stride] = word; }
};

// An entry of a table of finite state entropy.
struct State {
    uint16_t base;  // of the next state
    uint8_t bits;   // to add to it
    uint8_t symbol;
};

// Reads the description of a table in size bytes: counts[s] for each symbol s up to most.
// Returns its size in bytes, or 0 if it is invalid. log is the logarithm of the number of
// states.
__device__ inline uint32_t read_counts(const uint8_t* p, uint32_t size, int16_t* counts, int most, int max_log, int& log, int& symbols) {
    uint32_t at = 0;  // in bits
    const auto peek = [&](int n) {
        uint32_t v = 0;
        for (uint32_t i = 0; i < 3; i++)
            if (at / 8 + i < size) v |= (uint32_t)p[at / 8 + i] << 8 * i;
        return v >> (at & 7) & ((1u << n) - 1);
    };
    if (size == 0) return 0;
    log = peek(4) + 5;
    at = 4;
    if (log > max_log) return 0;
    int remaining = (1 << log) + 1, threshold = 1 << log, bits = log + 1, s = 0;
    while (remaining > 1) {
        if (s > most || at > 8 * size) return 0;
        const int max = 2 * threshold - 1 - remaining;
        int count = peek(bits - 1);
        if (count < max) {
            at += bits - 1;
        } else {
            count = peek(bits);
            if (count >= threshold) count -= max;
            at += bits;
        }
        count--;
        remaining -= count < 0 ? 1 : count;
        if (remaining < 1) return 0;
        counts[s++] = count;
        if (count == 0)
            for (int zeros = 3; zeros == 3;) {
                zeros = peek(2);
                at += 2;
                if (at > 8 * size) return 0;
                for (int i = 0; i < zeros; i++) {
                    if (s > most) return 0;
                    counts[s++] = 0;
                }
            }
        while (remaining < threshold) bits--, threshold >>= 1;
    }
    symbols = s;
    const uint32_t bytes = (at + 7) / 8;
    return bytes > size ? 0 : bytes;
}

// Builds the table of 1 << log states. It overwrites counts.
__device__ inline bool build_states(State* table, int16_t* counts, int symbols, int log) {
    const int size = 1 << log, step = (size >> 1) + (size >> 3) + 3;
    int high = size - 1, at = 0;
    for (int s = 0; s < symbols; s++)
        if (counts[s] < 0) table[high--].symbol = s;
    const int last = high;
    for (int s = 0; s < symbols; s++) {
        for (int i = 0; i < counts[s]; i++) {
            table[at].symbol = s;
            do at = (at + step) & (size - 1);
            while (at > last);
        }
        if (counts[s] < 0) counts[s] = 1;
    }
    if (at != 0) return false;
    for (int i = 0; i < size; i++) {
        const int next = counts[table[i].symbol]++;
        const int bits = log - (31 - __clz(next));
        table[i].bits = bits;
        table[i].base = (next << bits) - size;
    }
    return true;
}
