// Units of 4, 8 and 16 bytes through tiles.
//
// Where rows of the destination begin anywhere, each is written from one whole
// sector to another, since a sector that two tiles share costs as much as two. The
// tile's row then begins up to halo items earlier.

#include "move.cuh"

template <typename T, int side_a, int side_b, int halo>
__device__ __forceinline__ void move_tile(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const Tiles& t) {
    constexpr int size = sizeof(T), pitch = side_b + 1;  // odd: the reads of a column are of different banks
    constexpr int reads = block / side_b, writes = block / side_a, rows = side_a + halo, held = (rows - 1) / reads + 1;
    __shared__ T tile[rows * pitch];
    const Tile s = tile_of(t, side_a, side_b);
    const Axis *axes_a = t.axes, *axes_b = t.axes + t.axes_a;
    const int a0 = s.a0 - halo, b0 = s.b0, last = min(rows, t.items_a - a0), columns = min(side_b, t.items_b - b0);
    const int lane = threadIdx.x % 32;
    {
        const int column = threadIdx.x % side_b, row0 = threadIdx.x / side_b;
        src += s.src + place(axes_b, t.axes_b, b0 + min(column, columns - 1), &Axis::src);
        T v[held];
        if (t.axes_a == 1 && a0 >= 0 && last == rows) {
            const int64_t step = axes_a[0].src;
            src += (a0 + row0) * step;
#pragma unroll
            for (int k = 0; k < held; k++)
                if (column < columns && (k * reads + reads <= rows || row0 + k * reads < rows)) v[k] = __ldg((const T*)(src + k * (reads * step)));
        } else {
            // The lanes of a warp read the same rows: each finds where one is.
            const int64_t mine = place(axes_a, t.axes_a, min(max(a0 + row0 + lane * reads, 0), t.items_a - 1), &Axis::src);
#pragma unroll
            for (int k = 0; k < held; k++) {
                const int row = row0 + k * reads;
                const int64_t from = __shfl_sync(~0u, mine, k);
                if (column < columns && row < last && a0 + row >= 0) v[k] = __ldg((const T*)(src + from));
            }
        }
#pragma unroll
        for (int k = 0; k < held; k++)
            if (k * reads + reads <= rows || row0 + k * reads < rows) tile[(row0 + k * reads) * pitch + column] = v[k];
    }
    __syncthreads();
    const int at = threadIdx.x % side_a, first = threadIdx.x / side_a;
    dst += s.dst + (halo ? (int64_t)s.a0 * size : place(axes_a, t.axes_a, min(s.a0 + at, t.items_a - 1), &Axis::dst));
    const auto write = [&](uint8_t* to, int i) {
        int row = at + halo;
        if (halo) {
            const int back = ((uint32_t)(uintptr_t)to & (sector - 1)) / size;
            row -= back;
            to += (at - back) * size;
        }
        if (row < last && (!halo || a0 + row >= 0)) *(T*)to = tile[row * pitch + i];
    };
    if (t.axes_b == 1 && columns == side_b) {
        const int64_t step = axes_b[0].dst;
        dst += (b0 + first) * step;
#pragma unroll
        for (int k = 0; k < side_b / writes; k++) write(dst + k * (writes * step), first + k * writes);
    } else {
        const int64_t mine = place(axes_b, t.axes_b, b0 + min(first + lane * writes, columns - 1), &Axis::dst);
#pragma unroll
        for (int k = 0; k < side_b / writes; k++) {
            const int64_t to = __shfl_sync(~0u, mine, k);
            if (first + k * writes < columns) write(dst + to, first + k * writes);
        }
    }
}

// With sectors, blocks are so few that each has registers for more of its loads.
#define TILES(WIDTH, T, SIDE_A, SIDE_B, BLOCKS)                                                                \
    extern "C" __global__ void __launch_bounds__(block)                                                        \
        quiver_tiles_##WIDTH(uint8_t* dst, const uint8_t* src, const __grid_constant__ Tiles t) {              \
        move_tile<T, SIDE_A, SIDE_B, 0>(dst, src, t);                                                          \
    }                                                                                                          \
    extern "C" __global__ void __launch_bounds__(block, BLOCKS)                                                \
        quiver_sectors_##WIDTH(uint8_t* dst, const uint8_t* src, const __grid_constant__ Tiles t) {            \
        move_tile<T, SIDE_A, SIDE_B, sector / WIDTH - 1>(dst, src, t);                                         \
    }

TILES(4, uint32_t, 64, 64, 5)
TILES(8, uint2, 64, 32, 4)
TILES(16, uint4, 32, 32, 1)
