// Copies units through box tiles: boxes of the nest with several axes, each staged in
// shared memory. They are for nests with short axes.

#include "copy/async_copy.cuh"
#include "copy/plan.cuh"
#include "copy/transpose.cuh"

// An axis that is split across tiles: a tile has `extent` items of it, the last tile the
// rest.
struct SplitAxis {
    int32_t whole, extent;
    int64_t dst, src;
};

// The plan; the fields are documented in internal/stridedcopy.
struct BoxTiles {
    int64_t begin, end;
    SplitAxis a, b;
    int32_t chunks_a, chunks_b, same;
    int32_t units_a, units_b, runs_a, runs_b;
    int32_t row, step, rows;
    int32_t words_a, words_b;
    int32_t image, shared, most_b, most_rows, spread, square, words, in_rows, overlap;
    Divide by_chunks_a, by_chunks_b, by_row, by_a, by_b, by_word, by_rows;
    int32_t counts[4];
    Axis axes[4][plan_axes];
    int32_t items;
};

// Returns where byte `at` of the image is stored. Bytes that are multiples of 128 apart
// would be in the same banks, so they are spread over eight words of 16 bytes.
template <bool spread> __device__ __forceinline__ int swizzle(int at) { return spread ? at ^ ((at >> 7) * 18 & 0x70) : at; }

// Writes squares of units: a thread reads `side` lines of `side` units from the image,
// transposes them in registers, and writes words of one or more lines each. A square covers
// `side` neighbouring runs or, if t.in_rows, `side` neighbouring rows of a run. If those do
// not begin at sectors, a warp still writes whole sectors: a lane passes its word on by as
// many lanes as the run begins words after a sector, and the first lanes re-read words of
// the previous warp.
template <typename T, int word, bool spread>
__device__ __forceinline__ void write_squares(uint8_t* dst, const uint8_t* image, const uint32_t* row, const int64_t* to,
                                             const BoxTiles& t, int runs_a, int units_a) {
    constexpr int size = sizeof(T), line = word < 4 * size ? word : 4 * size, side = line / size, parts = line / 4;
    struct alignas(word) Word { Line<line> line[word / line]; };
    const int all = (t.in_rows ? runs_a * t.rows : runs_a) / side * t.words, words = (t.in_rows ? t.row : units_a) * size / word;
    const int lane = threadIdx.x % 32, writes = t.overlap ? 32 - sector / word : 32;  // lanes that write
    for (int begin = threadIdx.x / 32 * writes; begin < all; begin += blockDim.x / 32 * writes) {
        const int mine = begin + lane - t.overlap, i = min(max(mine, 0), all - 1), group = t.by_word(i), at = i - group * t.words;
        const int run = t.in_rows ? t.by_rows(group * side) : group * side;
        const int skipped = t.in_rows ? group * side - run * t.rows : 0, first = skipped * t.row;  // rows and units of the run before the square
        Word out[side];
        if (at < words && first < units_a) {
#pragma unroll
            for (int d = 0; d < word / line; d++) {
                const int unit = at * (word / size) + d * side, before = t.in_rows ? skipped : t.by_row(unit);
                const int start = row[run * t.rows + before] + (t.in_rows ? unit : unit - before * t.row) * t.step;
                Line<line> lines[side];
#pragma unroll
                for (int k = 0; k < side; k++) lines[k] = *(const Line<line>*)(image + swizzle<spread>(start + k * t.step));
                transpose<size>(lines);
#pragma unroll
                for (int k = 0; k < side; k++) out[k].line[d] = lines[k];
            }
        }
        const bool writer = mine < all && lane >= t.overlap && lane < t.overlap + writes && first < units_a;
#pragma unroll
        for (int k = 0; k < side; k++) {
            uint8_t* p = dst + (t.in_rows ? to[run] + (first + k * t.row) * size : to[run + k]);
            const int back = t.overlap ? ((uint32_t)(uintptr_t)p & (sector - 1)) / word : 0;
            if (t.overlap) {
#pragma unroll
                for (int j = 0; j < word / 4; j++) {
                    uint32_t& v = out[k].line[j / parts].word[j % parts];
                    v = __shfl_sync(~0u, v, (lane - back) & 31);
                }
            }
            if (writer && at >= back && at - back < words) *(Word*)(p + (at - back) * word) = out[k];
        }
    }
}

