// Encodes the literals and the sequences of Zstandard blocks: a warp for each block. Few loops
// are unrolled, as a kernel of twice as many instructions was slower.

#include "compress/zstd_encode.cuh"

constexpr int max_bits = 11, per_lane = 256 / warp_size;
constexpr uint32_t min_literals = 64;  // fewer are not encoded
constexpr uint32_t one_stream = 256;   // fewer are one stream
constexpr int weights_log = 6, most_description = 256;

// The memory for literals. Leaves of the Huffman tree are the symbols, in the order of
// their counts; the last inner node is the root.
struct Literals {
    uint32_t counts[256];
    uint32_t codes[256];  // the number of bits << 16 | code; before, the sums of inner nodes
    uint16_t parents[512];
    uint8_t order[256], depths[256], bits[256], weights[256];
    uint8_t description[most_description];
    uint32_t weight_counts[max_bits + 2];
    union {
        EncodingTable table;
        uint32_t leaves[256 + 1];  // their counts, and one that is larger
    };
    uint32_t description_size;
};

// The codes of sequences, in the order of their tables: of literals lengths, offsets and
// match lengths.
constexpr int code_kinds = 3, most_codes = EncodingTable::most_symbols;

// The memory for sequences.
struct Sequences {
    EncodingTable tables[code_kinds];
    uint32_t counts[code_kinds][most_codes];
    uint8_t description[code_kinds][most_description / 2];
    Transform transforms[code_kinds][warp_size];  // of some sequences
    uint32_t states[code_kinds][warp_size];       // before them: the number of bits that are written << 16 | state
    uint32_t description_size[code_kinds], mode[code_kinds];
};

union Memory {
    Literals literals;
    Sequences sequences;
};

// Writes the section of literals that are not encoded, or the first of equal ones. Returns
// its size.
__device__ uint32_t plain_literals(uint8_t* to, const uint8_t* from, uint32_t n, LiteralsType type) {
    const uint32_t header = n < 32 ? 1 : n < 4096 ? 2 : 3, v = type | (header == 1 ? n << 3 : n << 4 | (header == 2 ? 1 : 3) << 2);
    if (lane() < header) to[lane()] = v >> 8 * lane();
    if (type == rle_literals) n = 1;
    copy_bytes(to + header, from, n);
    return header + n;
}

// Sorts 256 keys by a bitonic sort. Each thread has neighbouring ones.
__device__ __forceinline__ void sort_keys(uint32_t (&v)[per_lane]) {
    static_assert(per_lane == 8);
    const auto sort = [&](int i, int j) {
        const uint32_t low = min(v[i], v[j]);
        v[j] = max(v[i], v[j]), v[i] = low;
    };
    const auto flip = [&](bool descends) {  // so that all sorts ascend
#pragma unroll
        for (int i = 0; i < per_lane; i++) v[i] ^= descends ? ~0u : 0;
    };
    flip(lane() & 1);
    sort(0, 1), sort(2, 3), sort(4, 5), sort(6, 7), sort(0, 2), sort(1, 3), sort(4, 6), sort(5, 7), sort(1, 2), sort(5, 6);
    sort(0, 4), sort(1, 5), sort(2, 6), sort(3, 7), sort(2, 4), sort(3, 5), sort(1, 2), sort(3, 4), sort(5, 6);
    flip(lane() & 1);
#pragma unroll 1
    for (int threads = 2; threads <= warp_size; threads *= 2) {
        flip(lane() & threads);
#pragma unroll 1
        for (int step = threads / 2; step; step /= 2)
#pragma unroll
            for (int i = 0; i < per_lane; i++) {
                const uint32_t other = __shfl_xor_sync(~0u, v[i], step);
                v[i] = lane() & step ? max(v[i], other) : min(v[i], other);
            }
        sort(0, 4), sort(1, 5), sort(2, 6), sort(3, 7), sort(0, 2), sort(1, 3), sort(4, 6), sort(5, 7), sort(0, 1), sort(2, 3), sort(4, 5), sort(6, 7);
        flip(lane() & threads);
    }
}

