// Decodes the literals of Zstandard blocks that have Huffman codes: four threads for each
// block, one for each stream.

#pragma once
#include "compress/zstd.cuh"

constexpr int max_bits = 11, most_weights = 255;

// An entry of a table of Huffman codes: the symbol, and the bits of its code << 8.
using Code = uint16_t;

struct LiteralsMemory {
    Code codes[1 << max_bits];
    uint8_t weights[most_weights + 1];
    State states[64];
    int16_t counts[16];
    int bits;  // of the longest code, or 0 for an invalid table
    uint32_t description;  // its size in bytes
};

// Reads the weights of the symbols. Returns their number, or 0. Runs in one thread.
__device__ int read_weights(LiteralsMemory& m, const uint8_t* p, uint32_t size, uint32_t* ring) {
    if (size == 0) return 0;
    const uint32_t header = p[0];
    if (header >= 128) {
        const int n = header - 127;
        m.description = 1 + (n + 1) / 2;
        if (m.description > size) return 0;
        for (int i = 0; i < n; i++) m.weights[i] = i & 1 ? p[1 + i / 2] & 15 : p[1 + i / 2] >> 4;
        return n;
    }
    m.description = 1 + header;
    if (m.description > size) return 0;
    int log, symbols;
    const uint32_t table = read_counts(p + 1, header, m.counts, max_bits + 1, 6, log, symbols);
    if (table == 0 || !build_states(m.states, m.counts, symbols, log)) return 0;
    BackwardBits bits;
    if (!bits.open(p + 1 + table, header - table, ring, warp_size)) return 0;
    bits.fill();
    uint32_t state[2];
    state[0] = bits.read(log);
    state[1] = bits.read(log);
    if (bits.left < 0) return 0;
    for (int n = 0; n < most_weights - 1;) {
        const State s = m.states[state[n & 1]];
        m.weights[n++] = s.symbol;
        bits.begin_round();
        bits.end_round();
        bits.fill();
        state[(n - 1) & 1] = s.base + bits.read(s.bits);
        if (bits.left < 0) {
            m.weights[n] = m.states[state[n & 1]].symbol;
            return n + 1;
        }
    }
    return 0;
}

// Reads the description of a Huffman code and completes the weights. Runs in one thread.
__device__ int read_code(LiteralsMemory& m, const uint8_t* p, uint32_t size, uint32_t* ring) {
    m.bits = 0;
    int n = read_weights(m, p, size, ring);
    if (n == 0 || n > most_weights) return 0;
    uint32_t sum = 0;
    for (int i = 0; i < n; i++) {
        if (m.weights[i] > max_bits) return 0;
        sum += (1u << m.weights[i]) >> 1;
    }
    if (sum == 0) return 0;
    const int bits = 32 - __clz(sum);
    const uint32_t rest = (1u << bits) - sum;
    if (bits > max_bits || (rest & (rest - 1)) != 0) return 0;
    m.weights[n++] = 32 - __clz(rest);
    m.bits = bits;
    return n;
}

// Decodes n symbols, for which a round of the stream has enough bits for 32.
__device__ bool decode_stream(const LiteralsMemory& m, const uint8_t* p, uint32_t size, uint8_t* to, uint32_t n, uint32_t* ring) {
    constexpr int round = 32;
    static_assert(round * max_bits <= round_bits);
    BackwardBits bits;
    if (!bits.open(p, size, ring, warp_size)) return false;
    const int longest = m.bits;
    const auto next = [&] {
        const Code c = m.codes[bits.peek(longest)];
        bits.skip(c >> 8);
        return (uint32_t)(c & 255);
    };
    const auto next_word = [&] {
        bits.fill();
        uint32_t word = next();
        word |= next() << 8;
        bits.fill();
        word |= next() << 16;
        return word | next() << 24;
    };
    // Up to an address that is a multiple of 16, then 16 symbols at a time.
    uint32_t i = 0;
    const uint32_t head = min(n, (uint32_t)(0 - (uintptr_t)to & 15));
    bits.begin_round();
    for (; i < head; i++) {
        bits.fill();
        to[i] = next();
    }
    bits.end_round();
    for (; i + round <= n; i += round) {
        bits.begin_round();
#pragma unroll
        for (int k = 0; k < round; k += 16) {
            uint4 v;
            v.x = next_word(), v.y = next_word(), v.z = next_word(), v.w = next_word();
            *(uint4*)(to + i + k) = v;
        }
        bits.end_round();
    }
    for (; i < n; i++) {
        bits.fill();
        to[i] = next();
    }
    return bits.left == 0;
}

struct LiteralsShared {
    LiteralsMemory memory[blocks_per_warp];
    uint32_t rings[ring_words * warp_size];
};

// Decodes the literals of a warp's blocks, from `first` on, of n.
__device__ __forceinline__ void decode_literals(LiteralsShared& shared, const uint8_t* src, Block* blocks, uint8_t* literals, int64_t first, int64_t n) {
    uint32_t* const ring = shared.rings + threadIdx.x;
    const int group = threadIdx.x / threads_per_block, member = threadIdx.x % threads_per_block;
    const int64_t i = first + group;
    LiteralsMemory& m = shared.memory[group];
    Block b = {};
    if (i < n) b = blocks[i];
    const uint8_t* p = src + b.src;
    uint8_t* to = literals + b.first_literal;
    const bool coded = i < n && b.coded_literals();
    int symbols = 0;
    if (coded && member == 0) {
        const Block& describes = blocks[i - b.huffman];
        symbols = read_code(m, src + describes.src + describes.literals_src, describes.literals_src_size, ring);
    }
    symbols = __shfl_sync(~0u, symbols, group * threads_per_block);
    __syncwarp();
    bool bad = coded && symbols == 0;
    if (coded && !bad) {
        // Each thread fills in the codes of every fourth weight.
        uint32_t at = 0;
        for (int w = 1; w <= m.bits; w++) {
            const bool mine = w % threads_per_block == member;
            for (int s = 0; s < symbols; s++) {
                if (m.weights[s] != w) continue;
                const Code c = s | (m.bits + 1 - w) << 8;
                if (mine)
                    for (uint32_t k = 0; k < 1u << (w - 1); k++) m.codes[at + k] = c;
                at += 1u << (w - 1);
            }
        }
    }
    __syncwarp();
    if (coded && !bad) {
        p += b.literals_src;
        uint32_t size = b.literals_src_size;
        if (b.literals_type == huffman_literals) {
            p += m.description;
            size -= m.description;
        }
        if (b.streams == 1) {
            if (member == 0) bad = !decode_stream(m, p, size, to, b.literals, ring);
        } else if (size < 6 || b.literals < 6) {
            bad = true;
        } else {
            const uint32_t each = (b.literals + 3) / 4, last = 3 * each;
            uint32_t begin = 6, length = 0, all = 6;
            for (int k = 0; k < 3; k++) {
                const uint32_t stream = p[2 * k] | p[2 * k + 1] << 8;
                if (k < member) begin += stream;
                if (k == member) length = stream;
                all += stream;
            }
            if (member == 3) length = size - all;
            bad = all >= size || last > b.literals || !decode_stream(m, p + begin, length, to + member * each, member == 3 ? b.literals - last : each, ring);
        }
    }
    const unsigned failed = __ballot_sync(~0u, bad);
    if (i < n && member == 0 && (failed >> group * threads_per_block & ((1 << threads_per_block) - 1))) blocks[i].status = corrupt;
}
