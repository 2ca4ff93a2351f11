// Decodes the sequences of Zstandard blocks: four threads for each block. Three of them
// build the tables, one decodes, and all of them load the stream.

#pragma once
#include "compress/zstd.cuh"

constexpr uint32_t stream_words = 64, per_round = 4;
__constant__ const int most_symbols[3] = {35, 31, 52}, max_logs[3] = {9, 8, 9};

// The least value of a code, and how many bits are added to it << 24.
using Range = uint32_t;

// An entry of a table: how many bits of a value follow | how many bits of the next state
// << 8 | the least next state << 16 | the code << 25. The lower two fields of three entries
// can be added.
using Entry = uint32_t;

struct SequencesMemory {
    union Table {
        State states[1 << 9];
        Entry entries[1 << 9];
    } literals, matches;
    union {
        State states[1 << 8];
        Entry entries[1 << 8];
    } offsets;
    union {
        int16_t counts[3][56];
        uint4 stream[stream_words / 4];  // a ring of the next words of the stream
    };
    int log[3], symbols[3];
    bool bad;
};

__constant__ const int8_t default_literals[36] = {4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1};
__constant__ const int8_t default_offsets[29] = {1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1};
__constant__ const int8_t default_matches[53] = {1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1};

__device__ Range literals_range(uint32_t code) {
    const auto range = [](uint32_t least, uint32_t bits) { return least | bits << 24; };
    if (code < 16) return range(code, 0);
    if (code < 20) return range(16 + (code - 16) * 2, 1);
    if (code < 22) return range(24 + (code - 20) * 4, 2);
    if (code < 24) return range(32 + (code - 22) * 8, 3);
    if (code == 24) return range(48, 4);
    return range(64u << (code - 25), code - 19);
}

__device__ Range match_range(uint32_t code) {
    const auto range = [](uint32_t least, uint32_t bits) { return least | bits << 24; };
    if (code < 32) return range(code + 3, 0);
    if (code < 36) return range(35 + (code - 32) * 2, 1);
    if (code < 38) return range(43 + (code - 36) * 4, 2);
    if (code < 40) return range(51 + (code - 38) * 8, 3);
    if (code < 42) return range(67 + (code - 40) * 16, 4);
    if (code == 42) return range(99, 5);
    return range((128u << (code - 43)) + 3, code - 36);
}

// Reads the description of table k that block b begins with, after those that precede it.
// Returns the number of bytes up to the end of all of b's descriptions, or 0.
__device__ uint32_t read_tables(SequencesMemory& m, const uint8_t* src, const Block& b, int only) {
    const uint8_t* p = src + b.src + b.sequences_src;
    const uint32_t size = b.src_size - b.sequences_src;
    uint32_t at = 1;
    for (int k = 0; k < 3; k++) {
        const int mode = b.modes >> (6 - 2 * k) & 3;
        const bool wanted = only == k || only < 0 && mode != repeated;
        int16_t skipped[56];
        int16_t* counts = wanted ? m.counts[k] : skipped;
        int log = 0, symbols = 0;
        if (mode == predefined) {
            const int8_t* from = k == 0 ? default_literals : k == 1 ? default_offsets : default_matches;
            symbols = k == 0 ? 36 : k == 1 ? 29 : 53, log = k == 1 ? 5 : 6;
            for (int s = 0; s < symbols; s++) counts[s] = from[s];
        } else if (mode == rle_table) {
            if (at >= size || p[at] > most_symbols[k]) return 0;
            symbols = -1 - p[at++];  // every state has this symbol
        } else if (mode == described) {
            const uint32_t bytes = read_counts(p + at, size - at, counts, most_symbols[k], max_logs[k], log, symbols);
            if (bytes == 0) return 0;
            at += bytes;
        }
        if (wanted) m.log[k] = log, m.symbols[k] = symbols;
    }
    return at;
}

__device__ __forceinline__ uint32_t extra_bits(int table, uint32_t code) { return table == 1 ? code : (table == 0 ? literals_range(code) : match_range(code)) >> 24; }

// Returns the n highest bits of v, n <= 32.
__device__ __forceinline__ uint32_t high_bits(uint32_t v, uint32_t n) { return __funnelshift_rc(v, 0, 32 - n); }

// Reads bits from the end of a stream of bytes to its start. Bits before the start are
// arbitrary. Words go through a ring in shared memory, which all threads of a block fill.
struct Stream {
    const uint4 *unit, *first;  // the next 16 bytes to load, and the lowest that have bytes of the stream
    const uint32_t* ring;
    uint32_t loaded, next;      // words put into and taken from the ring
    uint32_t word[3], skip;     // the next words, from the highest bit on, of which skip < 32 bits are read

    __device__ __forceinline__ uint32_t take() { return ring[next++ % stream_words]; }
    __device__ __forceinline__ uint32_t peek(int at) const { return __funnelshift_l(word[at + 1], word[at], skip); }

