// Units moved one by one, in the order in which they lie in the destination.

#include "move.cuh"

struct Rows {
    int32_t items, length;  // in all, and of a row
    int64_t dst_step, src_step;
    uint32_t magic, shift;  // to divide by length
    int32_t count, unused;
    Axis axes[move_axes];  // over which rows are counted
};

constexpr int unroll = 4, block = 256;

// A block moves so many units; where their rows begin is found once a row. The
// units of a thread are a block apart, so that threads side by side move units
// side by side, several at once.
template <typename T>
__device__ __forceinline__ void move_rows(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const Rows& r) {
    constexpr uint32_t tile = unroll * block;
    __shared__ int64_t to[tile + 1], from[tile + 1];
    const uint32_t first = blockIdx.x * tile, items = min(tile, (uint32_t)r.items - first);
    const bool single = r.length < 2;
    const uint32_t row = single ? first : __umulhi(first, r.magic) >> r.shift, skip = first - row * (uint32_t)r.length;
    const uint32_t rows = single ? items : (__umulhi(skip + items - 1, r.magic) >> r.shift) + 1;
    for (uint32_t i = threadIdx.x; i < rows; i += block) place(r.axes, r.count, row + i, to[i], from[i]);
    __syncthreads();
    T v[unroll];
    T* out[unroll];
#pragma unroll
    for (int u = 0; u < unroll; u++) {
        const uint32_t i = skip + min(threadIdx.x + u * block, items - 1);
        const uint32_t q = single ? i : __umulhi(i, r.magic) >> r.shift;
        const int64_t at = i - q * (uint32_t)r.length;
        v[u] = __ldg((const T*)(src + from[q] + at * r.src_step));
        out[u] = (T*)(dst + to[q] + at * r.dst_step);
    }
#pragma unroll
    for (int u = 0; u < unroll; u++)
        if (threadIdx.x + u * block < items) *out[u] = v[u];
}

#define ROWS(WIDTH, T)                                                                                              \
    extern "C" __global__ void __launch_bounds__(block)                                                             \
        quiver_rows_##WIDTH(uint8_t* dst, const uint8_t* src, const __grid_constant__ Rows r) {                     \
        move_rows<T>(dst, src, r);                                                                                  \
    }

ROWS(1, uint8_t)
ROWS(2, uint16_t)
ROWS(4, uint32_t)
ROWS(8, uint2)
ROWS(16, uint4)
