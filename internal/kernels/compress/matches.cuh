// Finds repeated bytes, for encoders: a warp for each piece of an input. It takes steps of
// 32 positions, one for each thread, and the result does not depend on the order in which
// threads run: compress/internal/matches is the host implementation.
//
// The small table lets many warps fit into a multiprocessor, as each waits for memory most
// of the time.

#pragma once
#include "compress/batch.cuh"

constexpr uint32_t piece_size = 1 << 16;
constexpr int tag_bits = 16;
constexpr int small_table = 11, large_table = 13;  // bits of a hash; the large one finds more, slower
constexpr uint32_t inserted = 2;        // every second position goes into the table
constexpr uint32_t hashed = 5;         // bytes: the shortest match
constexpr uint32_t nearby = 16;        // bytes that are compared for each position; no match begins later before the end
constexpr uint32_t assumed = 40;       // length of a match of nearby or more bytes, until it is chosen
constexpr uint32_t patience = 4;       // steps without a match after which positions are skipped
constexpr uint32_t entropy_unit = 8;   // units of entropy and costs per bit
constexpr uint32_t sample_step = 31;   // of positions: no multiple of an element's size

struct Match {
    uint32_t position, length, offset;
};

// Returns the first one of 16 bytes at any address, from the aligned words that contain
// them.
__device__ __forceinline__ uint4 load_nearby(const uint8_t* p) {
    const uintptr_t at = (uintptr_t)p, shift = 8 * (at & 3);
    const uint32_t* word = (const uint32_t*)(at & ~(uintptr_t)3);
    const uint32_t a = word[0], b = word[1], c = word[2], d = word[3], e = shift ? word[4] : 0;
    return {__funnelshift_r(a, b, shift), __funnelshift_r(b, c, shift), __funnelshift_r(c, d, shift), shift ? __funnelshift_r(d, e, shift) : d};
}

// Return how many bytes of two words are equal, from the first or from the last one on.
__device__ __forceinline__ uint32_t equal_bytes(uint32_t difference) { return (uint32_t)__clz(__brev(difference)) >> 3; }
__device__ __forceinline__ uint32_t equal_bytes_before(uint32_t difference) { return (uint32_t)__clz(difference) >> 3; }

// Returns how many bytes are equal from the first one on.
__device__ __forceinline__ uint32_t common_bytes(uint4 a, uint4 b) {
    uint32_t difference = a.w ^ b.w, before = 12;
    if (a.z != b.z) difference = a.z ^ b.z, before = 8;
    if (a.y != b.y) difference = a.y ^ b.y, before = 4;
    if (a.x != b.x) difference = a.x ^ b.x, before = 0;
    return before + equal_bytes(difference);
}

// Returns about 256 * log2(v).
__device__ __forceinline__ int log256(uint32_t v) {
    const int high = 31 - __clz(v);
    return (high << 8) + ((v << 8) >> high) - 256;
}

__device__ __forceinline__ uint32_t warp_sum(uint32_t v) {
#pragma unroll
    for (int step = warp_size / 2; step; step /= 2) v += __shfl_xor_sync(~0u, v, step);
    return v;
}

// Returns the sum of v over the threads before this one; all = the sum over the warp.
__device__ __forceinline__ uint32_t warp_sum_before(uint32_t v, uint32_t& all) {
    uint32_t sum = v;
#pragma unroll
    for (int step = 1; step < warp_size; step *= 2) {
        const uint32_t other = __shfl_up_sync(~0u, sum, step);
        if (lane() >= step) sum += other;
    }
    all = __shfl_sync(~0u, sum, warp_size - 1);
    return sum - v;
}

// Copies bytes with all threads of a warp.
__device__ __forceinline__ void copy_bytes(uint8_t* to, const uint8_t* from, uint32_t n) {
    if (n <= 2 * warp_size) {
        for (uint32_t i = lane(); i < n; i += warp_size) to[i] = from[i];
        return;
    }
    const uint32_t head = (uint32_t)(0 - (uintptr_t)to & 3), words = (n - head) / 4, tail = head + 4 * words;
    if (lane() < head) to[lane()] = from[lane()];
    if (tail + lane() < n) to[tail + lane()] = from[tail + lane()];
#pragma unroll 4
    for (uint32_t i = lane(); i < words; i += warp_size) ((uint32_t*)(to + head))[i] = load_word(from + head + 4 * i);
}