// Makes the Huffman code of the counts, of which at least two are not 0. Returns the number
// of bits of the longest code. last = the highest symbol.
__device__ int build_code(Literals& m, int& last) {
    uint32_t keys[per_lane], used = 0, n;
#pragma unroll
    for (int i = 0; i < per_lane; i++) {
        const int s = per_lane * lane() + i;
        keys[i] = m.counts[s] << 8 | s;
        used += m.counts[s] > 0;
        if (m.counts[s] > 0) last = s;
        m.bits[s] = 0;
    }
    last = warp_max(last);
    warp_sum_before(used, n);
    sort_keys(keys);
#pragma unroll
    for (int i = 0; i < per_lane; i++) {
        const int rank = per_lane * lane() + i - (256 - (int)n);
        if (rank >= 0) m.order[rank] = keys[i], m.leaves[rank] = keys[i] >> 8;
    }
    if (lane() == 0) m.leaves[n] = ~0u;
    __syncwarp();
    if (lane() == 0) {
        // Of two nodes with equal counts, a leaf is merged before an inner node.
        uint32_t leaf = 0, inner = 0;
#pragma unroll 1
        for (uint32_t made = 0; made < n - 1; made++) {
            uint32_t sum = 0;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const uint32_t leaf_count = m.leaves[leaf], inner_count = inner < made ? m.codes[inner] : ~0u;
                const bool is_leaf = leaf_count <= inner_count;
                sum += is_leaf ? leaf_count : inner_count;
                m.parents[is_leaf ? leaf : n + inner] = made;
                leaf += is_leaf, inner += !is_leaf;
            }
            m.codes[made] = sum;
        }
    }
    __syncwarp();
    // The depths of inner nodes, from the root on.
    constexpr uint8_t unknown = 255;
#pragma unroll 1
    for (uint32_t i = lane(); i < n - 1; i += warp_size) m.depths[i] = i == n - 2 ? 0 : unknown;
#pragma unroll 1
    for (int depth = 1, left = 1; left; depth++) {
        __syncwarp();
        bool more = false;
#pragma unroll 1
        for (uint32_t i = lane(); i < n - 2; i += warp_size) {
            if (m.depths[i] == unknown && m.depths[m.parents[n + i]] == depth - 1) m.depths[i] = depth;
            more |= m.depths[i] == unknown;
        }
        left = __any_sync(~0u, more);
    }
    __syncwarp();
    uint32_t sum = 0, longest = 0;
#pragma unroll 1
    for (uint32_t i = lane(); i < n; i += warp_size) {
        const uint32_t bits = min(max_bits, m.depths[m.parents[i]] + 1);
        m.bits[m.order[i]] = bits;
        sum += 1u << (max_bits - bits);
    }
    sum = warp_sum(sum);
    __syncwarp();
    if (lane() == 0) {
        // If codes were too long, others become longer, and then some shorter again.
#pragma unroll 1
        for (uint32_t i = 0; sum > 1u << max_bits; i++)
#pragma unroll 1
            for (uint8_t& bits = m.bits[m.order[i]]; bits < max_bits && sum > 1u << max_bits;) sum -= 1u << (max_bits - ++bits);
#pragma unroll 1
        for (int i = (int)n - 1; sum < 1u << max_bits; i--)
#pragma unroll 1
            for (uint8_t& bits = m.bits[m.order[i]]; sum + (1u << (max_bits - bits)) <= 1u << max_bits;) sum += 1u << (max_bits - bits--);
    }
    __syncwarp();
    uint32_t bits[per_lane];
#pragma unroll
    for (int i = 0; i < per_lane; i++) {
        bits[i] = m.bits[per_lane * lane() + i];
        longest = max(longest, bits[i]);
    }
#pragma unroll
    for (int step = warp_size / 2; step; step /= 2) longest = max(longest, __shfl_xor_sync(~0u, longest, step));
    // Codes of equal lengths follow each other, longer ones first.
    uint32_t at = 0;
#pragma unroll 1
    for (uint32_t length = longest; length > 0; length--) {
        uint32_t count = 0, all;
#pragma unroll
        for (int i = 0; i < per_lane; i++) count += bits[i] == length;
        const uint32_t width = longest - length;
        uint32_t code = (at >> width) + warp_sum_before(count, all);
#pragma unroll
        for (int i = 0; i < per_lane; i++)
            if (bits[i] == length) m.codes[per_lane * lane() + i] = length << 16 | code++;
        at += all << width;
    }
    __syncwarp();
    return longest;
}

