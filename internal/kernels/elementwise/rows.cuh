// Elementwise operands that are rows of whole vectors, as in broadcasting of large arrays.
// Little is computed per element, so that even comparisons, which write little, reach the
// speed of memory.

#pragma once
#include "elementwise/nest.cuh"

// The items of a thread: the offsets into the operands, and whether the item exists.
template <int U> struct Items {
    int64_t offset[4][U];
    bool there[U];
};

template <int V, int U, int Operands> __device__ __forceinline__ void find_rows(const Nest& p, Items<U>& at) {
#pragma unroll
    for (int u = 0; u < U; u++) {
        const uint32_t i = (blockIdx.x * U + u) * block_threads + threadIdx.x;
        at.there[u] = i < p.items;
        int32_t row = (__umulhi(i, p.magic[middle_axes]) + i) >> p.shift[middle_axes];
        const int32_t first = (i - row * p.per_row) * V;
#pragma unroll
        for (int o = 0; o < Operands; o++) at.offset[o][u] = (int64_t)first * p.inner[o];
#pragma unroll 1
        for (int a = 0; a < p.middles; a++) {
            const int32_t next = (__umulhi(row, p.magic[a]) + row) >> p.shift[a];
            const int32_t index = row - next * p.extent[a];
#pragma unroll
            for (int o = 0; o < Operands; o++) at.offset[o][u] += (int64_t)index * p.middle[o][a];
            row = next;
        }
#pragma unroll
        for (int o = 0; o < Operands; o++) at.offset[o][u] += (int64_t)row * p.outer[o];
    }
}

// fetch loads operand o; the loads of all operands start before the first is needed. spread
// expands one element per row to vectors.
template <class T, int V, int U>
__device__ __forceinline__ void fetch(const Nest& p, int o, const char* base, const Items<U>& at, Elements<T, U * V>& v,
                                      T (&one)[U]) {
    if (p.kind[o] == kind_run) {
#pragma unroll
        for (int u = 0; u < U; u++)
            if (at.there[u]) v.template read<V>(u, base + at.offset[o][u]);
    } else if (p.kind[o] == kind_same) {
#pragma unroll
        for (int u = 0; u < U; u++)
            if (at.there[u]) one[u] = *(const T*)(base + at.offset[o][u]);
    }
}

template <class T, int V, int U>
__device__ __forceinline__ void spread(const Nest& p, int o, Elements<T, U * V>& v, const T (&one)[U]) {
    if (p.kind[o] == kind_run) return;
    const bool scalar = p.kind[o] == kind_scalar;
    const T s = scalar_as<T>(p.scalar[o - 1]);
#pragma unroll
    for (int u = 0; u < U; u++) v.template fill<V>(u, scalar ? s : one[u]);
}

template <class T, int V, int U>
__device__ __forceinline__ void put_rows(char* out, const Items<U>& at, const Elements<T, U * V>& r) {
#pragma unroll
    for (int u = 0; u < U; u++)
        if (at.there[u]) r.template write<V>(u, out + at.offset[0][u]);
}