template <typename T, typename Word, bool spread>
__device__ __forceinline__ void copy_boxes(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const BoxTiles& t) {
    constexpr int size = sizeof(T), word = sizeof(Word), units = word / size;
    extern __shared__ uint4 memory[];
    uint8_t* image = (uint8_t*)memory;
    int64_t *from = (int64_t*)(image + t.image), *to = from + t.most_b;  // offsets of runs from the tile's first unit
    const uint32_t rest = t.by_chunks_a(blockIdx.x), batch = t.by_chunks_b(rest);
    const int a = blockIdx.x - rest * t.chunks_a, b = rest - batch * t.chunks_b;
    const int in_a = min(t.a.extent, t.a.whole - a * t.a.extent), in_b = min(t.b.extent, t.b.whole - b * t.b.extent);
    const int runs_a = t.runs_a * in_b, runs_b = t.same ? t.runs_b : t.runs_b * in_a, rows = t.rows * runs_a;
    const int units_a = t.units_a * in_a, bytes_b = t.units_b * (t.same ? in_a : in_b) * size;
    uint32_t *row = (uint32_t*)(to + t.runs_a * t.b.extent), *start = row + t.most_rows;  // offsets of rows and of runs in the image
    const uint8_t *begin = src + t.begin, *end = src + t.end;
    src += offset_of(t.axes[2], t.counts[2], batch, &Axis::src) + a * t.a.src + b * t.b.src;
    dst += offset_of(t.axes[2], t.counts[2], batch, &Axis::dst) + a * t.a.dst + b * t.b.dst;
    const int skip = (uint32_t)(uintptr_t)src & 15;
    for (int i = threadIdx.x; i < runs_b; i += blockDim.x) {
        from[i] = offset_of(t.axes[0], t.counts[0], i, &Axis::src);
        start[i] = (uint32_t)(skip + offset_of(t.axes[0], t.counts[0], i, &Axis::dst));
    }
    for (int i = threadIdx.x; i < rows; i += blockDim.x) row[i] = (uint32_t)(skip + offset_of(t.axes[1], t.counts[1], i, &Axis::src));
    for (int i = threadIdx.x; i < runs_a; i += blockDim.x) to[i] = offset_of(t.axes[1], t.counts[1], i * t.rows, &Axis::dst);
    __syncthreads();

    for (int i = threadIdx.x; i < runs_b * t.words_b; i += blockDim.x) {  // from a sector boundary on
        const int run = t.by_b(i), lead = (uint32_t)(uintptr_t)(src + from[run]) & (sector - 1), at = 16 * (i - run * t.words_b) - lead;
        if (at <= -16 || at >= bytes_b) continue;
        const uint8_t* p = src + from[run] + at;
        uint8_t* q = image + swizzle<spread>(start[run] + at);
        if (p >= begin && p + 16 <= end) copy_async((uint4*)q, (const uint4*)p);
        else
            for (int k = 0; k < 16; k += size)
                if (at + k >= 0 && at + k < bytes_b) *(T*)(q + k) = *(const T*)(p + k);
    }
    wait_for_copies();
    __syncthreads();

    if constexpr (size < 16) {
        constexpr int most = size < 4 ? 8 : 16;
        if (t.square == most) return write_squares<T, most, spread>(dst, image, row, to, t, runs_a, units_a);
        if constexpr (size < 8)
            if (t.square == most / 2) return write_squares<T, most / 2, spread>(dst, image, row, to, t, runs_a, units_a);
    }

    // Whole words first. A word may begin in one row of the box and end in the next.
    const auto row_of = [&](int run, int& unit) {
        int in = run * t.rows;
        if (t.rows > 1) {
            const int before = t.by_row(unit);
            in += before;
            unit -= before * t.row;
        }
        return in;
    };
    const auto unit_of = [&](int run, int unit) {
        const int in = row_of(run, unit);
        return *(const T*)(image + swizzle<spread>(row[in] + unit * t.step));
    };
#pragma unroll 2
    for (int i = threadIdx.x; i < runs_a * t.words_a; i += blockDim.x) {
        const int run = t.by_a(i);
        uint8_t* p = dst + to[run];
        const int lead = (uint32_t)(uintptr_t)p & (sector - 1), first = ((i - run * t.words_a) * word - lead) / size;  // first unit of the word, counted in the run
        if (first < 0 || first + units > units_a) continue;
        union { T unit[units]; Word word; } v;
        if (units == 1 || t.rows == 1 || t.row >= units) {
            int unit = first;
            const int in = row_of(run, unit), left = t.rows > 1 ? t.row - unit : units;
            const int here = row[in] + unit * t.step, next = units > 1 ? row[in + 1] - left * t.step : 0;
#pragma unroll
            for (int k = 0; k < units; k++) v.unit[k] = *(const T*)(image + swizzle<spread>((k < left ? here : next) + k * t.step));
        } else {
#pragma unroll
            for (int k = 0; k < units; k++) v.unit[k] = unit_of(run, first + k);
        }
        *(Word*)(p + first * size) = v.word;
    }
    // Then the units at the ends of runs, which share their words with other data.
    if (units > 1) {
        for (int i = threadIdx.x; i < runs_a * (2 * units); i += blockDim.x) {
            const int run = i / (2 * units), k = i % units;
            uint8_t* p = dst + to[run];
            const int ahead = (int)(-(uintptr_t)p & (word - 1)) / size, behind = (int)((uintptr_t)(p + units_a * size) & (word - 1)) / size;
            const int head = min(ahead, units_a), tail = min(behind, units_a - head);
            const int unit = i / units % 2 ? units_a - 1 - k : k;
            if (k < (i / units % 2 ? tail : head)) *(T*)(p + unit * size) = unit_of(run, unit);
        }
    }
}

#define BOX_TILES(WIDTH, T, WORD)                                                                                 \
    extern "C" __global__ void __launch_bounds__(512, 2)                                                       \
        quiver_box_tiles_##WIDTH(uint8_t* dst, const uint8_t* src, const __grid_constant__ BoxTiles t) {            \
        if (t.spread) copy_boxes<T, WORD, true>(dst, src, t);                                                 \
        else copy_boxes<T, WORD, false>(dst, src, t);                                                         \
    }

BOX_TILES(1, uint8_t, uint2)
BOX_TILES(2, uint16_t, uint2)
BOX_TILES(4, uint32_t, uint2)
BOX_TILES(8, uint2, uint2)
BOX_TILES(16, uint4, uint4)
