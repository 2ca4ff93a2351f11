// The plans of the copy kernels, which copy units of bytes from one layout to another. The
// structs must match those of internal/stridedcopy.

#pragma once
#include <stdint.h>

constexpr int plan_axes = 16;

// An axis of a plan adds a step of bytes every `every` items; item / every is
// item*magic>>32>>shift for items below 2^31. The first axis has every = 1.
struct Axis {
    int64_t every, dst, src;
    uint32_t magic, shift;
};

// Divides a number below 2^31. Without magic the divisor is 1.
struct Divide {
    uint32_t magic, shift;
    __device__ __forceinline__ uint32_t operator()(uint32_t i) const { return magic ? __umulhi(i, magic) >> shift : i; }
};

// Returns the offset of an item in an operand; step selects the operand.
__device__ __forceinline__ int64_t offset_of(const Axis* axes, int count, uint32_t item, int64_t Axis::* step) {
    if (count == 0) return 0;
    int64_t at = item * (axes[0].*step);
    for (int k = 1; k < count; k++) at += (__umulhi(item, axes[k].magic) >> axes[k].shift) * (axes[k].*step);
    return at;
}

// The plan of kernels that copy through tiles in shared memory, for nests whose fastest
// axis differs between source and destination. Neighbouring threads read neighbouring units
// of the source and write neighbouring units of the destination. Side A of a tile has units
// that are close in the destination, side B units that are close in the source.
struct Tiles {
    int32_t items_a, items_b;
    int32_t axes_a, axes_b, batch;
    int32_t chunks_a, chunks_b;  // tiles along each side
    int32_t halo;                // see internal/stridedcopy
    int32_t log_a, log_b;        // of narrow tiles: log2 of the sides
    int32_t batch_items;              // items of the batch axes
    int32_t side_b;              // of run tiles and of matrix tiles
    Divide by;                   // see internal/stridedcopy
    int32_t side_a;              // of run tiles
    Divide by_chunks_a, by_chunks_b;
    int32_t group, shared;       // see internal/stridedcopy
    int64_t end;                 // of the source
    Axis axes[plan_axes];        // of A, of B, and of the batch
};

struct Tile {
    int a0, b0;  // the first item of each side, without the halo
    int64_t dst, src;
};

// Returns the tile of a block. Neighbouring blocks share sectors of the destination; blocks
// of a group also share sectors of the source.
__device__ __forceinline__ Tile tile_of(const Tiles& t, int side_a, int side_b) {
    const uint32_t rest = t.by_chunks_a(blockIdx.x), batch = t.by_chunks_b(rest);
    const Axis* axes = t.axes + t.axes_a + t.axes_b;
    int a = blockIdx.x - rest * t.chunks_a, b = rest - batch * t.chunks_b;
    if (t.group) {
        const int i = blockIdx.x - batch * (t.chunks_a * t.chunks_b), first = i / (t.group * t.chunks_b) * t.group;
        const int wide = min(t.group, t.chunks_a - first), at = i - first * t.chunks_b;
        b = at / wide;
        a = first + at - b * wide;
    }
    return {a * side_a, b * side_b, offset_of(axes, t.batch, batch, &Axis::dst), offset_of(axes, t.batch, batch, &Axis::src)};
}

// Reads from a row of any alignment. The hint fetches the surrounding 256 bytes, which
// neighbouring blocks read in part.
template <typename T> __device__ __forceinline__ T read_near(const T* p) {
#if __CUDA_ARCH__ >= 800
    T v;
    if constexpr (sizeof(T) == 4) asm volatile("ld.global.nc.L2::256B.b32 %0, [%1];" : "=r"(v) : "l"(p));
    else if constexpr (sizeof(T) == 8) asm volatile("ld.global.nc.L2::256B.v2.b32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
    else asm volatile("ld.global.nc.L2::256B.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
#else
    return __ldg(p);
#endif
}

constexpr int block = 256;
constexpr uint32_t sector = 32;
