// Gathers elements by index, in the order of the result.
//
// Each random read costs a sector of memory and opens a row of DRAM, so the number of reads
// in flight determines the speed. Indices and results are used once; streaming loads and
// stores leave the cache to the random reads.

#include "common/walk.cuh"

// out[j] = src[indices[j]] for 0 <= j < n. A bad index lowers the flag to first + j.
template <typename T, typename I>
__device__ __forceinline__ void take(const T* __restrict__ src, const I* __restrict__ indices, T* __restrict__ out,
                                     int64_t n, int64_t extent, int64_t first, unsigned long long* flag) {
    const int64_t step = blockDim.x;
    const int64_t item = blockIdx.x * (step * unroll) + threadIdx.x;
    if (item - threadIdx.x + step * unroll <= n) {
        I i[unroll];
        T v[unroll];
#pragma unroll
        for (int u = 0; u < unroll; u++) i[u] = __ldcs(indices + item + u * step);
#pragma unroll
        for (int u = 0; u < unroll; u++) v[u] = __ldg(src + resolve(i[u], extent, first + item + u * step, flag));
#pragma unroll
        for (int u = 0; u < unroll; u++) __stcs(out + item + u * step, v[u]);
        return;
    }
#pragma unroll 1
    for (int64_t j = item; j < n; j += step) out[j] = src[resolve(indices[j], extent, first + j, flag)];
}

// The same for operands of any strides: out[item] = the element at w.data plus step times
// the item's index. A bad index lowers the flag to first + item.
template <typename T, typename I>
__device__ __forceinline__ void gather(const uint8_t* __restrict__ src, const uint8_t* __restrict__ indices,
                                       T* __restrict__ out, const Walk& w, int64_t extent, int64_t step, int64_t first,
                                       unsigned long long* flag) {
    const uint32_t item = first_item();
    int64_t data[unroll] = {}, index[unroll] = {};
    locate(w, [&](int k, int u, int64_t i) {
        data[u] += i * w.data[k];
        index[u] += i * w.index[k];
    });
    I i[unroll];
    T v[unroll];
#pragma unroll
    for (int u = 0; u < unroll; u++) i[u] = __ldg((const I*)(indices + index[u]));
#pragma unroll
    for (int u = 0; u < unroll; u++)
        v[u] = __ldg((const T*)(src + data[u] + step * resolve(i[u], extent, first + item + u * blockDim.x, flag)));
#pragma unroll
    for (int u = 0; u < unroll; u++)
        if (is_item(w, u)) __stcs(out + item + u * blockDim.x, v[u]);
}

#define TAKE(WIDTH, T, BITS)                                                                                          \
    extern "C" __global__ void quiver_take_##WIDTH##_i##BITS(const T* src, const int##BITS##_t* indices, T* out,      \
                                                             int64_t n, int64_t extent, int64_t first,                \
                                                             unsigned long long* flag) {                              \
        take(src, indices, out, n, extent, first, flag);                                                              \
    }                                                                                                                 \
    extern "C" __global__ void quiver_gather_##WIDTH##_i##BITS(                                                       \
        const uint8_t* src, const uint8_t* indices, T* out, const __grid_constant__ Walk w, int64_t extent,           \
        int64_t step, int64_t first, unsigned long long* flag) {                                                      \
        gather<T, int##BITS##_t>(src, indices, out, w, extent, step, first, flag);                                    \
    }

TAKE(1, uint8_t, 32)
TAKE(1, uint8_t, 64)
TAKE(2, uint16_t, 32)
TAKE(2, uint16_t, 64)
TAKE(4, uint32_t, 32)
TAKE(4, uint32_t, 64)
TAKE(8, uint2, 32)
TAKE(8, uint2, 64)
TAKE(16, uint4, 32)
TAKE(16, uint4, 64)
