// Decodes small LZ4 blocks (lz4_Block_format.md): a block of threads for each item. The first
// warp reads the sequences of the next window while the others write this one.

#include "compress/sequences.cuh"

constexpr int writers = 96, cache_bytes = 2048;
using Part = Window<2048, 128>;

// The bytes of an LZ4 block around the position of its parser, in shared memory.
struct Cache {
    uint4* words;
    const uint8_t* src;
    uint32_t size;
    int64_t begin = 0;  // position of the first byte in src: at an address that is a multiple of 16
    bool empty = true;

    __device__ __forceinline__ void load(uint32_t p) {
        begin = (int64_t)p - (int64_t)((uintptr_t)(src + p) & 15);
        __syncwarp();
        for (int i = lane(); i < cache_bytes / 16; i += warp_size)
            if (begin + 16 * i < size) words[i] = *(const uint4*)(src + begin + 16 * i);
        __syncwarp();
        empty = false;
    }

    // All threads of the warp read the same byte, p < size.
    __device__ __forceinline__ uint8_t operator[](uint32_t p) {
        if (empty || p < begin || p >= begin + cache_bytes) load(p);
        return ((const uint8_t*)words)[p - begin];
    }
};

struct WarpParser {
    Cache cache;
    uint32_t at = 0, out = 0, most;  // positions in the input and the output, size of the output
    bool done = false;
    Status status = ok;

    __device__ __forceinline__ void fail(Status s) { status = s, done = true; }

    // Reads the bytes that extend a length. No valid length exceeds limit.
    __device__ __forceinline__ uint32_t extend(uint32_t length, uint32_t limit) {
        for (;;) {
            if (at >= cache.size) return fail(truncated), 0;
            const uint32_t byte = cache[at++];
            length += byte;
            if (length > limit) return fail(too_large), 0;
            if (byte < 255) return length;
        }
    }

    // Reads one sequence, if status is still ok afterwards.
    __device__ __forceinline__ Sequence read() {
        Sequence s = {out, 0, 0, 0};
        if (at >= cache.size) return fail(truncated), s;
        const uint32_t token = cache[at++];
        s.literals = token >> 4;
        if (s.literals == 15) {
            s.literals = extend(15, cache.size);
            if (done) return s;
        }
        if (s.literals > cache.size - at) return fail(truncated), s;
        if (s.literals > most - out) return fail(too_large), s;
        s.source = at;
        at += s.literals, out += s.literals;
        if (at == cache.size) {
            done = true;
            return s;
        }
        if (cache.size - at < 2) return fail(truncated), s;
        s.offset = cache[at];
        s.offset |= cache[at + 1] << 8;
        at += 2;
        if (s.offset == 0 || s.offset > out) return fail(bad_offset), s;
        uint32_t match = (token & 15) + 4;
        if (match == 19) {
            match = extend(19, most);
            if (done) return s;
        }
        if (match > most - out) return fail(too_large), s;
        out += match;
        return s;
    }

    // Reads up to n sequences of which neither length is extended, and gives each thread one
    // of them. It stops before the end of the cache, where the lengths need no checks.
    __device__ __forceinline__ int read_short(Sequence& mine, int n, uint32_t limit) {
        constexpr uint32_t longest = 1 + 14 + 2, most_written = 14 + 18;
        if (cache.empty || at < cache.begin || at + longest * 2 > cache.begin + cache_bytes) {
            if (at >= cache.size) return 0;
            cache.load(at);
        }
        const int64_t stop = min(cache.begin + cache_bytes, (int64_t)cache.size) - longest;
        if (stop < at || most - out < n * most_written) return 0;
        const uint8_t* bytes = (const uint8_t*)cache.words - cache.begin;
        int i = 0;
        for (; i < n && out < limit && at < stop; i++) {
            const uint32_t token = bytes[at], literals = token >> 4, match = token & 15;
            if (literals == 15 || match == 15) break;
            if (lane() == i) mine = {out, literals, at + 1, 0};
            at += literals + 3, out += literals + match + 4;
        }
        bool bad = false;
        if (lane() < i) {
            const uint32_t p = mine.source + mine.literals;
            mine.offset = bytes[p] | bytes[p + 1] << 8;
            bad = mine.offset == 0 || mine.offset > mine.out + mine.literals;
        }
        if (__any_sync(~0u, bad)) fail(bad_offset);
        return i;
    }

    __device__ __forceinline__ void fill(Part* window, const Part* previous, const uint8_t* dst) {
        WindowWriter<Part> to;
        to.open(window, previous);
        while (!done && out < to.limit && to.free() > 0) {
            Sequence mine;
            int n = read_short(mine, min(to.free(), warp_size), to.limit);
            if (n == 0) {
                mine = read();
                n = out > mine.out;
            }
            if (status != ok) break;
            to.add(mine, n == warp_size ? ~0u : (1u << n) - 1);
        }
        to.close(out, done, dst);
        if (status != ok && lane() == 0) window->end = window->begin, window->last = true;
    }
};

extern "C" __global__ __launch_bounds__(warp_size + writers) void quiver_lz4_small(uint8_t* dst, const uint8_t* src, const Item* items, Result* results) {
    __shared__ Part windows[2];
    __shared__ Bytes<Part> bytes;
    __shared__ uint4 words[cache_bytes / 16];
    const Item item = items[blockIdx.x];
    dst += item.dst, src += item.src;
    const bool reads = threadIdx.x < warp_size;
    WarpParser parser;
    parser.cache.words = words, parser.cache.src = src, parser.cache.size = item.src_size;
    parser.most = item.dst_size;
    if (reads) parser.fill(&windows[0], nullptr, dst);
    __syncthreads();
    for (int now = 0;; now ^= 1) {
        const bool last = windows[now].last;
        if (!reads)
            write_window<writers>(windows[now], bytes, dst, src, threadIdx.x - warp_size);
        else if (!last)
            parser.fill(&windows[now ^ 1], &windows[now], dst);
        __syncthreads();
        if (last) break;
    }
    if (threadIdx.x == 0) results[blockIdx.x] = {parser.out, parser.status, 0};
}
