// Counting sort by buckets, in blocks of `threads` threads.

#pragma once
#include "common/warp.cuh"

constexpr int threads = 512;
constexpr int most_buckets = 256;

// Replaces count[0 .. most_buckets) by its exclusive prefix sums.
__device__ __forceinline__ void sum_counts(uint32_t* count) {
    __shared__ uint32_t sums[most_buckets / warp_size];
    uint32_t own = 0, sum = 0;
    if (threadIdx.x < most_buckets) {
        sum = own = count[threadIdx.x];
#pragma unroll
        for (int step = 1; step < warp_size; step *= 2) {
            const uint32_t other = __shfl_up_sync(~0u, sum, step);
            if (lane() >= step) sum += other;
        }
        if (lane() == warp_size - 1) sums[threadIdx.x / warp_size] = sum;
    }
    __syncthreads();
    if (threadIdx.x < most_buckets) {
        for (int w = 0; w < (int)threadIdx.x / warp_size; w++) sum += sums[w];
        count[threadIdx.x] = sum - own;
    }
    __syncthreads();
}
