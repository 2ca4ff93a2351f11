// The buffers of a batch. All inputs lie in one allocation and all outputs in another.
// A kernel never reads a byte outside the 16-byte words that contain an item's input, and
// never writes a byte outside its output.

#pragma once
#include "common/warp.cuh"

struct Item {
    int64_t src, src_size;  // the input: position and size in bytes, at most 2^31 - 1
    int64_t dst, dst_size;  // the output: position, and the number of bytes that it may have
};

// What became of an item. The values of status are in compress/status.go.
enum Status : int32_t { ok, truncated, too_large, bad_offset, corrupt, bad_checksum, unsupported };

struct Result {
    int64_t size;  // of the output in bytes, if status is ok
    int32_t status, reserved;
};

// Returns 4 bytes at any address, from the aligned words that contain them.
__device__ __forceinline__ uint32_t load_word(const uint8_t* p) {
    const uintptr_t at = (uintptr_t)p, shift = at & 3;
    const uint32_t* word = (const uint32_t*)(at - shift);
    const uint32_t low = word[0];
    return shift ? __funnelshift_r(low, word[1], 8 * shift) : low;
}

// A barrier for some warps of a block.
#ifdef __CUDACC__
__device__ __forceinline__ void sync_threads(int barrier, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory"); }
#endif
