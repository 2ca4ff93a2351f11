// Units of 1 and 2 bytes through tiles, several at once: sides A and B are
// gapless runs of the destination and of the source, and so many units as make a
// word are read and written as one. A thread reads a square of units, and turns
// it in its registers.

#include "move.cuh"

// The bytes of four words, as a square, turned.
__device__ __forceinline__ void turn(uint32_t& a, uint32_t& b, uint32_t& c, uint32_t& d) {
    const uint32_t ab0 = __byte_perm(a, b, 0x5140), cd0 = __byte_perm(c, d, 0x5140);
    const uint32_t ab2 = __byte_perm(a, b, 0x7362), cd2 = __byte_perm(c, d, 0x7362);
    a = __byte_perm(ab0, cd0, 0x5410);
    b = __byte_perm(ab0, cd0, 0x7632);
    c = __byte_perm(ab2, cd2, 0x5410);
    d = __byte_perm(ab2, cd2, 0x7632);
}

__device__ __forceinline__ void turn(uint32_t& a, uint32_t& b) {
    const uint32_t first = __byte_perm(a, b, 0x5410);
    b = __byte_perm(a, b, 0x7632);
    a = first;
}

// Squares of 8 by 8 bytes, or 4 by 4 units of 2.
__device__ __forceinline__ void turn(uint2 (&w)[8]) {
#pragma unroll
    for (int i = 0; i < 8; i += 4) {
        turn(w[i].x, w[i + 1].x, w[i + 2].x, w[i + 3].x);
        turn(w[i].y, w[i + 1].y, w[i + 2].y, w[i + 3].y);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint32_t swap = w[i].y;
        w[i].y = w[i + 4].x;
        w[i + 4].x = swap;
    }
}

__device__ __forceinline__ void turn(uint2 (&w)[4]) {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        turn(w[i].x, w[i + 1].x);
        turn(w[i].y, w[i + 1].y);
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint32_t swap = w[i].y;
        w[i].y = w[i + 2].x;
        w[i + 2].x = swap;
    }
}

// All words of 8 bytes are aligned, and both sides whole words.
template <typename T>
__device__ __forceinline__ void move_words(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const Tiles& t) {
    constexpr int size = sizeof(T), units = 8 / size;  // of a word
    constexpr int side_a = 128, side_b = 32 * units, words = side_a / units, pitch = words + 1;
    constexpr int warps = block / 32, squares = words / warps;
    // Units i of words of the source are together, so that a warp's writes of
    // squares go to different banks.
    __shared__ uint2 tile[side_b * pitch];
    const Strip s = strip_of(t, side_b);
    const Axis *axes_a = t.axes, *axes_b = t.axes + t.axes_a;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, a0 = s.first * side_a, b = s.b0 + lane * units;
    src += s.src + (int64_t)b * size;
    dst += s.dst + (int64_t)a0 * size;
#pragma unroll
    for (int k = 0; k < squares; k++) {
        const int word = warp + k * warps, a = a0 + word * units;
        uint2 w[units];
#pragma unroll
        for (int i = 0; i < units; i++)
            if (b < t.items_b && a < t.items_a) w[i] = __ldg((const uint2*)(src + place(axes_a, t.axes_a, a + i, &Axis::src)));
        turn(w);
#pragma unroll
        for (int i = 0; i < units; i++) tile[(i * 32 + lane) * pitch + word] = w[i];
    }
    __syncthreads();
    constexpr int rows = block / words;
    const int word = threadIdx.x % words, row0 = threadIdx.x / words;
#pragma unroll 8
    for (int k = 0; k < side_b / rows; k++) {
        const int row = row0 + k * rows;
        if (s.b0 + row < t.items_b && a0 + word * units < t.items_a)
            *(uint2*)(dst + place(axes_b, t.axes_b, s.b0 + row, &Axis::dst) + word * 8) =
                tile[(row % units * 32 + row / units) * pitch + word];
    }
}

