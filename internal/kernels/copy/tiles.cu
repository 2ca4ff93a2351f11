// Copies units of 4, 8 and 16 bytes through tiles of fixed sides.
//
// sector_tiles are for rows of the destination that are not aligned to sectors. A sector
// shared by two tiles is written twice, so each row of a tile is written from one sector
// boundary to another: it begins up to `halo` items earlier. The row of the last tile along
// A ends where A ends.

#include "copy/plan.cuh"

template <typename T, int side_a, int side_b, int halo>
__device__ __forceinline__ void copy_tile(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const Tiles& t) {
    constexpr int size = sizeof(T), pitch = side_b + 1;  // odd, so that a column is in different banks
    constexpr int reads = block / side_b, writes = block / side_a, rows = side_a + halo, held = (rows - 1) / reads + 1;
    __shared__ T tile[rows * pitch];
    __shared__ int64_t from[rows], to[side_b];
    const Tile s = tile_of(t, side_a, side_b);
    const Axis *axes_a = t.axes, *axes_b = t.axes + t.axes_a;
    const int a0 = s.a0 - halo, first = max(0, -a0), last = min(rows, t.items_a - a0), columns = min(side_b, t.items_b - s.b0);
    for (int i = threadIdx.x; i < rows; i += block) from[i] = offset_of(axes_a, t.axes_a, min(max(a0 + i, 0), t.items_a - 1), &Axis::src);
    for (int i = threadIdx.x; i < columns; i += block) to[i] = offset_of(axes_b, t.axes_b, s.b0 + i, &Axis::dst);
    __syncthreads();
    // Loads have no condition, so that all are in flight at once: items outside the tile
    // are read twice instead.
    const int column = threadIdx.x % side_b, row0 = threadIdx.x / side_b;
    src += s.src + offset_of(axes_b, t.axes_b, s.b0 + min(column, columns - 1), &Axis::src);
    T v[held];
#pragma unroll
    for (int k = 0; k < held; k++) {
        const T* p = (const T*)(src + from[min(row0 + k * reads, rows - 1)]);
        v[k] = halo ? read_near(p) : __ldg(p);
    }
#pragma unroll
    for (int k = 0; k < held; k++)
        if (row0 + k * reads < rows) tile[(row0 + k * reads) * pitch + column] = v[k];
    __syncthreads();
    const int at = threadIdx.x % side_a, column0 = threadIdx.x / side_a;
    dst += s.dst + (halo ? (int64_t)s.a0 * size : offset_of(axes_a, t.axes_a, min(s.a0 + at, t.items_a - 1), &Axis::dst));
#pragma unroll
    for (int k = 0; k < side_b / writes; k++) {
        const int i = column0 + k * writes;
        if (i >= columns) continue;
        uint8_t* out = dst + to[i];
        int row = at;
        if (halo) {
            const int back = ((uint32_t)(uintptr_t)out & (sector - 1)) / size;
            row += halo - back;
            out += (at - back) * size;
            if (at < back && s.a0 + side_a >= t.items_a && row + side_a < last) *(T*)(out + side_a * size) = tile[(row + side_a) * pitch + i];
        }
        if (row >= first && row < last) *(T*)out = tile[row * pitch + i];
    }
}

// BLOCKS limits registers: as many blocks as have registers for all loads in flight.
#define TILES(KERNEL, WIDTH, T, SIDE_A, SIDE_B, HALO, BLOCKS)                                                  \
    extern "C" __global__ void __launch_bounds__(block, BLOCKS)                                                \
        quiver_##KERNEL##_##WIDTH(uint8_t* dst, const uint8_t* src, const __grid_constant__ Tiles t) {         \
        copy_tile<T, SIDE_A, SIDE_B, HALO>(dst, src, t);                                                       \
    }

TILES(tiles, 4, uint32_t, 64, 64, 0, 4)
TILES(tiles, 8, uint2, 64, 32, 0, 8)
TILES(tiles, 16, uint4, 32, 32, 0, 4)
TILES(sector_tiles, 4, uint32_t, 128, 64, 7, 3)
TILES(sector_tiles, 8, uint2, 128, 32, 3, 3)
TILES(sector_tiles, 16, uint4, 64, 32, 1, 3)
