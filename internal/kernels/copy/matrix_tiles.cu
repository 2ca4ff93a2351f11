// Transposes a batch of small matrices of units of 4 and 8 bytes. A tile holds all of A,
// and the items of B follow A in the destination without gaps, so that a tile writes one
// contiguous run.

#include "copy/plan.cuh"

template <typename T>
__device__ __forceinline__ void copy_matrices(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const Tiles& t) {
    constexpr int size = sizeof(T), warps = block / 32, held = 8, parts = size == 4 ? 2 : 1;  // units of a row that a lane reads
    __shared__ T tile[32768 / size];
    const Tile s = tile_of(t, t.items_a, t.side_b);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, rows = t.items_a;
    const int columns = min(t.side_b, t.items_b - s.b0), pitch = columns | 1;  // odd, so that a column is in different banks
    src += s.src + (int64_t)s.b0 * size;
    dst += s.dst + (int64_t)s.b0 * rows * size;
    // Loads have no condition, so that all are in flight at once: items outside the tile
    // are read twice instead.
    const int64_t mine = offset_of(t.axes, t.axes_a, min(warp + lane * warps, rows - 1), &Axis::src);
    for (int k0 = 0; warp + k0 * warps < rows; k0 += held) {
        T v[held][parts];
#pragma unroll
        for (int k = 0; k < held; k++) {
            const T* row = (const T*)(src + __shfl_sync(~0u, mine, k0 + k));
#pragma unroll
            for (int i = 0; i < parts; i++) v[k][i] = __ldg(row + min(lane + i * 32, columns - 1));
        }
        T* line = tile + (warp + k0 * warps) * pitch + lane;
#pragma unroll
        for (int k = 0; k < held; k++)
#pragma unroll
            for (int i = 0; i < parts; i++)
                if (warp + (k0 + k) * warps < rows && lane + i * 32 < columns) line[k * warps * pitch + i * 32] = v[k][i];
    }
    __syncthreads();
    const int back = ((uint32_t)(uintptr_t)dst & 127) / size, items = columns * rows;
    for (int i0 = (int)threadIdx.x - back; i0 < items; i0 += held * block) {
        T v[held];
#pragma unroll
        for (int k = 0; k < held; k++) {
            const int i = min(max(i0 + k * block, 0), items - 1), b = t.by(i), a = i - b * rows;
            v[k] = tile[a * pitch + b];
        }
#pragma unroll
        for (int k = 0; k < held; k++) {
            const int i = i0 + k * block;
            if (i >= 0 && i < items) *(T*)(dst + i * size) = v[k];
        }
    }
}

// BLOCKS limits registers: as many blocks as have registers for all loads in flight.
#define MATRIX_TILES(WIDTH, T, BLOCKS)                                                                             \
    extern "C" __global__ void __launch_bounds__(block, BLOCKS)                                                \
        quiver_matrix_tiles_##WIDTH(uint8_t* dst, const uint8_t* src, const __grid_constant__ Tiles t) {           \
        copy_matrices<T>(dst, src, t);                                                                         \
    }

MATRIX_TILES(4, uint32_t, 4)
MATRIX_TILES(8, uint2, 4)
