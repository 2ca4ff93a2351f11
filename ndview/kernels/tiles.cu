// Units of 4, 8 and 16 bytes through tiles of which a block does a strip: while
// it writes one, the next is on its way.
//
// Where rows of the destination begin anywhere, each is written from one whole
// sector to another, since a sector that two tiles share costs as much as two. The
// tile's row then begins up to halo items earlier, which the tile before has read.

#include "move.cuh"

template <typename T, int side_a, int side_b, int most>
__device__ __forceinline__ void move_tiles(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const Tiles& t) {
    constexpr int size = sizeof(T), pitch = side_b + 1;  // odd: the reads of a column are of different banks
    constexpr int reads = block / side_b, writes = block / side_a, held = side_a / reads;
    // A tile between two places for the last rows of the tile before, which take
    // turns.
    __shared__ T tile[(side_a + 2 * most) * pitch];
    const Strip s = strip_of(t, side_b);
    const Axis *axes_a = t.axes, *axes_b = t.axes + t.axes_a;

    const int column = threadIdx.x % side_b, row0 = threadIdx.x / side_b;
    const int b = s.b0 + column;
    src += s.src + place(axes_b, t.axes_b, min(b, t.items_b - 1), &Axis::src);
    T next[held];
    const auto read = [&](int a0) {
#pragma unroll
        for (int k = 0; k < held; k++) {
            const int a = a0 + row0 + k * reads;
            if (b < t.items_b && a < t.items_a) next[k] = __ldg((const T*)(src + place(axes_a, t.axes_a, a, &Axis::src)));
        }
    };
    for (int row = row0; row < t.halo; row += reads) {
        const int a = s.first * side_a - t.halo + row;
        if (b < t.items_b && a >= 0 && a < t.items_a)
            tile[(most - t.halo + row) * pitch + column] = __ldg((const T*)(src + place(axes_a, t.axes_a, a, &Axis::src)));
    }
    read(s.first * side_a);

    dst += s.dst;
    const int at = threadIdx.x % side_a, b1 = threadIdx.x / side_a;
    for (int chunk = s.first, before = 0; chunk < s.last; chunk++) {
        const int after = before ? 0 : side_a + most;  // where the last rows go for the next tile
#pragma unroll
        for (int k = 0; k < held; k++) {
            const int row = row0 + k * reads;
            tile[(most + row) * pitch + column] = next[k];
            if (k * reads + reads > side_a - most && t.halo && row >= side_a - most) tile[(after + row - side_a + most) * pitch + column] = next[k];
        }
        __syncthreads();
        const int a0 = chunk * side_a;
        if (chunk + 1 < s.last) read(a0 + side_a);
        const int64_t lane = t.halo ? (int64_t)a0 * size : place(axes_a, t.axes_a, min(a0 + at, t.items_a - 1), &Axis::dst);
#pragma unroll
        for (int k = 0; k < side_b / writes; k++) {
            const int i = b1 + k * writes;
            uint8_t* to = dst + place(axes_b, t.axes_b, min(s.b0 + i, t.items_b - 1), &Axis::dst) + lane;
            int row = at;
            if (t.halo) {
                row -= ((uint32_t)(uintptr_t)to & (sector - 1)) / size;
                to += row * size;
            }
            const int line = row >= 0 ? most + row : before + most + row;
            if (s.b0 + i < t.items_b && (uint32_t)(a0 + row) < (uint32_t)t.items_a) *(T*)to = tile[line * pitch + i];
        }
        before = after;
        __syncthreads();
    }
}

#define TILES(WIDTH, T, SIDE_A, SIDE_B)                                                                        \
    extern "C" __global__ void __launch_bounds__(block, 4)                                                     \
        quiver_tiles_##WIDTH(uint8_t* dst, const uint8_t* src, const __grid_constant__ Tiles t) {              \
        move_tiles<T, SIDE_A, SIDE_B, sector / WIDTH - 1>(dst, src, t);                                        \
    }

TILES(4, uint32_t, 64, 64)
TILES(8, uint2, 64, 32)
TILES(16, uint4, 32, 32)
