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
    int32_t strip;               // tiles along A that one block goes through
    int32_t halo;                // see internal/moves
    int32_t log_a, log_b;        // of tiles that are made to measure
    int32_t places;              // of the batch
    Axis axes[move_axes];        // of A, of B, and of the batch
};

struct Strip {
    int first, last;  // tiles along A
    int b0;           // the first item of B
    int64_t dst, src;
};

// The strip of tiles of a block. Blocks side by side share sectors of the source,
// the tiles of a strip those of the destination.
__device__ __forceinline__ Strip strip_of(const Tiles& t, int side_b) {
    const uint32_t strips = (t.chunks_a - 1) / t.strip + 1, rest = blockIdx.x / t.chunks_b, batch = rest / strips;
    const Axis* axes = t.axes + t.axes_a + t.axes_b;
    Strip s;
    s.b0 = (blockIdx.x - rest * t.chunks_b) * side_b;
    s.first = (rest - batch * strips) * t.strip;
    s.last = min(s.first + t.strip, t.chunks_a);
    s.dst = place(axes, t.batch, batch, &Axis::dst);
    s.src = place(axes, t.batch, batch, &Axis::src);
    return s;
}

constexpr int block = 256;
constexpr uint32_t sector = 32;
