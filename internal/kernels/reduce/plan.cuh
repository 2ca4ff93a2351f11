// The plan of a reduction, and functions common to its kernels.

#pragma once
#include "common/axes.cuh"
#include "reduce/op.cuh"

constexpr int at_most(int a, int b) { return a < b ? a : b; }
constexpr int at_least(int a, int b) { return a > b ? a : b; }

// The steps of a result are runs of `length` steps, `stride` bytes apart. A run is divided
// into parts of `part` steps, the last of which may be shorter. The nest `run` has the
// beginnings of runs.
struct Plan {
    int64_t outputs;      // number of results
    int64_t items;        // columns: vectors of results, with padding
    int64_t width;        // columns: results along kept[0]; the rest is padding
    int64_t length, stride, part;
    Divisor parts;
    int64_t all_parts;    // parts of all runs; finish: accumulators per result
    int64_t per_split;    // parts per block
    int64_t folded;       // columns: contiguous rows that are taken as one wide row
    int64_t base;         // the number of the first step
    uint32_t neutral[4];  // neutral elements
    Finish finish;
    int32_t partial;      // whether accumulators are written instead of results
    int32_t lanes;        // log2 of the threads per row, or along the columns
    int32_t kept_axes, run_axes;
    int32_t dense;        // whether the results of a vector of columns are whole vectors
    int32_t vector;       // elements per vector
    int32_t out_size;
    int32_t aligned;      // whether vectors of columns are aligned and end within width
    Axis kept[max_axes];  // the innermost first; columns: [0] counts vectors
    Axis run[max_axes];
};

// Locates part s of all parts: adds its offset to from, sets the number of its first step,
// and returns its number of steps.
__device__ __forceinline__ int64_t locate_part(const Plan& p, int64_t s, int64_t& from, int64_t& number) {
    const int64_t run = quotient(s, p.parts), first = (s - run * p.parts.by) * p.part;
    int64_t none = 0;
    from += first * p.stride;
    locate(p.run, p.run_axes, run, from, none);
    number = p.base + run * p.length + first;
    return min(p.part, p.length - first);
}

// Exchanges accumulators between threads, word by word.
template <class A> __device__ __forceinline__ A shuffle(const A& a, int distance) {
    union Words { A a; uint32_t w[sizeof(A) / 4]; __device__ Words() {} } from, to;
    from.a = a;
#pragma unroll
    for (int i = 0; i < (int)(sizeof(A) / 4); i++) to.w[i] = __shfl_xor_sync(~0u, from.w[i], distance);
    return to.a;
}

// Merges over a group of 2^lanes neighbouring threads; the first one has the result.
template <class Op> __device__ __forceinline__ void merge_group(typename Op::Acc& acc, int lanes) {
    using Acc = typename Op::Acc;
#pragma unroll 1
    for (int l = 0; l < lanes && l < 5; l++) acc = Op::merge(acc, shuffle(acc, 1 << l));
    if (lanes <= 5) return;
    __shared__ __align__(16) unsigned char memory[block_threads / 32 * sizeof(Acc)];
    Acc* of_warp = (Acc*)memory;
    const int warp = threadIdx.x / 32, warps = 1 << (lanes - 5);
    if (threadIdx.x % 32 == 0) of_warp[warp] = acc;
    __syncthreads();
    if (threadIdx.x % (32 * warps) != 0) return;
#pragma unroll 1
    for (int w = 1; w < warps; w++) acc = Op::merge(acc, of_warp[warp + w]);
}

// Merges the accumulators of threads that are 2^lanes apart. Each thread has V in shared
// memory, `pitch` apart; the first 2^lanes threads have the results.
template <class Op, int V> __device__ __forceinline__ void merge_block(typename Op::Acc* all, int pitch, int lanes) {
#pragma unroll 1
    for (int l = 7; l >= lanes; l--) {
        __syncthreads();
#pragma unroll 2
        for (int i = threadIdx.x; i < V << l; i += block_threads) {
            typename Op::Acc* at = all + (i >> l) * pitch + (i & ((1 << l) - 1));
            *at = Op::merge(*at, at[1 << l]);
        }
    }
    __syncthreads();
}

template <class Op>
__device__ __forceinline__ void put(const typename Op::Acc& acc, char* out, char* partials, int64_t output, const Plan& p) {
    if (p.partial) ((typename Op::Acc*)partials)[blockIdx.y * p.outputs + output] = acc;
    else Op::put(acc, out, p.finish);
}

// Loads elements from an address that is aligned to their total size.
template <int bytes> __device__ __forceinline__ void load(Row<bytes>& row, const char* at) {
    if constexpr (bytes == 1) row.w[0] = *(const uint8_t*)at;
    else if constexpr (bytes == 2) row.w[0] = *(const uint16_t*)at;
    else *(Vector<uint32_t, bytes / 4>*)row.w = *(const Vector<uint32_t, bytes / 4>*)at;
}

// Adds the offsets of a result to from and to, and returns its index along the innermost
// axis. The last axis needs no division.
__device__ __forceinline__ int64_t locate_result(const Plan& p, int64_t item, int64_t& from, int64_t& to) {
    if (p.kept_axes > 1) return locate(p.kept, p.kept_axes, item, from, to);
    from += item * p.kept[0].in;
    to += item * p.kept[0].out;
    return item;
}
