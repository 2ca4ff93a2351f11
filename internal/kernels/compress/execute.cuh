// Executes sequences with a warp, in order: some literals, then a match, which repeats
// earlier output.
//
// Each lane has a sequence. The output is written 32 bytes at a time, a byte per lane, so
// that all bytes before them are final. Bytes that repeat some of the same 32 are links,
// which the warp follows by shuffles.
//
// Several warps may write an output, each a range. A byte that repeats the output before
// its range gets a mark, which is the distance of the repeated byte from the start of the
// range. Marks are resolved later, range by range.

#pragma once
#include "compress/copy.cuh"

// Returns the bitwise or of the values of a warp.
__device__ __forceinline__ uint32_t reduce_or(uint32_t value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    return __reduce_or_sync(~0u, value);
#else
#pragma unroll
    for (int step = 1; step < warp_size; step *= 2) value |= __shfl_xor_sync(~0u, value, step);
    return value;
#endif
}

// Returns the sum of the values of a warp.
__device__ __forceinline__ uint32_t reduce_add(uint32_t value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    return __reduce_add_sync(~0u, value);
#else
#pragma unroll
    for (int step = 1; step < warp_size; step *= 2) value += __shfl_xor_sync(~0u, value, step);
    return value;
#endif
}

// A sequence of a lane. After the sequences of a batch, lanes have empty ones at its end.
struct LaneSequence {
    uint32_t out, match, end;  // where its literals and its match begin in the output, and its end
    uint32_t source;           // position of its literals among all, less out
    uint32_t offset;           // how far before its own position the match reads, at most match
};

constexpr uint32_t long_part = 192;  // longer literals and matches are copied in words

