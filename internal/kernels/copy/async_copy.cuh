// Asynchronous copies from global to shared memory.

#pragma once
#include <stdint.h>

// Copies 16 bytes to shared memory, without registers from compute capability 8.0 on. The
// hint fetches the surrounding 128 bytes, which other threads read soon.
__device__ __forceinline__ void copy_async(uint4* to, const uint4* from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from));
#else
    *to = __ldg(from);
#endif
}
__device__ __forceinline__ void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
