// Units of 1 and 2 bytes through tiles, several at once: sides A and B are
// gapless runs of the destination and of the source, and so many units as make a
// word are read and written as one. A thread reads a square of units, and turns
// it in its registers.

#include "move.cuh"
#include "turn.cuh"

// All words of 8 bytes are aligned, and both sides whole words.
template <typename T>
__device__ __forceinline__ void move_words(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const Tiles& t) {
    constexpr int size = sizeof(T), units = 8 / size;  // of a word
    constexpr int side_a = 128, side_b = 32 * units, words = side_a / units, pitch = words + 1;
    constexpr int warps = block / 32, squares = words / warps;
    // Units i of words of the source are together, so that a warp's writes of
    // squares go to different banks.
    __shared__ Line<8> tile[side_b * pitch];
    const Tile s = tile_of(t, side_a, side_b);
    const Axis *axes_a = t.axes, *axes_b = t.axes + t.axes_a;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, a0 = s.a0, b = s.b0 + lane * units;
    src += s.src + (int64_t)b * size;
    dst += s.dst + (int64_t)a0 * size;
#pragma unroll
    for (int k = 0; k < squares; k++) {
        const int word = warp + k * warps, a = a0 + word * units;
        Line<8> w[units];
#pragma unroll
        for (int i = 0; i < units; i++)
            if (b < t.items_b && a < t.items_a) *(uint2*)&w[i] = __ldg((const uint2*)(src + place(axes_a, t.axes_a, a + i, &Axis::src)));
        turn<size>(w);
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
            *(Line<8>*)(dst + place(axes_b, t.axes_b, s.b0 + row, &Axis::dst) + word * 8) =
                tile[(row % units * 32 + row / units) * pitch + word];
    }
}

// Runs that begin anywhere: the tile's rows of side B, in words of side A. Words i
// of words of the source are together, as above. A word of the source is made of
// two aligned ones.
template <typename T> struct Runs {
    static constexpr int size = sizeof(T), units = 4 / size, words = 64, extra = sector / 4;  // of a row of the tile, and of its halo
    static constexpr int side_a = words * units, side_b = 32 * units, halo = extra * units, rows = side_a + halo;
    static constexpr int pitch = (words + extra) | 1, warps = block / 32;

    static __device__ __forceinline__ const uint32_t* line(const uint32_t* tile, int row) { return tile + (row % units * 32 + row / units) * pitch; }

    // Reads rows of which from says where they are, of so many columns.
    static __device__ __forceinline__ void read(uint32_t* tile, const uint8_t* src, const int64_t* from, int last, int columns) {
        const int lane = threadIdx.x % 32;
#pragma unroll 4
        for (int word = threadIdx.x / 32; word < words + extra; word += warps) {
            if (word * units >= last) break;
            uint32_t w[units], lo[units], hi[units], by[units];
#pragma unroll
            for (int i = 0; i < units; i++) {
                const uint8_t* run = src + from[word * units + i];
                const int skip = (uint32_t)(uintptr_t)run & 3, end = columns * size + skip;
                const uint32_t* aligned = (const uint32_t*)(run - skip) + lane;
                lo[i] = lane * 4 < end ? read_near(aligned) : 0;
                hi[i] = lane == 31 && skip && 128 < end ? read_near(aligned + 1) : 0;
                by[i] = 8 * skip;
            }
#pragma unroll
            for (int i = 0; i < units; i++) {
                const uint32_t next = __shfl_down_sync(~0u, lo[i], 1);
                w[i] = __funnelshift_r(lo[i], lane == 31 ? hi[i] : next, by[i]);
            }
            if constexpr (units == 4) turn(w[0], w[1], w[2], w[3]);
            else turn(w[0], w[1]);
#pragma unroll
            for (int i = 0; i < units; i++) tile[(i * 32 + lane) * pitch + word] = w[i];
        }
        __syncthreads();
    }
};

