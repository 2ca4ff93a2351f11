// Executes the sequences of small LZ4 blocks: some literals, then a match, which repeats
// earlier output.
//
// A block of threads produces one output, a window at a time. A match that reads earlier
// windows is a copy. One that reads its own window is a link to an earlier byte, and all
// chains of links are followed at the same time.

#pragma once
#include "compress/batch.cuh"

struct Sequence {
    uint32_t out;       // position of its first byte in the output
    uint32_t literals;  // their number; the match is the rest, up to the next sequence
    uint32_t source;    // position of the literals in their buffer
    uint32_t offset;    // how far before its own position the match reads
};

constexpr int carried_sequences = 4;

// The sequences of a window of the output of at most `size` bytes. Those at either end may
// exceed it.
template <int size_, int sequences_> struct Window {
    static constexpr int size = size_, sequences = sequences_;
    Sequence sequence[sequences + 1];  // the last one is where the output of the others ends
    uint32_t starts[size / 32];        // bit i: a sequence begins at byte begin + i, or before for bit 0
    uint16_t before[size / 32];        // number of bits in the words before
    uint32_t begin, end;                      // in the output
    int32_t count;
    bool last;
};

// The methods of a warp that fills a window with sequences in order.
template <typename Window> struct WindowWriter {
    Window* window;
    uint32_t limit;  // no sequence begins here or later

    // Opens the window after the one before, if that is not null.
    __device__ __forceinline__ void open(Window* w, const Window* previous) {
        window = w;
        const uint32_t begin = previous ? previous->end : 0;
        limit = begin + Window::size;
        for (int i = lane(); i < Window::size / 32; i += warp_size) w->starts[i] = 0;
        int carried = 0;
        if (previous)
            for (int i = max(previous->count - carried_sequences, 0); i < previous->count; i++)
                if (previous->sequence[i + 1].out > begin) {
                    if (lane() == 0) w->sequence[carried] = previous->sequence[i];
                    carried++;
                }
        __syncwarp();
        if (lane() < carried) mark(w->sequence[lane()].out, begin);
        if (lane() == 0) w->begin = begin;
        count = carried;
        __syncwarp();
    }

    __device__ __forceinline__ int free() const { return Window::sequences - count; }

    // Adds the sequences of some threads, at most free(). Each begins before limit and
    // where the one before ends, and none is empty.
    __device__ __forceinline__ void add(const Sequence& s, uint32_t threads) {
        if (threads >> lane() & 1) {
            window->sequence[count + __popc(threads & ((1u << lane()) - 1))] = s;
            mark(s.out, limit - Window::size);
        }
        count += __popc(threads);
    }

    // Closes the window. end is where the output of its sequences ends, and complete
    // whether no sequences follow. Windows end at aligned addresses of dst, except for the
    // last one.
    __device__ __forceinline__ void close(uint32_t end, bool complete, const uint8_t* dst) {
        __syncwarp();
        uint32_t most = min(end, limit);
        const bool last = complete && most == end;
        if (!last) most -= (uint32_t)((uintptr_t)dst + most) & 3;
        constexpr int words = Window::size / 32 / warp_size;
        int sum = 0;
        for (int i = 0; i < words; i++) sum += __popc(window->starts[lane() * words + i]);
        int before = sum;
#pragma unroll
        for (int step = 1; step < warp_size; step *= 2) {
            const int other = __shfl_up_sync(~0u, before, step);
            if (lane() >= step) before += other;
        }
        before -= sum;
        for (int i = 0; i < words; i++) {
            window->before[lane() * words + i] = before;
            before += __popc(window->starts[lane() * words + i]);
        }
        if (lane() == 0) {
            window->sequence[count].out = end;
            window->end = most;
            window->count = count;
            window->last = last;
        }
    }

private:
    int count;

    __device__ __forceinline__ void mark(uint32_t out, uint32_t begin) {
        const uint32_t at = out > begin ? out - begin : 0;
        atomicOr(&window->starts[at / 32], 1u << (at % 32));
    }
};

