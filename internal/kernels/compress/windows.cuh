// Executes the sequences of LZ4 and Zstandard: some literals, then a match, which repeats
// earlier output.
//
// The output is written in windows, by many blocks of threads. A match that reads its own
// window is a link to an earlier byte, and all chains of links are followed at the same
// time. A match that reads earlier windows waits until they are done.

#pragma once
#include "compress/batch.cuh"

// Some literals and a match, which repeats earlier output. After the last sequence there is
// no match.
struct alignas(16) Sequence {
    uint32_t out;       // position of its first byte in the output
    uint32_t literals;  // their number; the match is the rest, up to the next sequence
    uint32_t source;    // position of the literals among those of its block
    uint32_t offset;    // how far before its own position the match reads
};

// An offset that is the k-th repeat offset at the start of the block minus some.
constexpr uint32_t unknown_offset = 1u << 31;
__device__ __forceinline__ uint32_t repeat_offset(int k) { return unknown_offset | k << 29; }
__device__ __forceinline__ uint32_t known_offset(uint32_t offset, const uint32_t repeats[3]) {
    if (!(offset & unknown_offset)) return offset;
    const uint32_t k = offset >> 29 & 3, minus = offset & (1u << 29) - 1, from = k == 0 ? repeats[0] : k == 1 ? repeats[1] : repeats[2];
    return from > minus ? from - minus : 0;  // 0 is no valid offset
}

// The output of an item is written in windows, which begin at addresses that are multiples
// of 16. A window takes four times its size of shared memory, of which some GPUs have 64 KiB.
constexpr uint32_t window_bytes = 15 << 10;
struct Window {
    uint32_t first;  // block of Zstandard, or sequence of LZ4, of the item that has bytes of it
    uint32_t done;   // whether it is written
};

// How far the windows of an item are.
struct Progress {
    uint32_t next, windows;  // the first window that no block of threads has taken; their number
    uint32_t size, reserved; // of the output
};

constexpr int threads = 512, cells_per_thread = window_bytes / threads, batch = 6;

// The bytes of a window on their way, a word each. A byte is known; or linked to an equal
// byte of the window, before it, whose cell is that many bytes from the first one; or
// otherwise equal to the byte at that position of the item's output, before the window.
constexpr uint32_t known = 2u << 30, linked = 3u << 30, link_mask = (64 << 10) - 1;
static_assert(4 * window_bytes <= link_mask);

struct Shared {
    alignas(16) uint32_t cells[window_bytes];
    uint32_t window, ready;       // the window, and how many of the item's first ones are done
    uint32_t needed[2], older;    // which of the 64 windows before it must be done first, and whether older ones must
};

// Returns the cell that a linked one is linked to.
__device__ __forceinline__ uint32_t follow(const volatile uint32_t* cells, uint32_t link) { return *(const volatile uint32_t*)((const volatile uint8_t*)cells + (link & link_mask)); }

// Returns n bytes at any address, 1 to 4, from the aligned words that contain them, and
// arbitrary ones after them.
__device__ __forceinline__ uint32_t load_bytes(const uint8_t* p, uint32_t n) {
    const uint32_t at = (uintptr_t)p & 3;
    const uint32_t* word = (const uint32_t*)(p - at);
    const uint32_t low = __ldg(word);
    return __funnelshift_r(low, at + n > 4 ? __ldg(word + 1) : 0, 8 * at);
}

constexpr int32_t most_alone = 32;  // bytes that a thread writes by itself; longer parts take a warp

// Bytes of a sequence in a window, from cell to cell + count: literals, or a match.
struct Bytes {
    uint32_t cell;
    int32_t count;
};

// Some sequences that follow each other, and have bytes in a window.
struct Sequences {
    uint32_t* cells;
    uint32_t base, begin, end;  // positions of the first cell and of the window in the output
    const uint8_t* literals;
    bool same;                  // all literals are the first one
    const Sequence* sequences;
    uint32_t first, count;      // the first one that has bytes in the window; their number
    uint32_t out, size;         // position and size of their output
    uint32_t frame;             // the first position that they may repeat
    uint32_t repeats[3];

