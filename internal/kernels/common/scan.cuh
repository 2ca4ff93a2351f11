// Prefix sums over the threads of a block.

#pragma once
#include "common/warp.cuh"

// Returns the sum of v over the threads before this one; all = the sum over the block.
template <int threads, typename T>
__device__ __forceinline__ T sum_before(T v, T& all) {
    __shared__ T sums[threads / warp_size];
    T sum = v;
#pragma unroll
    for (int step = 1; step < warp_size; step *= 2) {
        const T other = __shfl_up_sync(~0u, sum, step);
        if (lane() >= step) sum += other;
    }
    if (lane() == warp_size - 1) sums[threadIdx.x / warp_size] = sum;
    __syncthreads();
    T before = 0;
    all = 0;
#pragma unroll
    for (int w = 0; w < threads / warp_size; w++) {
        if (w < (int)threadIdx.x / warp_size) before += sums[w];
        all += sums[w];
    }
    __syncthreads();
    return before + sum - v;
}
