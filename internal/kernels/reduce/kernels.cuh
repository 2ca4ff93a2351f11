// Reductions. The elements of one result are its steps. A thread folds some of them into an
// accumulator, which for sums is wider than the elements. Then threads merge their
// accumulators in a fixed order, so that results are deterministic. If there are too few
// results to fill the GPU, their steps are split over blocks, which write accumulators for
// a second kernel, `finish`.
//
// There are six kernels. `rows`: steps are neighbours in memory; a group of threads takes
// neighbouring vectors of a row. `columns`: results are neighbours; a thread takes a vector
// of columns and iterates over the rows. In narrow contiguous arrays several rows are taken
// as one, and the block merges their results. `short_columns`: columns of few steps.
// `short_rows`: rows of 2 or 4 in whole vectors. `tiled_rows`: other short contiguous rows.
// `strided`: columns of single elements, for all other layouts.

#pragma once
#include "reduce/columns.cuh"
#include "reduce/rows.cuh"
#include "reduce/short.cuh"

// Merges the accumulators of each result.
template <class Op>
__device__ __forceinline__ void finish(char* __restrict__ out, const char* __restrict__ partials, const Plan& p) {
    using Acc = typename Op::Acc;
    const int lanes = block_threads >> p.lanes;
    const int64_t output = ((int64_t)blockIdx.x << p.lanes) + (threadIdx.x & ((1 << p.lanes) - 1));
    Acc acc = Op::none();
    if (output < p.outputs) {
        const Acc* at = (const Acc*)partials + output;
#pragma unroll 4
        for (int64_t s = threadIdx.x >> p.lanes; s < p.all_parts; s += lanes) acc = Op::merge(acc, at[s * p.outputs]);
    }
    __shared__ __align__(16) unsigned char memory[block_threads * sizeof(Acc)];
    Acc* all = (Acc*)memory;
    all[threadIdx.x] = acc;
    merge_block<Op, 1>(all, block_threads, p.lanes);
    if (output >= p.outputs || threadIdx.x >> p.lanes) return;
    int64_t from = 0, to = 0;
    locate(p.kept, p.kept_axes, output, from, to);
    Op::store(all[threadIdx.x], out + to, p.finish);
}

// Positions of 8-byte elements need more registers.
template <class Op> constexpr int column_blocks = Op::is_numbered && sizeof(typename Op::In) == 8 ? 3 : 4;

#define REDUCTION_KERNEL(kind, name, blocks)                              \
    extern "C" __global__ void __launch_bounds__(block_threads, blocks)   \
        quiver_##kind##_##name(const char* in, char* out, char* partials, const __grid_constant__ Plan p)

// The kernels of an operation. A thread has about 64 bytes in flight, and blocks are
// limited by registers. Columns of small elements, each of which has an accumulator, use
// vectors of 8 bytes.
#define ROWS(name, ...)                                                   \
    REDUCTION_KERNEL(rows, name, 4) {                                     \
        using Op = __VA_ARGS__;                                           \
        rows<Op, 16 / sizeof(Op::In), 4>(in, out, partials, p);           \
    }
#define COLUMNS(name, ...)                                                \
    REDUCTION_KERNEL(columns, name, column_blocks<__VA_ARGS__>) {         \
        using Op = __VA_ARGS__;                                           \
        constexpr int bytes = sizeof(Op::In) <= 2 ? 8 : 16;               \
        columns<Op, bytes / sizeof(Op::In), 64 / bytes>(in, out, partials, p); \
    }
#define SHORT_COLUMNS(name, ...)                                                    \
    REDUCTION_KERNEL(short_columns, name, 4) {                                      \
        using Op = __VA_ARGS__;                                           \
        short_columns<Op, 16 / sizeof(Op::In)>(in, out, p);                         \
    }
#define STRIDED(name, ...)                                                \
    REDUCTION_KERNEL(strided, name, 3) {                                  \
        using Op = __VA_ARGS__;                                           \
        columns<Op, 1, sizeof(Op::In) == 16 ? 4 : 8>(in, out, partials, p); \
    }
// The finish kernel of an operation also serves others with the same accumulators and
// result types.
#define FINISH(name, ...)                                                 \
    extern "C" __global__ void __launch_bounds__(block_threads)           \
        quiver_finish_##name(char* out, const char* partials, const __grid_constant__ Plan p) { \
        using Op = __VA_ARGS__;                                           \
        finish<Op>(out, partials, p);                                     \
    }
#define TILED_ROWS(name, ...)                                                  \
    REDUCTION_KERNEL(tiled_rows, name, 3) {                                    \
        using Op = __VA_ARGS__;                                           \
        tiled_rows<Op>(in, out, partials, p);                                  \
    }
#define SHORT_ROWS(name, ...)                                                   \
    REDUCTION_KERNEL(short_rows, name, 3) {                                     \
        using Op = __VA_ARGS__;                                           \
        short_rows<Op>(in, out, p);                                             \
    }
#define REDUCTION(name, ...)                                              \
    SHORT_ROWS(name, __VA_ARGS__)                                               \
    TILED_ROWS(name, __VA_ARGS__)                                              \
    ROWS(name, __VA_ARGS__)                                               \
    COLUMNS(name, __VA_ARGS__)                                            \
    SHORT_COLUMNS(name, __VA_ARGS__)                                                \
    STRIDED(name, __VA_ARGS__)
