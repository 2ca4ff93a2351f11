// Writing one value where a mask is true.

#include <stdint.h>

// For each i < n with mask[i] != 0, writes `width` bytes at values + i*width:
// the 8 bytes of pattern, little-endian, over and over.
extern "C" __global__ void quiver_fill_where(uint8_t* __restrict__ values, int64_t width,
                                             const uint8_t* __restrict__ mask, int64_t n, uint64_t pattern) {
    const int64_t threads = (int64_t)gridDim.x * blockDim.x;
    const bool whole = width == 8 && ((uintptr_t)values & 7) == 0;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads) {
        if (!mask[i]) continue;
        if (whole) {
            ((uint64_t*)values)[i] = pattern;
            continue;
        }
        for (int64_t b = 0; b < width; b++) values[i * width + b] = (uint8_t)(pattern >> (8 * (b & 7)));
    }
}