    // Threads `lane` of `lanes` write the cells of literals from position `source` on.
    __device__ __forceinline__ void put_literals(Bytes part, uint32_t source, uint32_t lane, uint32_t lanes) const {
        for (int32_t i = 4 * lane; i < part.count; i += 4 * lanes) {
            const int32_t n = part.count - i;
            const uint32_t word = same ? __ldg(literals) * 0x01010101u : load_bytes(literals + source + i, min(n, 4));
            uint32_t* to = cells + part.cell + i;
            to[0] = __byte_perm(word, known, 0x7660);
            if (n > 1) to[1] = __byte_perm(word, known, 0x7661);
            if (n > 2) to[2] = __byte_perm(word, known, 0x7662);
            if (n > 3) to[3] = __byte_perm(word, known, 0x7663);
        }
    }

    // Returns the cell of a byte that repeats the one at a position.
    __device__ __forceinline__ uint32_t repeat(uint32_t at) const { return at >= begin ? linked | 4 * (at - base) : at; }

    // The match repeats `offset` bytes from position `from` on, of which it has passed `ahead`.
    __device__ __forceinline__ void put_match(Bytes part, uint32_t from, uint32_t offset, uint32_t ahead) const {
        if (ahead >= offset) ahead %= offset;
        const uint32_t at = from + ahead;
        uint32_t* to = cells + part.cell;
        if (part.count <= (int32_t)(offset - ahead) && (at >= begin || at + part.count <= begin)) {
            // Neighbours repeat neighbours.
            uint32_t cell = repeat(at);
            const uint32_t step = at >= begin ? 4 : 1;
            for (int32_t n = part.count; n > 0; n -= 4, to += 4, cell += 4 * step) {
                to[0] = cell;
                if (n > 1) to[1] = cell + step;
                if (n > 2) to[2] = cell + 2 * step;
                if (n > 3) to[3] = cell + 3 * step;
            }
            return;
        }
        for (int32_t i = 0; i < part.count; i++) {
            to[i] = repeat(from + ahead);
            if (++ahead == offset) ahead = 0;
        }
    }

    // put_match by all threads of a warp.
    __device__ __forceinline__ void put_long_match(Bytes part, uint32_t from, uint32_t offset, uint32_t ahead) const {
        const uint32_t step = offset > warp_size ? warp_size : warp_size % offset;
        ahead = (ahead + lane()) % offset;
        for (int32_t i = lane(); i < part.count; i += warp_size) {
            cells[part.cell + i] = repeat(from + ahead);
            ahead += step;
            if (ahead >= offset) ahead -= offset;
        }
    }