// Writes the n weights in finite state entropy after the first byte of the description.
// Returns its size, or a large one.
__device__ uint32_t encode_weights(Literals& m, int n) {
    if (n < 3) return ~0u;
    if (lane() < max_bits + 2) m.weight_counts[lane()] = 0;
    __syncwarp();
#pragma unroll 1
    for (int s = lane(); s < n; s += warp_size) atomicAdd(&m.weight_counts[m.weights[s]], 1u);
    __syncwarp();
    uint32_t distinct = __popc(__ballot_sync(~0u, lane() < max_bits + 2 && m.weight_counts[lane()] > 0)), total = n;
    if (distinct == 1) {
        // A table of one symbol would need no bits, by which a decoder finds the end.
        if (lane() == 0) m.weight_counts[m.weight_counts[0] > 0]++;
        distinct++, total++;
        __syncwarp();
    }
    const int log = table_log(total, distinct, weights_log);
    if (lane() == 0) m.table.log = log, m.table.symbols = max_bits + 2;
    __syncwarp();
    normalize(m.weight_counts, total, m.table);
    ByteWriter w = {m.description + 1};
    if (lane() == 0) write_counts(w, m.table.norm, log);
    w.flush();
    __syncwarp();
    build_encoding(m.table);
    if (lane() == 0) {
        // Two states take turns.
        int state = first_state(m.table, m.weights[n - 1]), other = first_state(m.table, m.weights[n - 2]);
#pragma unroll 1
        for (int k = n - 3; k >= 0; k--) {
            const Transform f = m.table.transforms[m.weights[k]];
            const int bits = (state + f.bits) >> 16;
            w.add(state & ((1 << bits) - 1), bits);
            const int next = m.table.states[(state >> bits) + f.find];
            state = other, other = next;
        }
        w.add(state & ((1 << log) - 1), log);
        w.add(other & ((1 << log) - 1), log);
        w.add(1, 1);
        w.flush();
    }
    return __shfl_sync(~0u, w.size, 0);
}

// Makes the description of a code. Returns its size, or 0 if it has none.
__device__ uint32_t describe_code(Literals& m, int last, int longest) {
#pragma unroll 1
    for (int s = lane(); s < last; s += warp_size) m.weights[s] = m.bits[s] ? longest + 1 - m.bits[s] : 0;
    __syncwarp();
    const uint32_t direct = last <= 128 ? 1 + (last + 1) / 2 : ~0u, coded = encode_weights(m, last);
    if (lane() == 0) {
        if (coded < 128 && coded + 1 < direct) {
            m.description[0] = coded;
            m.description_size = coded + 1;
        } else if (direct != ~0u) {
            m.description[0] = 127 + last;
#pragma unroll 1
            for (int i = 0; i < last; i += 2) m.description[1 + i / 2] = m.weights[i] << 4 | (i + 1 < last ? m.weights[i + 1] : 0);
            m.description_size = direct;
        } else {
            m.description_size = 0;
        }
    }
    __syncwarp();
    return m.description_size;
}

