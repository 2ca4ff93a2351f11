// Indices of threads, warps and lanes. Kernels give each warp a tile of neighbouring items:
// its threads process 32 neighbours at a time, several times, so that each thread has
// several loads in flight. Blocks have whole warps, and the grid covers all items.

#pragma once
#include <stdint.h>

constexpr int warp_size = 32;

__device__ __forceinline__ int64_t thread_index() { return (int64_t)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ int64_t warp_index() { return thread_index() / warp_size; }
__device__ __forceinline__ int lane() { return threadIdx.x % warp_size; }
