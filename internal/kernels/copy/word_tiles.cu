// Copies units of 1 and 2 bytes through tiles, 8 bytes at a time. Sides A and B are gapless
// runs of the destination and of the source, in aligned words of 8 bytes. A thread reads a
// square of units and transposes it in registers.

#include "copy/plan.cuh"
#include "copy/transpose.cuh"

template <typename T>
__device__ __forceinline__ void copy_words(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const Tiles& t) {
    constexpr int size = sizeof(T), units = 8 / size;  // per word
    constexpr int side_a = 128, side_b = 32 * units, words = side_a / units, pitch = words + 1;
    constexpr int warps = block / 32, squares = words / warps;
    // Rows of unit i of the source's words are grouped, so that a warp writes squares to
    // different banks.
    __shared__ Line<8> tile[side_b * pitch];
    const Tile s = tile_of(t, side_a, side_b);
    const Axis *axes_a = t.axes, *axes_b = t.axes + t.axes_a;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, a0 = s.a0, b = s.b0 + lane * units;
    src += s.src + (int64_t)b * size;
    dst += s.dst + (int64_t)a0 * size;
#pragma unroll
    for (int k = 0; k < squares; k++) {
        const int word = warp + k * warps, a = a0 + word * units;
        Line<8> w[units];
#pragma unroll
        for (int i = 0; i < units; i++)
            if (b < t.items_b && a < t.items_a) *(uint2*)&w[i] = __ldg((const uint2*)(src + offset_of(axes_a, t.axes_a, a + i, &Axis::src)));
        transpose<size>(w);
#pragma unroll
        for (int i = 0; i < units; i++) tile[(i * 32 + lane) * pitch + word] = w[i];
    }
    __syncthreads();
    constexpr int rows = block / words;
    const int word = threadIdx.x % words, row0 = threadIdx.x / words;
#pragma unroll 8
    for (int k = 0; k < side_b / rows; k++) {
        const int row = row0 + k * rows;
        if (s.b0 + row < t.items_b && a0 + word * units < t.items_a)
            *(Line<8>*)(dst + offset_of(axes_b, t.axes_b, s.b0 + row, &Axis::dst) + word * 8) =
                tile[(row % units * 32 + row / units) * pitch + word];
    }
}

#define WORD_TILES(WIDTH, T)                                                                                        \
    extern "C" __global__ void __launch_bounds__(block)                                                        \
        quiver_word_tiles_##WIDTH(uint8_t* dst, const uint8_t* src, const __grid_constant__ Tiles t) {              \
        copy_words<T>(dst, src, t);                                                                            \
    }

WORD_TILES(1, uint8_t)
WORD_TILES(2, uint16_t)
