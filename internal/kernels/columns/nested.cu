// Arrow columns: unions and run-end encoding.
//
// A block has 2048 items, 8 per thread and 256 apart.

#include "common/warp.cuh"

constexpr int unroll = 8;

__device__ __forceinline__ int64_t item(int u) {
    return (int64_t)blockIdx.x * (blockDim.x * unroll) + u * blockDim.x + threadIdx.x;
}

// out[j] = the type id of element at[j], or `first`, that of the first child, for -1.
extern "C" __global__ void quiver_union_ids(const int8_t* __restrict__ ids, int64_t size, const int64_t* __restrict__ at,
                                            int64_t n, int64_t first, int8_t* __restrict__ out) {
#pragma unroll
    for (int u = 0; u < unroll; u++) {
        const int64_t j = item(u);
        if (j >= n) return;
        const int64_t i = __ldg(at + j);
        out[j] = i < 0 ? (int8_t)first : __ldg((const signed char*)ids + i);
    }
}

// mask[j] = whether ids[j] is the type code of a child. If so, out[j] = the position in
// that child of element at[j], otherwise -1, and -1 for -1. A position outside the child's
// `extent` elements lowers the flag to j.
extern "C" __global__ void quiver_union_child(const int8_t* __restrict__ ids, const int32_t* __restrict__ offsets,
                                              int64_t size, const int64_t* __restrict__ at, int64_t n, int64_t code,
                                              int64_t extent, uint8_t* __restrict__ mask, int64_t* __restrict__ out,
                                              unsigned long long* flag) {
#pragma unroll
    for (int u = 0; u < unroll; u++) {
        const int64_t j = item(u);
        if (j >= n) return;
        const int64_t i = __ldg(at + j);
        const bool ours = ids[j] == (int8_t)code;
        int64_t position = -1;
        if (ours && i >= 0) {
            position = __ldg(offsets + i);
            if ((uint64_t)position >= (uint64_t)extent) atomicMin(flag, (unsigned long long)j);
        }
        mask[j] = ours;
        out[j] = position;
    }
}

// out[positions[k]] = k for 0 <= k < n.
extern "C" __global__ void quiver_union_ranks(const int64_t* __restrict__ positions, int64_t n, int32_t* __restrict__ out,
                                              int64_t size) {
#pragma unroll
    for (int u = 0; u < unroll; u++) {
        const int64_t k = item(u);
        if (k >= n) return;
        out[__ldg(positions + k)] = (int32_t)k;
    }
}

// out[j] = the run of element offset + at[j], or of offset + j without indices: the first
// run with a greater end, or the last run; -1 for -1.
template <typename E>
__device__ __forceinline__ void find_runs(const E* __restrict__ ends, int64_t runs, int64_t offset,
                                          const int64_t* __restrict__ at, int64_t n, int64_t* __restrict__ out) {
#pragma unroll 1
    for (int u = 0; u < unroll; u++) {
        const int64_t j = item(u);
        if (j >= n) return;
        const int64_t i = at == nullptr ? j : __ldg(at + j);
        int64_t low = -1;
        if (i >= 0) {
            int64_t high = runs - 1;  // the run is one of [low, high]
            low = 0;
            while (low < high) {
                const int64_t middle = (low + high) / 2;
                if ((int64_t)__ldg(ends + middle) > offset + i) high = middle;
                else low = middle + 1;
            }
        }
        out[j] = low;
    }
}

// out[j] = whether at[j] differs from at[j-1]; true for j = 0.
extern "C" __global__ void quiver_run_starts(const int64_t* __restrict__ at, int64_t n, uint8_t* __restrict__ out) {
#pragma unroll
    for (int u = 0; u < unroll; u++) {
        const int64_t j = item(u);
        if (j >= n) return;
        out[j] = j == 0 || __ldg(at + j) != __ldg(at + j - 1);
    }
}

// out[k] = begins[k+1], and `all` for the last of n.
template <typename E>
__device__ __forceinline__ void run_ends(const int64_t* __restrict__ begins, int64_t n, int64_t all, E* __restrict__ out) {
#pragma unroll
    for (int u = 0; u < unroll; u++) {
        const int64_t k = item(u);
        if (k >= n) return;
        out[k] = (E)(k + 1 < n ? __ldg(begins + k + 1) : all);
    }
}

#define RUNS(BITS)                                                                                              \
    extern "C" __global__ void quiver_find_runs_##BITS(const int##BITS##_t* ends, int64_t runs, int64_t offset, \
                                                       const int64_t* at, int64_t n, int64_t* out) {            \
        find_runs(ends, runs, offset, at, n, out);                                                              \
    }                                                                                                           \
    extern "C" __global__ void quiver_run_ends_##BITS(const int64_t* begins, int64_t n, int64_t all,            \
                                                      int##BITS##_t* out) {                                     \
        run_ends(begins, n, all, out);                                                                          \
    }

RUNS(16)
RUNS(32)
RUNS(64)
