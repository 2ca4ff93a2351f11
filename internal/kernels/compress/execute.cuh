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
        const uint32_t long_literals = __ballot_sync(~0u, s.match - s.out >= long_part);
        const uint32_t long_matches = __ballot_sync(~0u, s.end - s.match >= long_part);
        if (!(long_literals | long_matches)) return write_short(s, low, high);
        while (low < high) {
            // The first long part that ends after low.
            uint32_t part = ~0u, part_end = 0;
            if (s.end - s.match >= long_part && s.end > low) part = s.match, part_end = s.end;
            if (s.match - s.out >= long_part && s.match > low) part = s.out, part_end = s.match;
            const uint32_t found = __ballot_sync(~0u, part != ~0u);
            const int k = found ? __ffs(found) - 1 : 0;
            part = found ? __shfl_sync(~0u, part, k) : high;
            part_end = __shfl_sync(~0u, part_end, k);
            const uint32_t match = __shfl_sync(~0u, s.match, k), source = __shfl_sync(~0u, s.source, k), offset = __shfl_sync(~0u, s.offset, k);
            if (part > low) {
                const uint32_t stop = min(part, high);
                write_short(s, low, stop);
                low = stop;
            }
            if (low >= high) return;
            const uint32_t stop = min(part_end, high);
            if (part < match)
                put_literals(low, source, stop - low);
            else
                put_match(s, low, offset, stop);
            low = stop;
        }
    }

private:
    // Writes bytes 32 at a time.
    __device__ __forceinline__ void write_short(const LaneSequence& s, uint32_t low, uint32_t high) {
        const uint32_t to_mine = ~0u >> (warp_size - 1 - lane());
        int before = __popc(__ballot_sync(~0u, s.out < low)) - 1;  // the sequence of the byte before the next 32
        // Finds the sequences of the 32 bytes from g on.
        const auto find = [&](uint32_t g, uint32_t& match, uint32_t& source, uint32_t& offset) {
            const uint32_t from_g = s.out - g;
            const uint32_t starts = reduce_or(from_g < warp_size ? 1u << from_g : 0);
            const int k = before + __popc(starts & to_mine);
            before += __popc(starts);
            match = __shfl_sync(~0u, s.match, k), source = __shfl_sync(~0u, s.source, k), offset = __shfl_sync(~0u, s.offset, k);
        };
        uint32_t match, source, offset, next_match, next_source, next_offset;
        find(low, match, source, offset);
#pragma unroll 1
        for (uint32_t g = low; g < high; g += warp_size) {
            const uint32_t p = g + lane();
            const bool active = p < high, literal = p < match;
            const uint32_t q = p - offset;
            const bool linked = active && !literal && q >= g;
            uint32_t value = 0, mark = 0;
            if (active && !linked) {
                if (marks_ && !literal && q < begin) {
                    mark = begin - q;
                } else {
                    value = *(literal ? literals + (source + p & same) : dst + q);
                    if (marks_ && marked && !literal) mark = marks[q];
                }
            }
            // The next 32 bytes, while the load is on its way.
            find(g + warp_size, next_match, next_source, next_offset);
            if (marks_ && !marked && __any_sync(~0u, mark)) start_marks(g);
            const uint32_t links = __ballot_sync(~0u, linked);
            if (links) {
                // Lanes shorten the chains of each other.
                int root = linked ? lane() - offset : lane();
                while (__any_sync(~0u, links >> root & 1)) root = __shfl_sync(~0u, root, root);
                value = __shfl_sync(~0u, value, root);
                if (marks_ && marked) mark = __shfl_sync(~0u, mark, root);
            }
            if (active) {
                dst[p] = value;
                if (marks_ && marked) marks[p] = mark;
            }
            match = next_match, source = next_source, offset = next_offset;
            __syncwarp();
        }
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

    // Writes the bytes of a match from `at` to stop. All before them are final.
    __device__ __forceinline__ void put_match(const LaneSequence& s, uint32_t at, uint32_t offset, uint32_t stop) {
        // Those that repeat the output before the range get marks.
        if (marks_ && at - offset < begin) {
            const uint32_t n = min(stop - at, begin - (at - offset));
            write_short(s, at, at + n);
            at += n;
        }
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
