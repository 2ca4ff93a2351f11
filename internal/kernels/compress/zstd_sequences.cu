// Decodes the sequences of Zstandard blocks: eight threads for each block. Three of them
// build the tables, and one decodes.

#include "compress/zstd.cuh"

constexpr int threads_per_block = 8, blocks_per_warp = warp_size / threads_per_block;
__constant__ const int most_symbols[3] = {35, 31, 52}, max_logs[3] = {9, 8, 9};

// The least value of a code, and how many bits are added to it << 24.
using Range = uint32_t;

struct Memory {
    State literals[1 << 9], offsets[1 << 8], matches[1 << 9];
    int16_t counts[3][56];
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
__device__ uint32_t read_tables(Memory& m, const uint8_t* src, const Block& b, int only) {
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

extern "C" __global__ __launch_bounds__(warp_size) void quiver_zstd_sequences(const uint8_t* src, Block* blocks, Sequence* sequences, int64_t n) {
    __shared__ Memory memory[blocks_per_warp];
    __shared__ uint32_t rings[ring_words * blocks_per_warp];
    __shared__ Range literals_ranges[36], match_ranges[53];
    for (int c = lane(); c < 53; c += warp_size) {
        if (c < 36) literals_ranges[c] = literals_range(c);
        match_ranges[c] = match_range(c);
    }
    const int group = threadIdx.x / threads_per_block, member = threadIdx.x % threads_per_block;
    const int64_t i = (int64_t)blockIdx.x * blocks_per_warp + group;
    Memory& m = memory[group];
    Block b = {};
    if (i < n) b = blocks[i];
    const bool coded = i < n && b.sequences > 1;
    uint32_t described_bytes = 0;
    if (member == 0) m.bad = false;
    __syncwarp();
    if (coded && member == 0) {
        described_bytes = read_tables(m, src, b, -1);
        if (described_bytes == 0) m.bad = true;
        for (int k = 0; k < 3; k++)
            if ((b.modes >> (6 - 2 * k) & 3) == repeated && read_tables(m, src, blocks[i - b.tables[k]], k) == 0) m.bad = true;
    }
    __syncwarp();
    if (coded && member < 3 && !m.bad) {
        State* table = member == 0 ? m.literals : member == 1 ? m.offsets : m.matches;
        if (m.symbols[member] < 0)
            table[0] = {0, 0, (uint8_t)(-1 - m.symbols[member])};
        else if (!build_states(table, m.counts[member], m.symbols[member], m.log[member]))
            m.bad = true;
    }
    __syncwarp();
    if (i >= n || member != 0) return;
    Block& result = blocks[i];
    Sequence* to = sequences + b.first_sequence;
    uint32_t used = 0, size = 0;  // literals, bytes of the output
    uint32_t r0 = repeat_offset(0), r1 = repeat_offset(1), r2 = repeat_offset(2);
    bool bad = m.bad;
    if (coded && !bad) {
        BackwardBits bits;
        bad = !bits.open(src + b.src + b.sequences_src + described_bytes, b.src_size - b.sequences_src - described_bytes, rings + group, blocks_per_warp);
        bits.fill();
        uint32_t literals_state = bits.read(m.log[0]), offset_state = bits.read(m.log[1]);
        bits.fill();
        uint32_t match_state = bits.read(m.log[2]);
        const uint32_t count = b.sequences - 1;
        constexpr int round = 4;
        static_assert(round * (31 + 16 + 16 + 9 + 8 + 9) <= round_bits + 8);
        for (uint32_t k = 0; k < count && !bad; k++) {
            if (k % round == 0) {
                if (k > 0) bits.end_round();
                bits.begin_round();
            }
            const State ls = m.literals[literals_state], os = m.offsets[offset_state], ms = m.matches[match_state];
            const Range literals = literals_ranges[ls.symbol], match = match_ranges[ms.symbol];
            bits.fill();
            const uint32_t value = (1u << os.symbol) + bits.read(os.symbol);
            bits.fill();
            Sequence c = {size, 0, used, 0};
            const uint32_t repeated_bytes = (match & 0xFFFFFF) + bits.read(match >> 24);
            c.literals = (literals & 0xFFFFFF) + bits.read(literals >> 24);
            if (k + 1 < count) {
                bits.fill();
                literals_state = ls.base + bits.read(ls.bits);
                match_state = ms.base + bits.read(ms.bits);
                offset_state = os.base + bits.read(os.bits);
            }
            if (value > 3) {
                c.offset = value - 3;
                if (c.offset & unknown_offset) bad = true;
                r2 = r1, r1 = r0, r0 = c.offset;
            } else {
                const uint32_t which = value - 1 + (c.literals == 0);
                if (which == 0) {
                    c.offset = r0;
                } else {
                    // An unknown offset minus 1: the number to subtract is in its lowest bits.
                    c.offset = which == 1 ? r1 : which == 2 ? r2 : r0 & unknown_offset ? r0 + 1 : r0 - 1;
                    if (c.offset == 0) bad = true;
                    if (which > 1) r2 = r1;
                    r1 = r0, r0 = c.offset;
                }
            }
            used += c.literals, size += c.literals + repeated_bytes;
            if (used > b.literals || size > max_block) bad = true;
            to[k] = c;
        }
        bad |= bits.left != 0;
    }
    const uint32_t rest = bad ? 0 : b.literals - used;
    to[b.sequences - 1] = {size, rest, used, rest ? 0 : empty_sequence};
    size += rest;
    if (size > max_block) bad = true;
    if (bad) result.status = corrupt;
    result.size = size;
    result.repeats[0] = r0, result.repeats[1] = r1, result.repeats[2] = r2;
}
