// Copies units of 1 and 2 bytes through tiles whose rows may have any alignment. Sides A
// and B are gapless runs of the destination and of the source.
//
// A warp reads rows of the source in aligned words. A thread combines each word with the
// next one to a word of the row, and transposes as many rows as a word has units in
// registers. So the tile in shared memory has rows of the destination.

#include "copy/plan.cuh"
#include "copy/transpose.cuh"

constexpr int across = 2, wide = 32 * across;  // words of a row per thread, and per warp
constexpr int written = 8;                     // bytes of a store

// A tile of up to 256 items of A by as many items of B as `wide` words hold. Each thread
// keeps the rows of `squares` squares in flight.
template <typename T, int threads, int squares> struct TransposedTile {
    static constexpr int size = sizeof(T), units = 4 / size, warps = threads / 32;
    uint32_t* tile;
    int pitch;      // words per row: odd, so that banks differ
    int64_t* from;  // address of each row of the source

    // Rows of unit i of the source's words are grouped, so that a warp writes to different
    // banks.
    __device__ __forceinline__ const uint32_t* row(int column) const { return tile + (column % units * wide + column / units) * pitch; }

    // Reads the words from `word` up to `end`, which the warps of a block share. Words past
    // the end are read twice instead. If `all`, every aligned word of a row and the next
    // one may be read; otherwise only words that contain bytes of the row.
    template <bool all> __device__ __forceinline__ void read(int word, int end, int bytes) const {
        const int lane = threadIdx.x % 32;
        uint32_t v[squares][units][across], by[squares][units], after = 0;
        const auto where = [&](int square, int unit) { return from[min(word + square * warps, end - 1) * units + unit]; };
        const auto load = [&](int64_t at, int offset) {
            if (!all) offset = min(offset, (((int)at & 3) + bytes - 1) & ~3);
            return read_near((const uint32_t*)((at & ~3ll) + offset));
        };
        if (lane < squares * units) after = load(where(lane / units, lane % units), 4 * wide);  // one thread per row
#pragma unroll
        for (int s = 0; s < squares; s++)
#pragma unroll
            for (int i = 0; i < units; i++) {
                const int64_t at = where(s, i);
                by[s][i] = (uint32_t)at * 8;
#pragma unroll
                for (int k = 0; k < across; k++) v[s][i][k] = load(at, 4 * (lane + 32 * k));
            }
#pragma unroll
        for (int s = 0; s < squares; s++)
#pragma unroll
            for (int k = 0; k < across; k++) {
                uint32_t w[units];
#pragma unroll
                for (int i = 0; i < units; i++) {
                    const bool last = k == across - 1;
                    const uint32_t next = __shfl_sync(~0u, lane > 0 || last ? v[s][i][k] : v[s][i][(k + 1) % across], lane + 1);
                    const uint32_t end_of_row = last ? __shfl_sync(~0u, after, s * units + i) : 0;
                    w[i] = __funnelshift_r(v[s][i][k], last && lane == 31 ? end_of_row : next, by[s][i]);
                }
                if constexpr (units == 4) transpose(w[0], w[1], w[2], w[3]);
                if constexpr (units == 2) transpose(w[0], w[1]);
                uint32_t* to = tile + (32 * k + lane) * pitch + word + s * warps;
#pragma unroll
                for (int i = 0; i < units; i++)
                    if (s == 0 || word + s * warps < end) to[i * wide * pitch] = w[i];
            }
    }

    // Reads items [first, last) of A, counted from item a0, and `columns` items of B.
    __device__ __forceinline__ void read(const uint8_t* src, const Tiles& t, const Tile& s, int a0, int first, int last, int columns) const {
        const int end = (last - 1) / units + 1;
        bool all = columns == wide * units;
        for (int i = threadIdx.x; i < end * units; i += threads) {
            const int64_t at = s.src + (int64_t)s.b0 * size + offset_of(t.axes, t.axes_a, min(max(a0 + i, 0), t.items_a - 1), &Axis::src);
            from[i] = (int64_t)(src + at);
            all &= at + 4 * (wide + 1) <= t.end;
        }
        all = __syncthreads_and(all);
        int word = first / units + threadIdx.x / 32;
        if (all)
            for (; word < end; word += squares * warps) read<true>(word, end, 0);
        else
            for (; word < end; word += squares * warps) read<false>(word, end, columns * size);
        __syncthreads();
    }
};

