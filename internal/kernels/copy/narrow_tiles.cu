// Copies units through tiles of 2^log_a by 2^log_b items, for nests that have few items
// along a side or gaps.

#include "copy/plan.cuh"

constexpr int longest = 512;

template <typename T>
__device__ __forceinline__ void copy_narrow_tile(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const Tiles& t) {
    constexpr int units = sizeof(T) < 4 ? 4096 : 16384 / sizeof(T), held = units / block < 8 ? units / block : 8;
    __shared__ T tile[units + longest];  // the pitch is odd, so that a column is in different banks
    __shared__ int64_t from_a[longest], from_b[longest], to_a[longest], to_b[longest];
    const int side_a = 1 << t.log_a, side_b = 1 << t.log_b, pitch = side_b + 1;
    const Tile s = tile_of(t, side_a, side_b);
    const int a0 = s.a0, rows = min(side_a, t.items_a - a0), columns = min(side_b, t.items_b - s.b0);
    for (int i = threadIdx.x; i < rows; i += block) {
        from_a[i] = offset_of(t.axes, t.axes_a, a0 + i, &Axis::src);
        to_a[i] = offset_of(t.axes, t.axes_a, a0 + i, &Axis::dst);
    }
    for (int i = threadIdx.x; i < columns; i += block) {
        from_b[i] = offset_of(t.axes + t.axes_a, t.axes_b, s.b0 + i, &Axis::src);
        to_b[i] = offset_of(t.axes + t.axes_a, t.axes_b, s.b0 + i, &Axis::dst);
    }
    src += s.src;
    dst += s.dst;
    __syncthreads();
#pragma unroll held
    for (int i = threadIdx.x; i < side_a << t.log_b; i += block) {
        const int a = i >> t.log_b, b = i & (side_b - 1);
        if (a < rows && b < columns) tile[a * pitch + b] = __ldg((const T*)(src + from_a[a] + from_b[b]));
    }
    __syncthreads();
#pragma unroll held
    for (int i = threadIdx.x; i < side_b << t.log_a; i += block) {
        const int b = i >> t.log_a, a = i & (side_a - 1);
        if (a < rows && b < columns) *(T*)(dst + to_a[a] + to_b[b]) = tile[a * pitch + b];
    }
}

#define NARROW_TILES(WIDTH, T)                                                                                         \
    extern "C" __global__ void __launch_bounds__(block)                                                        \
        quiver_narrow_tiles_##WIDTH(uint8_t* dst, const uint8_t* src, const __grid_constant__ Tiles t) {               \
        copy_narrow_tile<T>(dst, src, t);                                                                             \
    }

NARROW_TILES(1, uint8_t)
NARROW_TILES(2, uint16_t)
NARROW_TILES(4, uint32_t)
NARROW_TILES(8, uint2)
NARROW_TILES(16, uint4)