// Writes the section of n literals to a region of the scratch memory. Returns its size,
// which is at most n + 3.
__device__ uint32_t encode_literals(Literals& m, uint32_t* buffer, uint8_t* to, uint32_t region, const uint8_t* from, uint32_t n) {
    if (n < min_literals) {
        bool same = true;
#pragma unroll 1
        for (uint32_t i = lane(); i < n; i += warp_size) same &= from[i] == from[0];
        return plain_literals(to, from, n, n > 2 && __ballot_sync(~0u, same) == ~0u ? rle_literals : raw_literals);
    }
#pragma unroll 1
    for (int i = lane(); i < 256; i += warp_size) m.counts[i] = 0;
    __syncwarp();
    const uint32_t words = n / 4;
#pragma unroll 1
    for (uint32_t i = lane(); i < words; i += warp_size) {
        const uint32_t v = ((const uint32_t*)from)[i];
#pragma unroll
        for (int k = 0; k < 4; k++) atomicAdd(&m.counts[v >> 8 * k & 255], 1u);
    }
    if (4 * words + lane() < n) atomicAdd(&m.counts[from[4 * words + lane()]], 1u);
    __syncwarp();
    uint32_t largest = 0;
#pragma unroll 1
    for (int i = lane(); i < 256; i += warp_size) largest = max(largest, m.counts[i]);
#pragma unroll
    for (int step = warp_size / 2; step; step /= 2) largest = max(largest, __shfl_xor_sync(~0u, largest, step));
    if (largest == n) return plain_literals(to, from, n, rle_literals);
    if (largest <= (n >> 7) + 4) return plain_literals(to, from, n, raw_literals);

    int last = 0;
    const int longest = build_code(m, last);
    uint32_t bits = 0;
#pragma unroll 1
    for (int s = lane(); s < 256; s += warp_size) bits += m.counts[s] * m.bits[s];
    bits = warp_sum(bits);
    const uint32_t description = describe_code(m, last, longest);
    const uint32_t form = n < one_stream ? 0 : n < 1 << 10 ? 1 : n < 1 << 14 ? 2 : 3, header = form == 3 ? 5 : form == 2 ? 4 : 3;
    const uint32_t streams = form ? 4 : 1, each = form ? (n + 3) / 4 : n, jumps = form ? 6 : 0;
    if (description == 0 || header + description + jumps + bits / 8 + 2 * streams >= n) return plain_literals(to, from, n, raw_literals);
#pragma unroll 1
    for (uint32_t i = lane(); i < description; i += warp_size) to[header + i] = m.description[i];
    __syncwarp();
    uint32_t at = header + description + jumps;
#pragma unroll 1
    for (uint32_t k = 0; k < streams; k++) {
        const uint8_t* const part = from + k * each;
        const uint32_t size = min(each, n - k * each), begin = at;
        WarpBits out;
        out.open(buffer, to, at, region);
#pragma unroll 1
        for (uint32_t done = 0; done < size; done += 4 * warp_size) {
            // Two codes fit a word, four two words.
            uint32_t words[2], lengths[2];
#pragma unroll
            for (int t = 0; t < 2; t++) {
                const uint32_t i = done + 4 * lane() + 2 * t;  // from the end
                const uint32_t first = i < size ? m.codes[part[size - 1 - i]] : 0, second = i + 1 < size ? m.codes[part[size - 2 - i]] : 0;
                words[t] = (first & 0xFFFF) | (second & 0xFFFF) << (first >> 16);
                lengths[t] = (first >> 16) + (second >> 16);
            }
            const uint64_t v = words[0] | (uint64_t)words[1] << lengths[0];
            const uint32_t length = lengths[0] + lengths[1];
            out.add(v, v >> 32, 0, length);
        }
        at = out.close();
        if (k < 3 && jumps && lane() == 0) {
            uint8_t* const jump = to + header + description + 2 * k;
            jump[0] = at - begin, jump[1] = (at - begin) >> 8;
        }
        __syncwarp();
    }
    const int width = form == 3 ? 18 : form == 2 ? 14 : 10;
    const uint64_t v = huffman_literals | form << 2 | n << 4 | (uint64_t)(at - header) << (4 + width);
    if (lane() < header) to[lane()] = v >> 8 * lane();
    __syncwarp();
    return at;
}

__device__ __forceinline__ uint32_t literals_code(uint32_t n) { return n < 16 ? n : n < 24 ? 8 + n / 2 : n < 32 ? 14 + n / 4 : n < 48 ? 18 + n / 8 : n < 64 ? 24 : high_bit(n) + 19; }

// Returns the code of a match of n + 3 bytes.
__device__ __forceinline__ uint32_t match_code(uint32_t n) {
    return n < 32 ? n : n < 40 ? 16 + n / 2 : n < 48 ? 26 + n / 4 : n < 64 ? 32 + n / 8 : n < 96 ? 36 + n / 16 : n < 128 ? 42 : high_bit(n) + 36;
}

// Return the number of bits that a code has beside its own.
__device__ __forceinline__ int literals_bits(uint32_t code) { return code < 16 ? 0 : code < 20 ? 1 : code < 22 ? 2 : code < 24 ? 3 : code < 25 ? 4 : code - 19; }
__device__ __forceinline__ int match_bits(uint32_t code) { return code < 32 ? 0 : code < 36 ? 1 : code < 38 ? 2 : code < 40 ? 3 : code < 42 ? 4 : code < 43 ? 5 : code - 36; }

__constant__ int symbols_of[code_kinds] = {36, 32, 53};
__constant__ int default_symbols[code_kinds] = {36, 29, 53}, default_logs[code_kinds] = {6, 5, 6};
__constant__ int8_t default_norms[code_kinds][most_codes] = {
    {4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1},
    {1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1},
    {1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1},
};