template <int table_bits> struct Finder {
    uint32_t* table;     // in shared memory: position << tag_bits | tag, by hash
    const uint8_t* src;  // the piece

    // Forgets all positions.
    __device__ __forceinline__ void open(uint32_t* shared, const uint8_t* piece) {
        table = shared, src = piece;
        for (int i = lane(); i < 1 << table_bits; i += warp_size) table[i] = 0;
        __syncwarp();
    }

    // Returns the entropy of bytes in units per byte, from a sample. counts has 128 elements
    // in shared memory: two counts each.
    __device__ __forceinline__ uint32_t entropy(uint32_t begin, uint32_t end, uint32_t* counts) const {
        for (int i = lane(); i < 128; i += warp_size) counts[i] = 0;
        __syncwarp();
        for (uint32_t p = begin + sample_step * lane(); p < end; p += sample_step * warp_size) atomicAdd(&counts[src[p] / 2], 1u << 16 * (src[p] & 1));
        __syncwarp();
        const uint32_t n = (end - begin + sample_step - 1) / sample_step;
        uint32_t sum = 0;
        for (int i = lane(); i < 128; i += warp_size) {
            const uint32_t even = counts[i] & 0xFFFF, odd = counts[i] >> 16;
            if (even) sum += even * (log256(n) - log256(even));
            if (odd) sum += odd * (log256(n) - log256(odd));
        }
        sum = warp_sum(sum);
        __syncwarp();
        return sum / n / (256 / entropy_unit);
    }

    // Finds matches in [begin, end), in order. Calls for one piece go from its start to its
    // end. With repeats, a match with the offset of the one before costs less, and others
    // cost the bits of their offset. All threads call these methods of out:
    //
    //	match(m)            a match
    //	drop(n)             the last n literals are part of the next match
    //	step(threads, byte) each of some threads has a literal
    //	gap(position, n)    n literals
    template <bool repeats, typename Out> __device__ __forceinline__ void find(uint32_t begin, uint32_t end, uint32_t entropy, Out& out) {
        uint32_t repeat = 0, misses = 0, anchor = begin, at = begin;
        while (at + nearby <= end) {
            const uint32_t n = min((uint32_t)warp_size, end - nearby - at + 1), pos = at + lane();
            const bool active = lane() < n;
            uint4 own = {0, 0, 0, 0};
            uint32_t hash = 0, candidate = pos, length = 0, back = 0;
            __syncwarp();
            if (active) {
                own = load_nearby(src + pos);
                hash = own.x * 0x9E3779B1u + (own.y & 0xFF) * 0x85EBCA77u;
                const uint32_t entry = table[hash >> (32 - table_bits)];
                if ((entry & ((1 << tag_bits) - 1)) == tag(hash)) candidate = entry >> tag_bits;
            }
            // A near position of this step with the same hash goes first.
#pragma unroll
            for (int distance = 16; distance > 0; distance /= 2)
                if (__shfl_up_sync(~0u, hash, distance) == hash && lane() >= distance) candidate = pos - distance;
            __syncwarp();
            if (active && pos % inserted == 0) atomicMax(&table[hash >> (32 - table_bits)], pos << tag_bits | tag(hash));
            int gain = 0;
            if (active && candidate < pos) {
                length = common_bytes(own, load_nearby(src + candidate));
                if (length >= hashed) gain = max(0, value(length, entropy) - cost<repeats>(pos - candidate));
            }
            if (repeats && active && repeat && repeat <= pos) {
                const uint32_t l = common_bytes(own, load_nearby(src + pos - repeat));
                const int g = value(l, entropy) - (int)(4 * entropy_unit);
                if (l >= 4 && g > gain) candidate = pos - repeat, length = l, gain = g;
            }
            if (gain > 0 && candidate >= 4) back = equal_bytes_before(load_word(src + pos - 4) ^ load_word(src + candidate - 4));
            // A match is put off while one that begins a byte later gains more.
            const int later = __shfl_down_sync(~0u, gain, 1);
            const unsigned good = __ballot_sync(~0u, gain > 0);
            const unsigned better = __ballot_sync(~0u, lane() < warp_size - 1 && later > gain);
            unsigned literals = __ballot_sync(~0u, active);
            for (unsigned todo = good; todo;) {
                int i = __ffs(todo) - 1;
                i += __ffs(~(better >> i)) - 1;
                const uint32_t chosen = __shfl_sync(~0u, candidate | length << 16 | back << 24, i);
                Match m = {at + i, chosen >> 16 & 0xFF, at + i - (chosen & 0xFFFF)};
                if (m.length == nearby) m.length += extend(m.position + nearby, m.offset, end);
                const uint32_t before = min(chosen >> 24, m.position - anchor);
                m.position -= before, m.length += before;
                if (m.position < at) out.drop(at - m.position);
                out.match(m);
                repeat = m.offset;
                anchor = m.position + m.length;
                const unsigned after = anchor - at < warp_size ? ~0u << (anchor - at) : 0;
                literals &= after | ((1u << (m.position > at ? m.position - at : 0)) - 1);
                todo = good & after;
            }
            out.step(literals, own.x);
            at += n;
            if (good) {
                misses = 0;
                at = max(at, anchor);
            } else {
                const uint32_t skipped = min(warp_size * min(++misses / patience, 3u), end - at);
                if (skipped) out.gap(at, skipped);
                at += skipped;
            }
        }
        if (at < end) out.gap(at, end - at);
    }

private:
    static __device__ __forceinline__ uint32_t tag(uint32_t hash) { return hash >> (32 - table_bits - tag_bits) & ((1 << tag_bits) - 1); }

    static __device__ __forceinline__ int value(uint32_t length, uint32_t entropy) {
        return length == nearby ? assumed * max(entropy, 2 * entropy_unit) : length * entropy;
    }

    template <bool repeats> static __device__ __forceinline__ int cost(uint32_t offset) {
        return entropy_unit * (repeats ? 10 + 32 - __clz(offset) : 24);
    }

    // Returns how many bytes from p on equal those before by offset.
    __device__ __forceinline__ uint32_t extend(uint32_t p, uint32_t offset, uint32_t end) const {
        for (uint32_t all = 0;; all += 4 * warp_size) {
            const uint32_t mine = p + all + 4 * lane(), left = mine < end ? min(end - mine, 4u) : 0;
            uint32_t n = 0;
            if (left == 4)
                n = equal_bytes(load_word(src + mine) ^ load_word(src + mine - offset));
            else
                while (n < left && src[mine + n] == src[mine + n - offset]) n++;
            const unsigned stops = __ballot_sync(~0u, n < 4);
            if (stops) {
                const int first = __ffs(stops) - 1;
                return all + 4 * first + __shfl_sync(~0u, n, first);
            }
        }
    }
};
