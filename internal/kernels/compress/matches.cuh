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
constexpr uint32_t ahead = 256;        // bytes after a step's first position, which are prefetched

// A match, and the number of literals between the match before and this one.
struct Match {
    uint32_t literals, length, offset;
};

// The nearby bytes from a position on, and the 4 before it. Those before the piece are not
// defined.
struct Around {
    uint4 nearby;
    uint32_t before;
};

// Return the bytes at or around a position after an aligned address, from the aligned words
// that contain them.
__device__ __forceinline__ uint32_t load_word(const uint32_t* words, uint32_t at) {
    const uint32_t* const w = words + at / 4;
    return __funnelshift_r(w[0], at % 4 ? w[1] : 0, 8 * at);
}
__device__ __forceinline__ Around load_around(const uint32_t* words, uint32_t at) {
    const uint32_t* const w = words + at / 4;
    const uint32_t before = at >= 4 ? w[-1] : 0;
    const uint32_t a = w[0], b = w[1], c = w[2], d = w[3], e = at % 4 ? w[4] : 0, shift = 8 * at;
    return {{__funnelshift_r(a, b, shift), __funnelshift_r(b, c, shift), __funnelshift_r(c, d, shift), __funnelshift_r(d, e, shift)}, __funnelshift_r(before, a, shift)};
}

// Returns the bits from a position on.
__device__ __forceinline__ unsigned bits_from(uint32_t position) { return position < warp_size ? ~0u << position : 0; }

// Returns the number of trailing ones.
__device__ __forceinline__ uint32_t ones(unsigned v) { return __clz(__brev(~v)); }

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

