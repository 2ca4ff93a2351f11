// Nests of axes along which two arrays are traversed, with 64-bit indices.

#pragma once
#include <stdint.h>

constexpr int block_threads = 256;
constexpr int max_axes = 16;

// A divisor of an index: (high word of index * magic) >> shift. Magic 0 means division by
// 1.
struct Divisor {
    int64_t by;
    uint64_t magic;
    int64_t shift;
};

struct Axis {
    Divisor extent;
    int64_t in, out;  // bytes from one element of either array to the next
};

__device__ __forceinline__ int64_t quotient(int64_t i, const Divisor& d) {
    return d.magic ? (int64_t)(__umul64hi((uint64_t)i, d.magic) >> d.shift) : i;
}

// Adds the offsets of index i of a nest to from and to. Returns the index along the
// innermost axis.
__device__ __forceinline__ int64_t locate(const Axis* axes, int n, int64_t i, int64_t& from, int64_t& to) {
    int64_t innermost = 0;
#pragma unroll 1
    for (int a = 0; a < n; a++) {
        const int64_t next = quotient(i, axes[a].extent);
        const int64_t index = i - next * axes[a].extent.by;
        if (a == 0) innermost = index;
        from += index * axes[a].in;
        to += index * axes[a].out;
        i = next;
    }
    return innermost;
}

template <class T, int V> struct alignas(V * sizeof(T)) Vector { T v[V]; };