    // Skips n bits, at most 64.
    __device__ __forceinline__ void advance(uint32_t n) {
        skip += n;
        const uint32_t a = ring[next % stream_words], b = ring[(next + 1) % stream_words];
        if (skip >= 64) word[0] = word[2], word[1] = a, word[2] = b;
        else if (skip >= 32) word[0] = word[1], word[1] = word[2], word[2] = a;
        next += skip / 32, skip %= 32;
    }

    // Skips n bits, at most 32.
    __device__ __forceinline__ void advance_short(uint32_t n) {
        skip += n;
        const uint32_t a = ring[next % stream_words];
        if (skip >= 32) word[0] = word[1], word[1] = word[2], word[2] = a;
        next += skip / 32, skip %= 32;
    }
};

struct SequencesShared {
    SequencesMemory memory[blocks_per_warp];
    Range literals_ranges[36], match_ranges[53];
};

// Decodes the sequences of a warp's blocks, from `first` on, of n.
__device__ __forceinline__ void decode_sequences(SequencesShared& shared, const uint8_t* src, Block* blocks, Sequence* sequences, uint16_t* index, int64_t first, int64_t n) {
    Range* const literals_ranges = shared.literals_ranges;
    Range* const match_ranges = shared.match_ranges;
    for (int c = lane(); c < 53; c += warp_size) {
        if (c < 36) literals_ranges[c] = literals_range(c);
        match_ranges[c] = match_range(c);
    }
    const int group = threadIdx.x / threads_per_block, member = threadIdx.x % threads_per_block;
    const int64_t i = first + group;
    SequencesMemory& m = shared.memory[group];
    Block b = {};
    if (i < n) b = blocks[i];
    bool coded = i < n && b.sequences > 1;
    uint32_t described_bytes = 0;
    if (member == 0) m.bad = false;
    __syncwarp();
    if (coded && member == 0) {
        described_bytes = read_tables(m, src, b, -1);
        if (described_bytes == 0) m.bad = true;
        for (int k = 0; k < 3; k++)
            if ((b.modes >> (6 - 2 * k) & 3) == repeated && read_tables(m, src, blocks[i - b.tables[k]], k) == 0) m.bad = true;
    }
    described_bytes = __shfl_sync(~0u, described_bytes, group * threads_per_block);
    __syncwarp();
    if (coded && member < 3 && !m.bad) {
        State* states = member == 0 ? m.literals.states : member == 1 ? m.offsets.states : m.matches.states;
        if (m.symbols[member] < 0) {
            states[0] = {0, 0, (uint8_t)(-1 - m.symbols[member])};
        } else if (!build_states(states, m.counts[member], m.symbols[member], m.log[member])) {
            m.bad = true;
        }
        if (!m.bad) {
            for (int k = 0; k < 1 << m.log[member]; k++) {
                const State s = states[k];
                *(Entry*)&states[k] = extra_bits(member, s.symbol) | s.bits << 8 | s.base << 16 | (uint32_t)s.symbol << 25;
            }
        }
    }
    __syncwarp();
    // The stream takes the place of the counts.
    const uint8_t* const p = src + b.src + b.sequences_src + described_bytes;
    const uint32_t bytes = b.src_size - b.sequences_src - described_bytes;
    bool bad = coded && m.bad;
    if (coded && !bad) bad = bytes == 0 || p[bytes - 1] == 0;
    coded = coded && !bad;
    __syncwarp();
    Stream in = {};
    int32_t left = 0;
    if (coded) {
        const uintptr_t last = (uintptr_t)(p + bytes - 1);
        const int top = 31 - __clz(p[bytes - 1]);
        left = 8 * (bytes - 1) + top;
        in.unit = (const uint4*)(last & ~(uintptr_t)15), in.first = (const uint4*)((uintptr_t)p & ~(uintptr_t)15);
        // The bits before the stream's, of a word.
        in.next = 3 - (last & 15) / 4, in.skip = 32 - (8 * (last & 3) + top);
    }
    in.ring = (const uint32_t*)m.stream;
    const auto load = [&](uint32_t units) { return coded && member < units && in.unit - member >= in.first ? in.unit[-member] : uint4{0, 0, 0, 0}; };
    const auto put = [&](uint32_t units, const uint4& v) {
        if (coded && member < units) m.stream[(in.loaded / 4 + member) % (stream_words / 4)] = {v.w, v.z, v.y, v.x};
        in.unit -= units, in.loaded += 4 * units;
    };
    for (int k = 0; k < 3; k++) put(threads_per_block, load(threads_per_block));
    __syncwarp();

    Block& result = blocks[i];  // of the first thread
    Sequence* to = sequences + b.first_sequence;
    uint16_t* const marks = index + i * index_size;
    const uint32_t count = coded && member == 0 ? b.sequences - 1 : 0;
    uint32_t k = 0, used = 0, size = 0, marked = 0;  // sequences, literals, bytes of the output, of these with a mark
    uint32_t r0 = repeat_offset(0), r1 = repeat_offset(1), r2 = repeat_offset(2);
    uint32_t literals_state = 0, offset_state = 0, match_state = 0, states = 0;
    const uint32_t begin = 32 * in.next + in.skip;  // of the stream, in bits of the words
    if (count > 0) {
#pragma unroll
        for (int w = 0; w < 3; w++) in.word[w] = in.take();
        if (in.skip == 32) in.skip = 0, in.word[0] = in.word[1], in.word[1] = in.word[2], in.word[2] = in.take();
        uint32_t bits = in.peek(0);
        literals_state = high_bits(bits, m.log[0]);
        bits = __funnelshift_lc(0, bits, m.log[0]);
        offset_state = high_bits(bits, m.log[1]);
        match_state = high_bits(__funnelshift_lc(0, bits, m.log[1]), m.log[2]);
        in.advance_short(m.log[0] + m.log[1] + m.log[2]);
    }
    const auto step = [&] {
        const Entry ls = m.literals.entries[literals_state], os = m.offsets.entries[offset_state], ms = m.matches.entries[match_state];
        const Range literals = literals_ranges[ls >> 25], match = match_ranges[ms >> 25];
        const uint32_t sum = ls + os + ms, offset_bits = os & 255, match_bits = match >> 24;
        const uint32_t high = in.peek(0), low = in.peek(1);
        in.advance(sum & 255);
        // No states follow the last sequence: it reads bits before the stream.
        uint32_t bits = in.peek(0);
        literals_state = (ls >> 16 & 511) + high_bits(bits, ls >> 8 & 255);
        bits = __funnelshift_lc(0, bits, ls >> 8 & 255);
        match_state = (ms >> 16 & 511) + high_bits(bits, ms >> 8 & 255);
        bits = __funnelshift_lc(0, bits, ms >> 8 & 255);
        offset_state = (os >> 16 & 511) + high_bits(bits, os >> 8 & 255);
        states = sum >> 8 & 255;
        in.advance_short(states);

        const uint32_t value = (1u << offset_bits) + high_bits(high, offset_bits), lengths = __funnelshift_lc(low, high, offset_bits);
        Sequence c = {size, 0, used, 0};
        c.literals = (literals & 0xFFFFFF) + high_bits(__funnelshift_lc(0, lengths, match_bits), literals >> 24);
        // 0 to 2 repeat an offset, 3 takes 1 from the latest: the number to subtract
        // from an unknown one is in its lowest bits. No output has an offset of 2^31.
        const uint32_t which = value > 3 ? 4 : value - 1 + (c.literals == 0);
        c.offset = min(value - 3, unknown_offset - 1);
        if (which == 0) c.offset = r0;
        if (which == 1) c.offset = r1;
        if (which == 2) c.offset = r2;
        if (which == 3) c.offset = r0 & unknown_offset ? r0 + 1 : r0 - 1;
        if (which > 1) r2 = r1;
        if (which > 0) r1 = r0;
        r0 = c.offset;
        used += c.literals, size += c.literals + (match & 0xFFFFFF) + high_bits(lengths, match_bits);
        *to++ = c;
        k++;
    };
    while (__any_sync(~0u, k < count)) {
        const uint32_t taken = __shfl_sync(~0u, in.next, group * threads_per_block);
        const uint32_t units = min((uint32_t)threads_per_block, (stream_words - (in.loaded - taken)) / 4);
        const uint4 ahead = load(units);
        // A round reads at most 12 words, and 3 more are loaded.
        if (in.loaded - in.next >= 16) {
            const uint32_t before = k;
            if (k + per_round <= count) {
#pragma unroll
                for (uint32_t r = 0; r < per_round; r++) step();
            } else {
                while (k < count) step();
            }
            if (size > marked) {
                for (; marked < min(size, max_block); marked += index_step) marks[marked / index_step] = before;
                if (size > max_block) bad = true, k = count;
            }
        }
        __syncwarp();
        put(units, ahead);
        __syncwarp();
    }
    if (i >= n || member != 0) return;
    const uint32_t end = 32 * (in.next - 3) + in.skip - states;
    if (coded) bad |= used > b.literals || end - begin != (uint32_t)left;
    const uint32_t rest = bad ? 0 : b.literals - used;
    sequences[b.first_sequence + b.sequences - 1] = {size, rest, used, 0};
    size += rest;
    if (size > max_block) bad = true;
    for (; marked < size && !bad; marked += index_step) marks[marked / index_step] = b.sequences - 1;
    if (bad) result.status = corrupt;
    result.size = size;
    result.repeats[0] = r0, result.repeats[1] = r1, result.repeats[2] = r2;
}