// Rows of the destination are written from one sector boundary to another, as in tiles.cu.
// The row of the last tile along A ends where A ends. A tile has up to `side` items of A.
template <typename T, int threads, int squares, int side>
__device__ __forceinline__ void copy_runs(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const Tiles& t) {
    constexpr int size = sizeof(T), halo = sector / size, pitch = (side + halo) * size / 4 | 1;
    constexpr int turns = (side * size + 32 * written - 1) / (32 * written), warps = threads / 32;
    extern __shared__ int64_t shared[];
    int64_t *from = shared, *to = from + side + halo;
    const TransposedTile<T, threads, squares> tile{(uint32_t*)(to + t.side_b), pitch, from};
    const Tile s = tile_of(t, t.side_a, t.side_b);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int a0 = s.a0 - halo, first = max(0, -a0), last = min(t.side_a + halo, t.items_a - a0), columns = min(t.side_b, t.items_b - s.b0);
    dst += s.dst + (int64_t)s.a0 * size;
    for (int i = threadIdx.x; i < columns; i += threads) to[i] = (int64_t)(dst + offset_of(t.axes + t.axes_a, t.axes_b, s.b0 + i, &Axis::dst));
    tile.read(src, t, s, a0, first, last, columns);

    const int low = first * size, high = last * size, most = t.side_a * size;  // in bytes of a row of the tile
    const bool ends = s.a0 + t.side_a >= t.items_a;
    // Writes a word of a row. Reads have no condition, so that all are in flight at once;
    // words outside the tile are not written.
    const auto write_word = [&](int column, int k, auto there) {
        const int64_t out = to[column];
        const int back = (int)out & (sector - 1), at = written * (lane + 32 * k);  // counted from the first sector
        const uint32_t* w = tile.row(column) + (sector - back + at) / 4;
        const uint2 v = {__funnelshift_r(w[0], w[1], -back * 8), __funnelshift_r(w[1], w[2], -back * 8)};
        if (there(at, sector - back)) *(uint2*)(out - back + at) = v;
    };
    if (first == 0 && !ends) {
#pragma unroll 4
        for (int column = warp; column < columns; column += warps)
#pragma unroll
            for (int k = 0; k < turns; k++) write_word(column, k, [&](int at, int) { return at < most; });
        return;
    }
    const auto inside = [&](int at, int before) { return before + at >= low && at + written <= (ends ? high - before : most); };
#pragma unroll 2
    for (int column = warp; column < columns; column += warps) {
#pragma unroll
        for (int k = 0; k < turns; k++) write_word(column, k, inside);
        if (ends && high > 32 * written * turns && lane < sector / written) write_word(column, turns, inside);
    }
    // Words at the ends of A are written in part: one thread per unit.
    const auto write_end = [&](int cut) {
        constexpr int units = written / size;
        for (int i = threadIdx.x; i < units * columns; i += threads) {
            const int column = i / units, before = sector - ((int)to[column] & (sector - 1));
            const int at = before + ((cut - before) & -written) + i % units * size;
            if ((cut - before) % written && at >= low && at < high) *(T*)(to[column] - (int)sector + at) = *(const T*)((const uint8_t*)tile.row(column) + at);
        }
    };
    if (first > 0) write_end(low);
    if (ends) write_end(high);
}

// 384 threads and at least two blocks per multiprocessor limit registers to as many as all
// loads in flight need, which is faster than more blocks.
#define RUN_TILES(KERNEL, WIDTH, T, SQUARES, SIDE)                                                             \
    extern "C" __global__ void __launch_bounds__(384, 2)                                                       \
        quiver_##KERNEL##_##WIDTH(uint8_t* dst, const uint8_t* src, const __grid_constant__ Tiles t) {         \
        copy_runs<T, 384, SQUARES, SIDE>(dst, src, t);                                                         \
    }

RUN_TILES(run_tiles, 1, uint8_t, 3, 256)
RUN_TILES(run_tiles, 2, uint16_t, 6, 256)
RUN_TILES(short_run_tiles, 1, uint8_t, 3, 128)
RUN_TILES(short_run_tiles, 2, uint16_t, 6, 128)