// Writes bytes of an output with a warp. With marks, begin is where the range of the warp
// begins, and marked reports whether it has any.
template <bool marks_> struct Executor {
    uint8_t* dst;
    const uint8_t* literals;
    uint32_t same;  // 0 if all literals are the first one, otherwise ~0
    uint32_t begin;
    uint16_t* marks;
    bool marked = false;

    // Writes the bytes from low to high of a batch of sequences, which has them all.
    __device__ __forceinline__ void write(const LaneSequence& s, uint32_t low, uint32_t high) {
        // Bytes that repeat the output before the range are not copied in words.
        const uint32_t copied = marks_ ? min(max(s.match, begin + s.offset), s.end) : s.match;
        const bool long_literals = s.match - s.out >= long_part, long_match = s.end - copied >= long_part;
        bool more = __any_sync(~0u, long_literals || long_match);
        do {
            // The first long part that ends after low.
            uint32_t part = high, part_end = high;
            int k = 0;
            if (more) {
                uint32_t mine = ~0u, mine_end = 0;
                if (long_match && s.end > low) mine = copied, mine_end = s.end;
                if (long_literals && s.match > low) mine = s.out, mine_end = s.match;
                const uint32_t found = __ballot_sync(~0u, mine != ~0u);
                more = found != 0;
                if (more) {
                    k = __ffs(found) - 1;
                    part = min(__shfl_sync(~0u, mine, k), high), part_end = min(__shfl_sync(~0u, mine_end, k), high);
                }
            }
            if (part > low) {
                write_short(s, low, part);
                low = part;
            }
            if (!more) return;
            const uint32_t match = __shfl_sync(~0u, s.match, k), source = __shfl_sync(~0u, s.source, k), offset = __shfl_sync(~0u, s.offset, k);
            if (low < match)
                put_literals(low, source, part_end - low);
            else
                put_match(low, offset, part_end);
            low = part_end;
        } while (low < high);
    }

private:
    // The sequence of each of 32 bytes.
    struct Found {
        uint32_t match, source, offset;
    };

    // Finds the sequences of the 32 bytes from g on, of which `before` has the byte before g,
    // and counts it on.
    __device__ __forceinline__ Found find(const LaneSequence& s, uint32_t g, int& before) const {
        const uint32_t from_g = s.out - g;
        const uint32_t starts = reduce_or(from_g < warp_size ? 1u << from_g : 0);
        const int k = before + __popc(starts & ~0u >> warp_size - 1 - lane());
        before += __popc(starts);
        return {__shfl_sync(~0u, s.match, k), __shfl_sync(~0u, s.source, k), __shfl_sync(~0u, s.offset, k)};
    }

    // Writes the bytes from low to high 32 at a time.
    __device__ __forceinline__ void write_short(const LaneSequence& s, uint32_t low, uint32_t high) {
        int before = __popc(__ballot_sync(~0u, s.out < low)) - 1;
        Found f = find(s, low, before);
        uint8_t* to = dst + low + lane();
        uint32_t g = low;
#pragma unroll 1
        for (; high - g >= warp_size; g += warp_size, to += warp_size) write_group<true>(s, g, high, to, f, before);
        if (g < high) write_group<false>(s, g, high, to, f, before);
    }

    // Writes the 32 bytes from g on, or as many as there are, and finds the sequences of the
    // next ones.
    template <bool all_> __device__ __forceinline__ void write_group(const LaneSequence& s, uint32_t g, uint32_t high, uint8_t* to, Found& f, int& before) {
        const uint32_t p = g + lane();
        const bool active = all_ | p < high, literal = p < f.match, linked = active & !literal & f.offset <= lane();
        uint32_t value = 0, mark = 0;
        if (marks_) {
            if (active && !linked) {
                if (!literal && p - f.offset < begin) {
                    mark = begin - (p - f.offset);
                } else {
                    value = *(literal ? literals + (f.source + p & same) : to - f.offset);
                    if (marked && !literal) mark = marks[p - f.offset];
                }
            }
        } else {
            // Without a branch.
            const int64_t by = literal ? (int64_t)(f.source + p & same) : -(int64_t)f.offset;
            const uint8_t* from = (literal ? literals : to) + by;
            if (active & !linked) value = *from;
        }
        const int parent = linked ? lane() - f.offset : lane();
        // While the load is on its way.
        f = find(s, g + warp_size, before);
        if (marks_ && !marked && __any_sync(~0u, mark)) start_marks(g);
        const uint32_t links = __ballot_sync(~0u, linked);
        if (links) {
            // Lanes shorten the chains of each other.
            int root = parent;
            while (__any_sync(~0u, links >> root & 1)) root = __shfl_sync(~0u, root, root);
            value = __shfl_sync(~0u, value, root);
            if (marks_ && marked) mark = __shfl_sync(~0u, mark, root);
        }
        if (active) {
            *to = value;
            if (marks_ && marked) marks[p] = mark;
        }
        __syncwarp();
    }

    // Clears the marks of the range up to a position. Those after it are written then.
    __device__ __forceinline__ void start_marks(uint32_t end) {
        for (uint32_t p = begin + lane(); p < end; p += warp_size) marks[p] = 0;
        marked = true;
        __syncwarp();
    }

    __device__ __forceinline__ void put_literals(uint32_t at, uint32_t source, uint32_t n) {
        if (same)
            copy_bytes(dst + at, literals + (uint32_t)(source + at), n, lane(), warp_size);
        else
            for (uint32_t i = lane(); i < n; i += warp_size) dst[at + i] = literals[0];
        if (marks_ && marked)
            for (uint32_t i = lane(); i < n; i += warp_size) marks[at + i] = 0;
        __syncwarp();
    }

    // Writes the bytes of a match from `at` to stop. All before them are final, and none
    // repeats the output before the range.
    __device__ __forceinline__ void put_match(uint32_t at, uint32_t offset, uint32_t stop) {
        // The output from `at` - period on repeats itself with the offset.
        for (uint32_t period = offset; at < stop;) {
            const uint32_t n = min(stop - at, period);
            copy_bytes(dst + at, dst + at - period, n, lane(), warp_size);
            if (marks_ && marked) copy_bytes((uint8_t*)(marks + at), (const uint8_t*)(marks + at - period), 2 * n, lane(), warp_size);
            __syncwarp();
            at += n;
            if (period < 1u << 16) period *= 2;
        }
    }
};