    // Writes the cells of the sequences. Each thread takes those from first + `thread` on,
    // `step` apart. Returns whether an offset is invalid.
    __device__ __forceinline__ bool read(uint32_t thread, uint32_t step) const {
        const uint32_t low = max(begin, out) - out, high = min(end, out + size) - out;
        const uint32_t cell = out - base;  // of the first byte
        bool bad = false;
        for (uint32_t k = first + thread;; k += step) {
            Sequence s = {high, 0, 0, 0};
            uint32_t next = high;
            if (k < count) {
                s = sequences[k];
                next = k + 1 < count ? sequences[k + 1].out : size;
            }
            if (!__any_sync(~0u, s.out < high)) break;
            const uint32_t match = s.out + s.literals;
            // Both may end before they begin: then they have no bytes in the window.
            const uint32_t literals_low = max(s.out, low), match_low = max(match, low);
            const Bytes literal = {cell + literals_low, (int32_t)(min(match, high) - literals_low)};
            Bytes matched = {cell + match_low, (int32_t)(min(next, high) - match_low)};
            const uint32_t source = s.source + literals_low - s.out;
            uint32_t offset = 1;
            if (matched.count > 0) {
                offset = known_offset(s.offset, repeats);
                if (offset == 0 || offset > out + match - frame) {
                    bad = true;
                    for (; matched.count > 0; matched.count--) cells[matched.cell++] = known;
                    offset = 1;
                }
            }
            const uint32_t from = out + match - offset, ahead = match_low - match;
            if (literal.count <= most_alone) put_literals(literal, source, 0, 1);
            if (matched.count <= most_alone) put_match(matched, from, offset, ahead);
            for (uint32_t todo = __ballot_sync(~0u, literal.count > most_alone); todo; todo &= todo - 1) {
                const int i = __ffs(todo) - 1;
                const Bytes part = {__shfl_sync(~0u, literal.cell, i), __shfl_sync(~0u, literal.count, i)};
                put_literals(part, __shfl_sync(~0u, source, i), lane(), warp_size);
            }
            for (uint32_t todo = __ballot_sync(~0u, matched.count > most_alone); todo; todo &= todo - 1) {
                const int i = __ffs(todo) - 1;
                const Bytes part = {__shfl_sync(~0u, matched.cell, i), __shfl_sync(~0u, matched.count, i)};
                put_long_match(part, __shfl_sync(~0u, from, i), __shfl_sync(~0u, offset, i), __shfl_sync(~0u, ahead, i));
            }
        }
        return bad;
    }
};

// Follows the links of the window's cells, and reads the bytes of windows that are done.
// Returns which cells of the thread wait for other windows.
__device__ __forceinline__ uint32_t follow_links(Shared& shared, const uint8_t* dst, uint32_t skew) {
    volatile uint32_t* const cells = shared.cells + threadIdx.x;
    const uint32_t ready_end = shared.ready * window_bytes - (shared.ready > 0 ? skew : 0);
    uint32_t waiting = 0;
#pragma unroll 1
    for (int first = 0; first < cells_per_thread; first += batch) {
        uint32_t value[batch], read = 0;
        __syncwarp();
#pragma unroll
        for (int i = 0; i < batch; i++) value[i] = cells[(first + i) * threads];
#pragma unroll
        for (int i = 0; i < batch; i++)
            if (value[i] < ready_end) value[i] = __ldcg(dst + value[i]), read |= 1u << i;
#pragma unroll
        for (int i = 0; i < batch; i++) {
            volatile uint32_t* const cell = cells + (first + i) * threads;
            if (read >> i & 1) {
                *cell = known | value[i];
            } else if (value[i] >= linked) {
                // Threads shorten the chains of each other. All interleavings are right,
                // because a byte is always linked to an equal one before it.
                uint32_t next;
                while ((next = follow(shared.cells, value[i])) >= linked) *cell = value[i] = next;
                if (next >= known) *cell = next;
            } else if (value[i] < known) {
                waiting |= 1u << (first + i);
            }
            __syncwarp();  // otherwise the threads of a warp go on one by one
        }
    }
    return waiting;
}

// Notes which windows must be done before the bytes that wait can be read.
__device__ __forceinline__ void need(Shared& shared, uint32_t skew, uint32_t waiting) {
    uint64_t needed = 0;
    for (; waiting; waiting &= waiting - 1) {
        const uint32_t before = shared.window - 1 - (shared.cells[threadIdx.x + (__ffs(waiting) - 1) * threads] + skew) / window_bytes;
        if (before < 64) needed |= 1ull << before;
        else shared.older = 1;
    }
    if (needed & ~0u) atomicOr(&shared.needed[0], (uint32_t)needed);
    if (needed >> 32) atomicOr(&shared.needed[1], (uint32_t)(needed >> 32));
}