// Chooses and builds the tables for n codes of each kind, and makes their descriptions.
__device__ void choose_tables(Sequences& m, uint32_t n) {
#pragma unroll 1
    for (int kind = 0; kind < code_kinds; kind++) {
        EncodingTable& t = m.tables[kind];
        const int symbols = symbols_of[kind];
        const uint32_t low = lane() < symbols ? m.counts[kind][lane()] : 0, high = lane() + warp_size < symbols ? m.counts[kind][lane() + warp_size] : 0;
        const unsigned low_used = __ballot_sync(~0u, low > 0), high_used = __ballot_sync(~0u, high > 0);
        const bool one = warp_max(max(low, high)) == n;
        if (lane() == 0) {
            const int last = high_used ? high_bit(high_used) + warp_size : high_bit(low_used);
            m.mode[kind] = one ? rle_table : described, m.description_size[kind] = 1;
            t.symbols = symbols, t.log = one ? 0 : table_log(n, __popc(low_used) + __popc(high_used), EncodingTable::most_log);
            if (one) m.description[kind][0] = last, t.transforms[last] = {0, 0}, t.states[0] = 0;
        }
        __syncwarp();
        if (!one) normalize(m.counts[kind], n, t);
    }
    if (lane() < code_kinds && m.mode[lane()] == described) {
        ByteWriter w = {m.description[lane()]};
        write_counts(w, m.tables[lane()].norm, m.tables[lane()].log);
        w.flush();
        m.description_size[lane()] = w.size;
    }
    __syncwarp();
#pragma unroll 1
    for (int kind = 0; kind < code_kinds; kind++) {
        EncodingTable& t = m.tables[kind];
        if (m.mode[kind] == rle_table) continue;
        uint32_t own = 0, fixed = 0;
        bool fits = true;
#pragma unroll 1
        for (int s = lane(); s < t.symbols; s += warp_size) {
            const uint32_t count = m.counts[kind][s];
            if (count == 0) continue;
            own += count * ((t.log << 8) - log256(t.norm[s]));
            if (s < default_symbols[kind])
                fixed += count * ((default_logs[kind] << 8) - log256(max((int)default_norms[kind][s], 1)));
            else
                fits = false;
        }
        own = 8 * 256 * m.description_size[kind] + warp_sum(own), fixed = warp_sum(fixed);
        fits = __ballot_sync(~0u, !fits) == 0;
        __syncwarp();
        if (fits && fixed <= own) {
            if (lane() == 0) {
                m.mode[kind] = predefined, m.description_size[kind] = 0;
                t.symbols = default_symbols[kind], t.log = default_logs[kind];
            }
#pragma unroll 1
            for (int s = lane(); s < default_symbols[kind]; s += warp_size) t.norm[s] = default_norms[kind][s];
            __syncwarp();
        }
        build_encoding(t);
    }
    __syncwarp();
}

// Goes from the state after a symbol to the one before, for count symbols of the transforms.
// Runs in one thread.
__device__ __forceinline__ void run_states(const EncodingTable& t, int& state, const Transform* transforms, uint32_t* states, int count) {
#pragma unroll 4
    for (int i = 0; i < count; i++) {
        const Transform f = transforms[i];
        const int n = (state + f.bits) >> 16;
        states[i] = n << 16 | state;
        state = t.states[(state >> n) + f.find];
    }
}

// Adds n bits to 96 others, of which size are used.
__device__ __forceinline__ void append(uint32_t v[3], uint32_t& size, uint32_t value, uint32_t n) {
    const uint32_t shift = size % 32, low = value << shift, high = __funnelshift_l(value, 0, shift);
    if (size < 32)
        v[0] |= low, v[1] |= high;
    else if (size < 64)
        v[1] |= low, v[2] |= high;
    else
        v[2] |= low;
    size += n;
}