// Returns the entropy of bytes in units per byte, from a sample. counts has 128 elements
// in shared memory: two counts each.
__device__ __forceinline__ uint32_t sample_entropy(const uint8_t* src, uint32_t begin, uint32_t end, uint32_t* counts) {
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

// The positions of a table by hash. Each is the last one with its hash; 0 is none. A large
// table has no tags, so that twice as many warps fit: more bytes are compared in vain.
template <int table_bits> struct Table {
    uint32_t entries[1 << table_bits];  // position + 1 << tag_bits | tag

    __device__ __forceinline__ void clear() {
        for (int i = lane(); i < 1 << table_bits; i += warp_size) entries[i] = 0;
    }
    // Returns a position, or one after all others.
    __device__ __forceinline__ uint32_t find(uint32_t hash) const {
        const uint32_t entry = entries[hash >> (32 - table_bits)];
        return (entry & ((1 << tag_bits) - 1)) == tag(hash) ? (entry >> tag_bits) - 1 : ~0u;
    }
    // Adds the positions of some threads. Of those with one hash, the last one stays.
    __device__ __forceinline__ void add(uint32_t hash, uint32_t position, bool mine) {
        if (mine) atomicMax(&entries[hash >> (32 - table_bits)], position + 1 << tag_bits | tag(hash));
    }

private:
    static __device__ __forceinline__ uint32_t tag(uint32_t hash) { return hash >> (32 - table_bits - tag_bits) & ((1 << tag_bits) - 1); }
};
template <> struct Table<large_table> {
    uint16_t entries[1 << large_table];  // position / inserted + 1

    __device__ __forceinline__ void clear() {
        for (int i = lane(); i < 1 << large_table; i += warp_size) entries[i] = 0;
    }
    __device__ __forceinline__ uint32_t find(uint32_t hash) const { return (entries[hash >> (32 - large_table)] - 1u) * inserted; }
    __device__ __forceinline__ void add(uint32_t hash, uint32_t position, bool mine) {
        volatile uint16_t& entry = entries[hash >> (32 - large_table)];
        const uint32_t own = position / inserted + 1;
        if (mine) entry = own;
        // One of the threads that write an entry wins: the others write again if they are later.
        for (;;) {
            __syncwarp();
            const bool again = mine && entry < own;
            if (!__any_sync(~0u, again)) break;
            if (again) entry = own;
        }
    }
};

template <int table_bits> struct Finder {
    Table<table_bits>* table;  // in shared memory
    const uint8_t* src;        // the piece
    const uint32_t* words;     // the aligned word that contains its first byte
    uint32_t skew;             // where that byte is in the word

    // Forgets all positions.
    __device__ __forceinline__ void open(Table<table_bits>& shared, const uint8_t* piece) {
        table = &shared, src = piece;
        skew = (uintptr_t)piece & 3, words = (const uint32_t*)(piece - skew);
        shared.clear();
        __syncwarp();
    }

    // Finds matches in [begin, end), in order, and returns where the last one ends, or begin.
    // Calls for one piece go from its start to its end. With repeats, a match with the offset
    // of the one before costs less, and others cost the bits of their offset. All threads
    // call these methods of out:
    //
    //	drop(n)             the last n literals are part of the next match
    //	matches(threads, m) each of some threads has a match
    //	step(threads, byte) each of some threads has a literal
    //	gap(position, n)    n literals
    template <bool repeats, typename Out> __device__ __forceinline__ uint32_t find(uint32_t begin, uint32_t end, uint32_t entropy, Out& out) {
        uint32_t repeat = 0, misses = 0, anchor = begin, at = begin;
        while (at + nearby <= end) {
            const uint32_t n = min((uint32_t)warp_size, end - nearby - at + 1), pos = at + lane();
            const bool active = lane() < n;
            if (lane() == 0 && at + ahead < end) asm volatile("prefetch.global.L1 [%0];" ::"l"(src + at + ahead));
            // Threads after the end read the last position, so that none waits for others.
            const uint32_t read = skew + min(pos, end - nearby);
            const Around own = load_around(words, read);
            Around again = {};
            if (repeats) again = load_around(words, read - repeat);
            const uint32_t hash = own.nearby.x * 0x9E3779B1u + (own.nearby.y & 0xFF) * 0x85EBCA77u;
            uint32_t length = 0, back = 0, before = 0;
            __syncwarp();
            uint32_t candidate = table->find(hash);
            // A near position of this step with the same hash goes first.
#pragma unroll
            for (int distance = 16; distance > 0; distance /= 2)
                if (__shfl_up_sync(~0u, hash, distance) == hash && lane() >= distance) candidate = pos - distance;
            __syncwarp();
            table->add(hash, pos, active && pos % inserted == 0);
            int gain = 0;
            if (active && candidate < pos) {
                const Around old = load_around(words, skew + candidate);
                length = common_bytes(own.nearby, old.nearby), before = old.before;
                if (length >= hashed) gain = max(0, value(length, entropy) - cost<repeats>(pos - candidate));
            }
            if (repeats && repeat) {
                const uint32_t l = common_bytes(own.nearby, again.nearby);
                const int g = value(l, entropy) - (int)(4 * entropy_unit);
                if (active && l >= 4 && g > gain) candidate = pos - repeat, length = l, gain = g, before = again.before;
            }
            if (gain > 0 && candidate >= 4) back = equal_bytes_before(own.before ^ before);
            const unsigned good = __ballot_sync(~0u, gain > 0);
            unsigned literals = __ballot_sync(~0u, active);
            if (good) {
                // A match is put off while one that begins a byte later gains more.
                const int later = __shfl_down_sync(~0u, gain, 1);
                const unsigned better = __ballot_sync(~0u, lane() < warp_size - 1 && later > gain);
                const uint32_t best = lane() + ones(better >> lane());
                const auto best_of = [&](unsigned todo) {
                    const uint32_t i = __shfl_sync(~0u, best, todo ? __ffs(todo) - 1 : 0);
                    return todo ? i : warp_size;
                };
                // Matches are chosen in turn: the best one after the match before.
                const uint32_t follows = best_of(good & bits_from(lane() + length));
                unsigned chosen = 0;
                for (uint32_t i = best_of(good); i < warp_size;) {
                    chosen |= 1u << i;
                    const uint32_t of_i = __shfl_sync(~0u, follows | length << 8, i);
                    if (of_i >> 8 < nearby) {
                        i = of_i & 0xFF;
                        continue;
                    }
                    const uint32_t more = extend(at + i + nearby, __shfl_sync(~0u, pos - candidate, i), end);
                    if (lane() == i) length += more;
                    i = best_of(good & bits_from(i + nearby + more));
                }
                const bool mine = chosen >> lane() & 1;
                const unsigned before = chosen & ((1u << lane()) - 1), after = chosen & bits_from(lane() + 1);
                uint32_t free = __shfl_sync(~0u, pos + length, before ? 31 - __clz(before) : 0);  // where the match before ends
                if (!before) free = anchor;
                const uint32_t first = pos - (mine ? min(back, pos - free) : 0);
                const uint32_t taken = __shfl_sync(~0u, first, after ? __ffs(after) - 1 : 0);  // where the next match begins
                literals = __ballot_sync(~0u, active && !mine && pos >= free && (!after || pos < taken));
                const uint32_t start = __shfl_sync(~0u, first, __ffs(chosen) - 1);
                if (start < at) out.drop(at - start);
                out.matches(chosen, Match{first - free, pos + length - first, pos - candidate});
                const int last = 31 - __clz(chosen);
                repeat = __shfl_sync(~0u, pos - candidate, last);
                anchor = __shfl_sync(~0u, pos + length, last);
            }
            out.step(literals, own.nearby.x);
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
        return anchor;
    }

private:
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
                n = equal_bytes(load_word(words, skew + mine) ^ load_word(words, skew + mine - offset));
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
