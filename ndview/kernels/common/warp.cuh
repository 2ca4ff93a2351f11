// Where a thread is. Kernels here give each warp a tile of neighbouring items:
// its threads take 32 neighbours at once, several times over, so that several
// loads of each thread are on their way at once. A block has whole warps, and a
// grid covers all items.

#pragma once
#include <stdint.h>

constexpr int warp_size = 32;

__device__ __forceinline__ int64_t thread_index() { return (int64_t)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ int64_t warp_index() { return thread_index() / warp_size; }
__device__ __forceinline__ int lane() { return threadIdx.x % warp_size; }
