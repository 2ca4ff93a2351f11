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
    const Tile s = tile_of(t, side_a, side_b);
    const Axis *axes_a = t.axes, *axes_b = t.axes + t.axes_a;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, a0 = s.a0, b = s.b0 + lane * units;
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

// Runs that begin anywhere. A word of the source is made of two aligned ones.
// Rows of the destination are written from one whole sector to another, as in
// tiles.cu.
template <typename T>
__device__ __forceinline__ void move_runs(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const Tiles& t) {
    constexpr int size = sizeof(T), units = 4 / size, words = 64, extra = sector / 4;  // of a row of the tile, and of its halo
    constexpr int side_a = words * units, side_b = 32 * units, halo = extra * units, rows = side_a + halo;
    constexpr int pitch = (words + extra) | 1, warps = block / 32;
    __shared__ uint32_t tile[side_b * pitch];  // units i of words of the source are together, as above
    __shared__ int64_t from[rows], to[side_b];
    const Tile s = tile_of(t, side_a, side_b);
    const Axis *axes_a = t.axes, *axes_b = t.axes + t.axes_a;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int a0 = s.a0 - halo, columns = min(side_b, t.items_b - s.b0);
    const int first = max(0, -a0), last = min(rows, t.items_a - a0);
    for (int i = threadIdx.x; i < rows; i += block) from[i] = place(axes_a, t.axes_a, min(max(a0 + i, 0), t.items_a - 1), &Axis::src);
    for (int i = threadIdx.x; i < columns; i += block) to[i] = place(axes_b, t.axes_b, s.b0 + i, &Axis::dst);
    src += s.src + (int64_t)s.b0 * size;
    dst += s.dst + (int64_t)s.a0 * size;
    __syncthreads();
#pragma unroll 4
    for (int word = warp; word < words + extra; word += warps) {
        if (word * units >= last) break;
        uint32_t w[units];
#pragma unroll
        for (int i = 0; i < units; i++) {
            const uint8_t* run = src + from[word * units + i];
            const int skip = (uint32_t)(uintptr_t)run & 3, end = columns * size + skip;
            const uint32_t* aligned = (const uint32_t*)(run - skip) + lane;
            const uint32_t lo = lane * 4 < end ? __ldg(aligned) : 0, hi = skip && lane * 4 + 4 < end ? __ldg(aligned + 1) : 0;
            w[i] = __funnelshift_r(lo, hi, 8 * skip);
        }
        if constexpr (units == 4) turn(w[0], w[1], w[2], w[3]);
        else turn(w[0], w[1]);
#pragma unroll
        for (int i = 0; i < units; i++) tile[(i * 32 + lane) * pitch + word] = w[i];
    }
    __syncthreads();
    const bool inside = first == 0 && last == rows;
#pragma unroll 4
    for (int row = warp; row < columns; row += warps) {
        const uint32_t* line = tile + (row % units * 32 + row / units) * pitch;
        uint8_t* out = dst + to[row];
        const int back = (uint32_t)(uintptr_t)out & (sector - 1);
#pragma unroll
        for (int word = lane; word < words; word += 32) {
            const int at = (int)sector - back + 4 * word;  // byte of the tile's row
            const uint32_t w = __funnelshift_r(line[at / 4], line[min(at / 4 + 1, words + extra - 1)], at % 4 * 8);
            uint8_t* p = out + 4 * word - back;
            if (inside || (at >= first * size && at + 4 <= last * size)) *(uint32_t*)p = w;
            else
                for (int k = 0; k < 4; k += size)
                    if (at + k >= first * size && at + k < last * size) *(T*)(p + k) = (T)(w >> 8 * k);
        }
    }
}

#define PACKED(WIDTH, T)                                                                                       \
    extern "C" __global__ void __launch_bounds__(block)                                                     \
        quiver_words_##WIDTH(uint8_t* dst, const uint8_t* src, const __grid_constant__ Tiles t) {              \
        move_words<T>(dst, src, t);                                                                            \
    }                                                                                                          \
    extern "C" __global__ void __launch_bounds__(block)                                                     \
        quiver_runs_##WIDTH(uint8_t* dst, const uint8_t* src, const __grid_constant__ Tiles t) {               \
        move_runs<T>(dst, src, t);                                                                             \
    }

PACKED(1, uint8_t)
PACKED(2, uint16_t)
