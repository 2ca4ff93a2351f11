// Widening casts.

#include <stdint.h>

// out[i] = in[i] for 0 <= i < n.
extern "C" __global__ void quiver_widen_i32_i64(const int32_t* __restrict__ in, int64_t n, int64_t* __restrict__ out) {
    const int64_t threads = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads) out[i] = in[i];
}