// Runs that begin anywhere. Lanes read aligned words of 4 bytes, of which each
// makes one with its neighbour's; the last only lends. Rows of the destination
// are written from one whole sector to another, as in tiles.cu.
template <typename T>
__device__ __forceinline__ void move_runs(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const Tiles& t) {
    constexpr int size = sizeof(T), units = 4 / size, words = 32, most = 8;  // words of a row of the tile, and of its halo
    constexpr int side_a = words * units, side_b = 31 * units, pitch = (words + 2 * most) | 1;
    constexpr int warps = block / 32, squares = words / warps;
    __shared__ uint32_t tile[32 * units * pitch];
    const Strip s = strip_of(t, side_b);
    const Axis *axes_a = t.axes, *axes_b = t.axes + t.axes_a;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int bytes = min(side_b, t.items_b - s.b0) * size;
    src += s.src + (int64_t)s.b0 * size;
    dst += s.dst;
    const auto word_of = [&](int a) -> uint32_t {
        if (a < 0 || a >= t.items_a) return 0;
        const uint8_t* run = src + place(axes_a, t.axes_a, a, &Axis::src);
        const int skip = (uint32_t)(uintptr_t)run & 3;
        return lane * 4 < bytes + skip ? __ldg((const uint32_t*)(run - skip) + lane) : 0;
    };
    const auto align = [&](uint32_t word, int a) -> uint32_t {
        const uint8_t* run = src + place(axes_a, t.axes_a, min(max(a, 0), t.items_a - 1), &Axis::src);
        return __funnelshift_r(word, __shfl_down_sync(~0u, word, 1), 8 * ((uint32_t)(uintptr_t)run & 3));
    };
    const auto put = [&](uint32_t (&w)[units], int a, int at) {
#pragma unroll
        for (int i = 0; i < units; i++) w[i] = align(w[i], a + i);
        if constexpr (units == 4) turn(w[0], w[1], w[2], w[3]);
        else turn(w[0], w[1]);
#pragma unroll
        for (int i = 0; i < units; i++) tile[(i * 32 + lane) * pitch + at] = w[i];
    };
    uint32_t next[squares][units];
    const auto read = [&](int a0) {
#pragma unroll
        for (int k = 0; k < squares; k++)
#pragma unroll
            for (int i = 0; i < units; i++) next[k][i] = word_of(a0 + (warp + k * warps) * units + i);
    };
    {
        const int a = s.first * side_a + (warp - most) * units;  // warps are as many as words of the halo
        uint32_t w[units];
#pragma unroll
        for (int i = 0; i < units; i++) w[i] = word_of(a + i);
        put(w, a, warp);
    }
    read(s.first * side_a);
    for (int chunk = s.first, before = 0; chunk < s.last; chunk++) {
        const int a0 = chunk * side_a, after = before ? 0 : words + most;
#pragma unroll
        for (int k = 0; k < squares; k++) {
            const int word = warp + k * warps;
            put(next[k], a0 + word * units, most + word);
            if (k == squares - 1)
#pragma unroll
                for (int i = 0; i < units; i++) tile[(i * 32 + lane) * pitch + after + word - words + most] = next[k][i];
        }
        __syncthreads();
        if (chunk + 1 < s.last) read(a0 + side_a);
        const int64_t end = (int64_t)t.items_a * size, at = (int64_t)a0 * size;
#pragma unroll 4
        for (int row = warp; row < side_b; row += warps) {
            if (s.b0 + row >= t.items_b) break;
            const uint32_t* line = tile + (row % units * 32 + row / units) * pitch;
            uint8_t* to = dst + place(axes_b, t.axes_b, s.b0 + row, &Axis::dst) + at;
            const int begin = lane * 4 - (int)((uint32_t)(uintptr_t)to & (sector - 1));  // byte of the tile's row
            const int lo = begin >> 2, hi = lo + ((begin & 3) != 0);
            const uint32_t w = __funnelshift_r(line[lo >= 0 ? most + lo : before + most + lo], line[hi >= 0 ? most + hi : before + most + hi], 8 * (begin & 3));
            const int64_t from = at + begin;
            to += begin;
            if (from >= 0 && from + 4 <= end) *(uint32_t*)to = w;
            else
                for (int i = 0; i < 4; i += size)
                    if (from + i >= 0 && from + i < end) *(T*)(to + i) = (T)(w >> 8 * i);
        }
        before = after;
        __syncthreads();
    }
}

#define PACKED(WIDTH, T)                                                                                       \
    extern "C" __global__ void __launch_bounds__(block, 4)                                                     \
        quiver_words_##WIDTH(uint8_t* dst, const uint8_t* src, const __grid_constant__ Tiles t) {              \
        move_words<T>(dst, src, t);                                                                            \
    }                                                                                                          \
    extern "C" __global__ void __launch_bounds__(block, 4)                                                     \
        quiver_runs_##WIDTH(uint8_t* dst, const uint8_t* src, const __grid_constant__ Tiles t) {               \
        move_runs<T>(dst, src, t);                                                                             \
    }

PACKED(1, uint8_t)
PACKED(2, uint16_t)
