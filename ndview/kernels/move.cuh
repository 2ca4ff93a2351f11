// The plans of kernels that move units from one layout to another. The structs
// are those of internal/moves.

#pragma once
#include <stdint.h>

constexpr int move_axes = 16;

// Items of less than 2^31 are divided by an extent of at least 2 as
// n*magic>>32>>shift. Steps are bytes.
struct Axis {
    int64_t extent, dst, src;
    uint32_t magic, shift;
};

// Where the item i over some axes, the fastest first, is in both operands.
__device__ __forceinline__ void place(const Axis* axes, int count, uint32_t i, int64_t& dst, int64_t& src) {
    dst = src = 0;
    for (int k = 0; k + 1 < count; k++) {
        const uint32_t q = __umulhi(i, axes[k].magic) >> axes[k].shift;
        const int64_t r = i - q * (uint32_t)axes[k].extent;
        dst += r * axes[k].dst;
        src += r * axes[k].src;
        i = q;
    }
    if (count > 0) {
        dst += i * axes[count - 1].dst;
        src += i * axes[count - 1].src;
    }
}
