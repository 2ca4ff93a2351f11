// Units moved through tiles in shared memory, where the axes that vary fastest
// in the source and in the destination differ: threads side by side read units
// side by side of the one, and write those of the other.

#include "move.cuh"

struct Tiles {
    int32_t items_a, items_b;  // of the sides: A is near in the destination, B in the source
    int32_t axes_a, axes_b, batch;
    int32_t log_a, log_b;      // a tile is 2^log_a by 2^log_b
    int32_t chunks_a, chunks_b, group;
    int32_t halo, run_b;
    Axis axes[move_axes];      // of A, of B, and of the batch
};

constexpr int block = 256, longest = 512, sector = 32;

template <typename T>
__device__ __forceinline__ void move_tile(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const Tiles& t) {
    constexpr int size = sizeof(T), units = size < 4 ? 4096 : 16384 / size;
    // Odd pitches keep the reads of a column in different banks: a tile has at
    // most units + longest places, and the halo's rows besides.
    __shared__ T tile[units + longest + (sector / size) * 65];
    __shared__ int64_t from[longest + sector], to[longest];

    // Tiles next to each other in the destination come one after the other,
    // group by group of those next to each other in the source: both share
    // sectors at their edges, which are in the cache then.
    const uint32_t plane = t.chunks_a * t.chunks_b, batch = blockIdx.x / plane, within = blockIdx.x - batch * plane;
    const uint32_t strip = within / (t.group * t.chunks_a), rest = within - strip * t.group * t.chunks_a;
    const uint32_t wide = min(t.group, t.chunks_b - strip * t.group);
    const uint32_t chunk_a = rest / wide, chunk_b = strip * t.group + rest - chunk_a * wide;

    const int side_a = 1 << t.log_a, side_b = 1 << t.log_b, pitch = side_b + 1, rows = side_a + t.halo;
    const int a0 = (int)(chunk_a << t.log_a) - t.halo, b0 = chunk_b << t.log_b;  // what the tile's first row and column are
    const int first = max(0, -a0), last = min(rows, t.items_a - a0), columns = min(side_b, t.items_b - b0);

    int64_t other, batch_dst, batch_src;
    place(t.axes + t.axes_a + t.axes_b, t.batch, batch, batch_dst, batch_src);
    for (int i = threadIdx.x; i < rows; i += block) place(t.axes, t.axes_a, min(max(a0 + i, 0), t.items_a - 1), other, from[i]);
    for (int i = threadIdx.x; i < side_b; i += block) place(t.axes + t.axes_a, t.axes_b, min(b0 + i, t.items_b - 1), to[i], other);
    dst += batch_dst;
    src += batch_src;
    __syncthreads();

    const int column = threadIdx.x & (side_b - 1);
    {
        int64_t lane;
        place(t.axes + t.axes_a, t.axes_b, min(b0 + column, t.items_b - 1), other, lane);
        const uint8_t* line = src + lane;
        const int step = block >> t.log_b;
        if (step == 0) {  // a row is longer than a block
            for (int i = threadIdx.x; i < rows << t.log_b; i += block) {
                const int row = i >> t.log_b, b = i & (side_b - 1);
                place(t.axes + t.axes_a, t.axes_b, min(b0 + b, t.items_b - 1), other, lane);
                if (b < columns && row >= first && row < last) tile[row * pitch + b] = *(const T*)(src + from[row] + lane);
            }
        } else {
#pragma unroll 8
            for (int row = threadIdx.x >> t.log_b; row < rows; row += step)
                if (column < columns && row >= first && row < last) tile[row * pitch + column] = *(const T*)(line + from[row]);
        }
    }
    __syncthreads();

    int64_t lane = 0;
    const uint32_t mask = t.halo ? sector - 1 : 0;
#pragma unroll 8
    for (int i = threadIdx.x; i < side_b << t.log_a; i += block) {
        const int b = i >> t.log_a, a = i & (side_a - 1);
        if (b >= columns) break;
        uint8_t* line = dst + to[b];
        int row = a + t.halo;
        if (t.halo) {
            line += (int64_t)(a0 + t.halo) * size;
            row -= ((uint32_t)(uintptr_t)line & mask) / size;
            lane = (int64_t)(row - t.halo) * size;
        } else {
            place(t.axes, t.axes_a, min(a0 + a, t.items_a - 1), lane, other);
        }
        if (row >= first && row < last) *(T*)(line + lane) = tile[row * pitch + b];
    }
}

#define TILES(WIDTH, T)                                                                              \
    extern "C" __global__ void __launch_bounds__(block)                                              \
        quiver_tiles_##WIDTH(uint8_t* dst, const uint8_t* src, const __grid_constant__ Tiles t) {    \
        move_tile<T>(dst, src, t);                                                                   \
    }

TILES(1, uint8_t)
TILES(2, uint16_t)
TILES(4, uint32_t)
TILES(8, uint2)
TILES(16, uint4)