// Rows of the destination are written from one whole sector to another, as in
// tiles.cu, and two words at once.
template <typename T>
__device__ __forceinline__ void move_runs(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const Tiles& t) {
    using R = Runs<T>;
    constexpr int size = R::size;
    __shared__ uint32_t tile[R::side_b * R::pitch];
    __shared__ int64_t from[R::rows], to[R::side_b];
    const Tile s = tile_of(t, R::side_a, R::side_b);
    const Axis *axes_a = t.axes, *axes_b = t.axes + t.axes_a;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int a0 = s.a0 - R::halo, columns = min(R::side_b, t.items_b - s.b0);
    const int first = max(0, -a0), last = min(R::rows, t.items_a - a0);
    for (int i = threadIdx.x; i < R::rows; i += block) from[i] = place(axes_a, t.axes_a, min(max(a0 + i, 0), t.items_a - 1), &Axis::src);
    for (int i = threadIdx.x; i < columns; i += block) to[i] = place(axes_b, t.axes_b, s.b0 + i, &Axis::dst);
    __syncthreads();
    R::read(tile, src + s.src + (int64_t)s.b0 * size, from, last, columns);
    dst += s.dst + (int64_t)s.a0 * size;
    const bool inside = first == 0 && last == R::rows;
#pragma unroll 4
    for (int row = warp; row < columns; row += R::warps) {
        uint8_t* out = dst + to[row];
        const int back = (uint32_t)(uintptr_t)out & (sector - 1), at = (int)sector - back + 8 * lane;  // byte of the tile's row
        const uint32_t* w = R::line(tile, row) + at / 4;
        const uint32_t middle = w[1];
        const uint2 pair = {__funnelshift_r(w[0], middle, at % 4 * 8), __funnelshift_r(middle, w[2], at % 4 * 8)};
        uint8_t* p = out + 8 * lane - back;
        if (inside || (at >= first * size && at + 8 <= last * size)) *(uint2*)p = pair;
        else
            for (int k = 0; k < 8; k += size)
                if (at + k >= first * size && at + k < last * size) *(T*)(p + k) = (T)((k < 4 ? pair.x : pair.y) >> 8 * (k & 3));
    }
}

// Matrices as those of matrices.cu. A word of the destination may have bytes of two
// rows.
template <typename T>
__device__ __forceinline__ void move_lines(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const Tiles& t) {
    using R = Runs<T>;
    constexpr int size = R::size;
    __shared__ uint32_t tile[R::side_b * R::pitch];
    __shared__ int64_t from[R::rows];
    const Tile s = tile_of(t, R::side_a, R::side_b);
    const int columns = min(R::side_b, t.items_b - s.b0), bytes = t.items_a * size, all = columns * bytes;
    for (int i = threadIdx.x; i < R::rows; i += block) from[i] = place(t.axes, t.axes_a, min(i, t.items_a - 1), &Axis::src);
    __syncthreads();
    R::read(tile, src + s.src + (int64_t)s.b0 * size, from, t.items_a, columns);
    dst += s.dst + (int64_t)s.b0 * bytes;
    const int back = (uint32_t)(uintptr_t)dst & 127;
#pragma unroll 4
    for (int i = (int)threadIdx.x * 4 - back; i < all; i += block * 4) {
        const int row = t.by(max(i, 0)), at = max(i, 0) - row * bytes, left = bytes - at;
        const uint32_t* w = R::line(tile, row) + at / 4;
        uint32_t v = __funnelshift_r(w[0], w[1], at % 4 * 8);
        if (left < 4) {
            const uint32_t next = R::line(tile, min(row + 1, columns - 1))[0];
            v = (v & ~(~0u << 8 * left)) | next << 8 * left;
        }
        if (i >= 0 && i + 4 <= all) *(uint32_t*)(dst + i) = v;
        else
            for (int k = max(0, -i); k < 4 && i + k < all; k += size) *(T*)(dst + i + k) = (T)(v >> 8 * (i < 0 ? k + i : k));
    }
}

#define PACKED(KERNEL, WIDTH, T)                                                                               \
    extern "C" __global__ void __launch_bounds__(block)                                                        \
        quiver_##KERNEL##_##WIDTH(uint8_t* dst, const uint8_t* src, const __grid_constant__ Tiles t) {         \
        move_##KERNEL<T>(dst, src, t);                                                                         \
    }

PACKED(words, 1, uint8_t)
PACKED(words, 2, uint16_t)
PACKED(runs, 1, uint8_t)
PACKED(runs, 2, uint16_t)
PACKED(lines, 1, uint8_t)
PACKED(lines, 2, uint16_t)
