// The plans of kernels that move units from one layout to another. The structs
// are those of internal/moves.

#pragma once
#include <stdint.h>

constexpr int move_axes = 16;

// An axis adds a step of bytes for each so many items, of less than 2^31: those
// are item*magic>>32>>shift. The first axis adds one for each item.
struct Axis {
    int64_t every, dst, src;
    uint32_t magic, shift;
};

// Where an item over some axes is in an operand.
__device__ __forceinline__ int64_t place(const Axis* axes, int count, uint32_t item, int64_t Axis::* step) {
    if (count == 0) return 0;
    int64_t at = item * (axes[0].*step);
    for (int k = 1; k < count; k++) at += (__umulhi(item, axes[k].magic) >> axes[k].shift) * (axes[k].*step);
    return at;
}

// Units moved through tiles in shared memory, where the axes that vary fastest in
// the source and in the destination differ: threads side by side read units side
// by side of the one, and write those of the other. Side A of a tile is near in
// the destination, B in the source.
struct Tiles {
    int32_t items_a, items_b;
    int32_t axes_a, axes_b, batch;
    int32_t chunks_a, chunks_b;  // tiles along each side
    int32_t halo;                // see internal/moves
    int32_t log_a, log_b;        // of tiles that are made to measure
    int32_t places;              // of the batch
    int32_t side_b;              // of tiles of matrices
    uint32_t magic, shift;       // to divide by the items of A, or their bytes
    Axis axes[move_axes];        // of A, of B, and of the batch
};

struct Tile {
    int a0, b0;  // the first item of each side, but for the halo
    int64_t dst, src;
};

// The tile of a block. Blocks side by side share sectors of the destination.
__device__ __forceinline__ Tile tile_of(const Tiles& t, int side_a, int side_b) {
    const uint32_t rest = blockIdx.x / t.chunks_a, batch = rest / t.chunks_b;
    const Axis* axes = t.axes + t.axes_a + t.axes_b;
    return {(int)(blockIdx.x - rest * t.chunks_a) * side_a, (int)(rest - batch * t.chunks_b) * side_b,
            place(axes, t.batch, batch, &Axis::dst), place(axes, t.batch, batch, &Axis::src)};
}

constexpr int block = 256;
constexpr uint32_t sector = 32;