// Writes the section of sequences of a block at a position of its region. Returns the end,
// or region if that is too small.
__device__ uint32_t encode_sequences(Sequences& m, uint32_t* buffer, uint8_t* to, uint32_t at, uint32_t region, const EncodedSequence* list, uint32_t n) {
    if (lane() == 0) {
        if (n < 128)
            to[at] = n;
        else
            to[at] = (n >> 8) + 128, to[at + 1] = n;
    }
    at += n < 128 ? 1 : 2;
    if (n == 0) return at;
#pragma unroll 1
    for (int i = lane(); i < code_kinds * most_codes; i += warp_size) (&m.counts[0][0])[i] = 0;
    __syncwarp();
#pragma unroll 1
    for (uint32_t i = lane(); i < n; i += warp_size) {
        const EncodedSequence s = list[i];
        atomicAdd(&m.counts[0][literals_code(s.literals)], 1u);
        atomicAdd(&m.counts[1][high_bit(s.value)], 1u);
        atomicAdd(&m.counts[2][match_code(s.match - 3)], 1u);
    }
    __syncwarp();
    choose_tables(m, n);
    if (at + 1 + m.description_size[0] + m.description_size[1] + m.description_size[2] >= region) return region;
    if (lane() == 0) to[at] = m.mode[0] << 6 | m.mode[1] << 4 | m.mode[2] << 2;
    at++;
#pragma unroll 1
    for (int k = 0; k < code_kinds; k++) {
#pragma unroll 1
        for (uint32_t i = lane(); i < m.description_size[k]; i += warp_size) to[at + i] = m.description[k][i];
        at += m.description_size[k];
    }
    __syncwarp();
    WarpBits out;
    out.open(buffer, to, at, region);
    int state = 0;
#pragma unroll 1
    for (uint32_t done = 0; done < n && out.word < out.limit; done += warp_size) {
        const uint32_t i = done + lane(), count = min((uint32_t)warp_size, n - done);  // from the end
        EncodedSequence s = {1, 0, 3};
        if (i < n) s = list[n - 1 - i];
        const uint32_t codes[3] = {literals_code(s.literals), (uint32_t)high_bit(s.value), match_code(s.match - 3)};
        if (i < n)
#pragma unroll
            for (int k = 0; k < code_kinds; k++) m.transforms[k][lane()] = m.tables[k].transforms[codes[k]];
        if (done == 0) {  // the last sequence only sets the states
#pragma unroll
            for (int k = 0; k < code_kinds; k++) {
                const uint32_t last = __shfl_sync(~0u, codes[k], 0);
                if (lane() == k) state = first_state(m.tables[k], last);
            }
            if (lane() < code_kinds) m.states[lane()][0] = 0;
        }
        __syncwarp();
        const int first = done == 0;
        if (lane() < code_kinds) run_states(m.tables[lane()], state, m.transforms[lane()] + first, m.states[lane()] + first, count - first);
        __syncwarp();
        uint32_t v[3] = {0, 0, 0}, size = 0;
        if (i < n) {
            const auto add_state = [&](int k) {
                const uint32_t bits = m.states[k][lane()] >> 16;
                append(v, size, m.states[k][lane()] & ((1u << bits) - 1), bits);
            };
            const auto add_extra = [&](uint32_t value, int bits) { append(v, size, value & ((1u << bits) - 1), bits); };
            add_state(1), add_state(2), add_state(0);
            add_extra(s.literals, literals_bits(codes[0]));
            add_extra(s.match - 3, match_bits(codes[2]));
            add_extra(s.value, codes[1]);
        }
        out.add(v[0], v[1], v[2], size);
    }
    uint32_t v[3] = {0, 0, 0}, size = 0;
#pragma unroll
    for (int k = 2; k >= 0; k--) append(v, size, __shfl_sync(~0u, state, k) & ((1 << m.tables[k].log) - 1), m.tables[k].log);
    if (lane() != 0) v[0] = v[1] = size = 0;
    out.add(v[0], v[1], 0, size);
    return min(out.close(), region);
}

extern "C" __global__ __launch_bounds__(warp_size) void quiver_zstd_entropy(const uint8_t* src, const SourceBlock* blocks, const uint8_t* literals, uint8_t* contents, const EncodedSequence* sequences, EncodedBlock* encoded) {
    __shared__ Memory memory;
    __shared__ uint32_t buffer[WarpBits::words];
    const SourceBlock block = blocks[blockIdx.x];
    EncodedBlock result = encoded[blockIdx.x];
    const EncodedSequence* const list = sequences + block.scratch / 4;
    uint8_t* const to = contents + block.scratch;
    const uint32_t region = scratch_size(block.size);
    result.type = raw_block, result.size = block.size;
    if (result.sequences == 1 && result.literals <= 1 && list[0].value == 4 && list[0].literals + list[0].match == block.size) {
        result.type = rle_block, result.size = 1;  // a match at offset 1 is all but the first byte, or all
    } else if (result.sequences > 0 || result.literals >= min_literals) {
        result.section = encode_literals(memory.literals, buffer, to, region, literals + block.scratch, result.literals);
        __syncwarp();
        const uint32_t size = encode_sequences(memory.sequences, buffer, to, result.section, region, list, result.sequences);
        if (size < block.size) result.type = compressed_block, result.size = size;
    }
    if (lane() == 0) encoded[blockIdx.x] = result;
}