// The bytes of a window on their way. A byte is known, or equal to an earlier byte of the
// window.
template <typename Window> struct Bytes {
    uint32_t value[Window::size / 4 + 1];
    uint16_t same[Window::size + 4];  // of each byte: an equal byte of the window; itself if value is known
};

// What the bytes from one position of the output on repeat.
struct Run {
    const uint8_t* from;  // if they are not in this window
    uint32_t first;       // otherwise: the first one's position in the window
    uint32_t bytes;       // how many
};

template <typename Window> __device__ __forceinline__ Run find_run(const Window& w, uint32_t p, const uint8_t* dst, const uint8_t* literals) {
    const uint32_t at = p - w.begin, word = at / 32;
    const int i = w.before[word] + __popc(w.starts[word] & (2u << (at % 32)) - 1) - 1;
    const Sequence s = w.sequence[i];
    const uint32_t within = p - s.out;
    if (within < s.literals) return {literals + s.source + within, 0, s.literals - within};
    const uint32_t match = s.out + s.literals;
    uint32_t ahead = p - match;
    if (ahead >= s.offset) ahead %= s.offset;  // the match repeats its own output
    const uint32_t bytes = min(w.sequence[i + 1].out - p, s.offset - ahead);
    p = match - s.offset + ahead;
    if (p < w.begin) return {dst + p, 0, min(bytes, w.begin - p)};
    return {nullptr, p - w.begin, bytes};
}

// Writes a window to dst with some threads of the block, which are numbered by `thread`
// and have a barrier of their own.
template <int threads, typename Window> __device__ __forceinline__ void write_window(const Window& w, Bytes<Window>& bytes, uint8_t* dst, const uint8_t* literals, int thread) {
    // Cells are the words of dst. The window begins skew bytes after the first one.
    const uint32_t skew = (uintptr_t)(dst + w.begin) & 3, size = w.end - w.begin;
    const uint32_t cells = (size + skew + 3) / 4;
    for (uint32_t c = thread; c < cells; c += threads) {
        uint32_t at = 4 * c - min(4 * c, skew), word = 0;
        const uint32_t end = min(size, 4 * c + 4 - skew);
        const uint32_t shift = 4 * c - skew;  // of a position in the window, to one in the cell
        while (at < end) {
            const Run run = find_run(w, w.begin + at, dst, literals);
            const uint32_t stop = min(end, at + run.bytes);
            if (run.from && stop - at == 4) {
                word = load_word(run.from);
                for (; at < stop; at++) bytes.same[at + skew] = at + skew;
            } else if (run.from) {
                for (int i = 0; at < stop; at++, i++) {
                    word |= (uint32_t)run.from[i] << 8 * (at - shift);
                    bytes.same[at + skew] = at + skew;
                }
            } else {
                for (int i = 0; at < stop; at++, i++) bytes.same[at + skew] = run.first + i + skew;
            }
        }
        bytes.value[c] = word;
    }
    sync_threads(1, threads);
    // Threads shorten the chains of each other. All interleavings are right, because a byte
    // is always linked to an equal one before it.
    for (uint32_t c = thread; c < cells; c += threads) {
        const uint32_t begin = c == 0 ? skew : 4 * c, end = min(size + skew, 4 * c + 4);
        uint32_t word = bytes.value[c];
        for (uint32_t p = begin; p < end; p++) {
            volatile uint16_t* same = bytes.same;
            uint32_t q = same[p];
            if (q == p) continue;
            for (uint32_t r; (r = same[q]) != q; q = r) same[p] = r;
            word |= (uint32_t)((const uint8_t*)bytes.value)[q] << 8 * (p - 4 * c);
        }
        if (end - begin == 4)
            *(uint32_t*)(dst + (w.begin - skew + 4 * c)) = word;
        else
            for (uint32_t p = begin; p < end; p++) dst[w.begin - skew + p] = word >> 8 * (p - 4 * c);
    }
}