// Reads the bytes that wait for other windows, which are done now.
__device__ __forceinline__ void read_waiting(Shared& shared, const uint8_t* dst, uint32_t waiting) {
    uint32_t* const cells = shared.cells + threadIdx.x;
#pragma unroll 1
    for (int first = 0; first < cells_per_thread; first += batch, waiting >>= batch) {
        uint32_t byte[batch];
#pragma unroll
        for (int i = 0; i < batch; i++)
            if (waiting >> i & 1) byte[i] = __ldcg(dst + cells[(first + i) * threads]);
#pragma unroll
        for (int i = 0; i < batch; i++)
            if (waiting >> i & 1) cells[(first + i) * threads] = known | byte[i];
    }
}

// Writes the bytes from low to high of a window, which begins at `to`: word(c) are those of
// cells c to c + 3, and byte(c) that of cell c.
template <typename Word, typename Byte> __device__ __forceinline__ void write_cells(uint8_t* to, uint32_t low, uint32_t high, Word word, Byte byte) {
#pragma unroll 2
    for (uint32_t c = 4 * threadIdx.x; c < high; c += 4 * threads) {
        if (c >= low && c + 4 <= high)
            *(uint32_t*)(to + c) = word(c);
        else
            for (uint32_t p = max(c, low); p < min(c + 4, high); p++) to[p] = byte(p);
    }
}

// Writes the windows of an item with a block of threads. Several blocks take them in order. A
// window waits for those that it repeats. They were taken before, by blocks that run, so one
// of them can always go on. Cells(window, base, begin, end) writes the cells of a window,
// position base being the first one's, or all bytes themselves if it returns false.
template <typename Cells> __device__ __forceinline__ void write_windows(Shared& shared, uint8_t* dst, volatile Window* own, Progress& progress, Cells write) {
    const uint32_t size = progress.size, count = progress.windows, skew = (uintptr_t)dst & 15;
    uint32_t ready = 0;
    for (;;) {
        if (threadIdx.x == 0) shared.window = atomicAdd(&progress.next, 1u);
        if (threadIdx.x < warp_size && ready < count) {
            for (;;) {
                const uint32_t done = __ballot_sync(~0u, ready + lane() < count && own[ready + lane()].done);
                ready += done == ~0u ? 32 : __ffs(~done) - 1;
                if (done != ~0u || ready >= count) break;
            }
            __threadfence();
        }
        if (threadIdx.x == 0) shared.ready = ready, shared.needed[0] = shared.needed[1] = shared.older = 0;
        __syncthreads();
        const uint32_t window = shared.window;
        if (window >= count) return;
        const uint32_t base = window * window_bytes - skew, begin = window == 0 ? 0 : base, end = min(base + window_bytes, size);
        if (write(window, base, begin, end)) {
            for (uint32_t c = threadIdx.x; c < begin - base; c += threads) shared.cells[c] = known;
            for (uint32_t c = end - base + threadIdx.x; c < window_bytes; c += threads) shared.cells[c] = known;
            __syncthreads();
            const uint32_t waiting = follow_links(shared, dst, skew);
            need(shared, skew, waiting);
            if (__syncthreads_or(waiting != 0)) {
                if (threadIdx.x < 64) {
                    if (shared.needed[threadIdx.x / 32] >> threadIdx.x % 32 & 1)
                        while (!own[window - 1 - threadIdx.x].done) {}
                } else if (threadIdx.x == 64 && shared.older) {
                    for (uint32_t w = shared.ready; w + 64 < window; w++)
                        while (!own[w].done) {}
                }
                __threadfence();
                __syncthreads();
                read_waiting(shared, dst, waiting);
                __syncthreads();
            }
            const auto last = [&](uint32_t cell) { return (cell >= linked ? follow(shared.cells, cell) : cell) & 255; };
            const auto word = [&](uint32_t c) {
                const uint4 v = *(const uint4*)(shared.cells + c);
                return last(v.x) | last(v.y) << 8 | last(v.z) << 16 | last(v.w) << 24;
            };
            write_cells(dst - skew + (int64_t)window * window_bytes, begin - base, end - base, word, [&](uint32_t c) { return last(shared.cells[c]); });
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            own[window].done = 1;
        }
    }
}
