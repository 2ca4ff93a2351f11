// Loads and stores of elementwise operands of any layout. A thread computes a vector of
// neighbouring elements, of 16 bytes where the element is widest, or a few elements.
// Branches between ways to load and to compute are the same for the whole grid.

#pragma once
#include "common/element.cuh"

// On an H200, blocks of 128 threads are 1 percent faster than blocks of 256.
constexpr int block_threads = 128;
constexpr int middle_axes = 6;

enum Kind : int32_t {
    kind_scalar,  // one value, in the launch parameters
    kind_run,     // of the kernel's type, contiguous, vectors aligned
    kind_same,    // of the kernel's type, one element per row
    kind_gather,  // of any type that promotes to the kernel's, any strides
};

// All operands are contiguous in C order and aligned to vectors, or scalars. Operands are
// numbered out, x, y, z.
struct Dense {
    int64_t elements;
    int32_t op;
    int32_t kind[4];
    int32_t unused;
    uint64_t scalar[3][2];  // x, y, z in their types
};

// Operands along a nest of axes. A row lies along the inner axis and is divided into
// vectors, the last of which may be shorter; an item is a vector. Steps are in bytes. An
// index is divided by extent[a] as (high word of index * magic[a] + index) >> shift[a]; the
// last magic and shift are for the vectors of a row.
struct Nest {
    uint64_t scalar[3][2];
    int32_t inner[4], outer[4];
    int32_t middle[4][middle_axes];  // innermost first
    uint32_t extent[middle_axes];
    uint32_t magic[middle_axes + 1];
    uint8_t shift[middle_axes + 1];
    uint8_t middles;  // axes between the inner and the outer one
    int32_t kind[4];
    uint8_t type[4];
    uint32_t row;  // elements
    uint32_t per_row;
    uint32_t items;
    int32_t op;
};

// The items of a thread.
template <int U> struct Location {
    int64_t offset[4][U];  // bytes, per operand
    int valid[U];          // elements per vector
    bool full;             // all vectors are whole
};

template <int V, int U, int Operands>
__device__ __forceinline__ void find(const Dense& p, const int (&size)[4], Location<U>& at) {
    at.full = true;
#pragma unroll
    for (int u = 0; u < U; u++) {
        const int64_t first = (((int64_t)blockIdx.x * U + u) * block_threads + threadIdx.x) * V;
        const int64_t left = p.elements - first;
        at.valid[u] = left >= V ? V : left > 0 ? (int)left : 0;
        at.full = at.full && left >= V;
#pragma unroll
        for (int o = 0; o < Operands; o++) at.offset[o][u] = first * size[o];
    }
}

template <int V, int U, int Operands>
__device__ __forceinline__ void find(const Nest& p, const int (&)[4], Location<U>& at) {
    at.full = true;
#pragma unroll
    for (int u = 0; u < U; u++) {
        const uint32_t i = (blockIdx.x * U + u) * block_threads + threadIdx.x;
        int32_t row = (__umulhi(i, p.magic[middle_axes]) + i) >> p.shift[middle_axes];
        const int32_t first = (i - row * p.per_row) * V;
        const int left = i < p.items ? (int)p.row - first : 0;
        at.valid[u] = left >= V ? V : left;
        at.full = at.full && left >= V;
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

template <class S, class T, int V, int U>
__device__ __forceinline__ void gather(const char* base, int64_t step, const int64_t (&offset)[U], const int (&valid)[U],
                                       Elements<T, U * V>& v) {
#pragma unroll
    for (int u = 0; u < U; u++)
#pragma unroll
        for (int k = 0; k < V; k++)
            if (k < valid[u]) v.set(u * V + k, Convert<T, S>::of(*(const S*)(base + offset[u] + k * step)));
}

template <class T, int V, int U>
__device__ __forceinline__ void gather_any(uint8_t type, const char* base, int64_t step, const int64_t (&offset)[U],
                                           const int (&valid)[U], Elements<T, U * V>& v) {
#define FROM(code, S) \
    case code: if constexpr (promotes<S, T>()) gather<S, T, V, U>(base, step, offset, valid, v); break;
    switch (type) {
    case type_bool:
    FROM(type_u8, uint8_t)
    FROM(type_i8, int8_t)
    FROM(type_i16, int16_t)
    FROM(type_u16, uint16_t)
    FROM(type_i32, int32_t)
    FROM(type_u32, uint32_t)
    FROM(type_i64, int64_t)
    FROM(type_u64, uint64_t)
    FROM(type_f16, f16)
    FROM(type_bf16, bf16)
    FROM(type_f32, float)
    FROM(type_f64, double)
    FROM(type_c64, c64)
    FROM(type_c128, c128)
    }
#undef FROM
}

template <class T> __device__ __forceinline__ T scalar_as(const uint64_t (&bits)[2]) {
    if constexpr (sizeof(T) < 4) {
        return FromBits<T>::of((uint32_t)bits[0]);
    } else {
        union { uint64_t bits[2]; T v; } s = {{bits[0], bits[1]}};
        return s.v;
    }
}

// Loads the elements of operand o: 1, 2, 3 for x, y, z.
template <class T, int V, int U, class P>
__device__ __forceinline__ void load(const P& p, int o, const char* base, const Location<U>& at, Elements<T, U * V>& v) {
    const int32_t kind = p.kind[o];
    if (kind == kind_run && at.full) {
#pragma unroll
        for (int u = 0; u < U; u++) v.template read<V>(u, base + at.offset[o][u]);
    } else if (kind == kind_scalar) {
        const T s = scalar_as<T>(p.scalar[o - 1]);
#pragma unroll
        for (int u = 0; u < U; u++) v.template fill<V>(u, s);
    } else if constexpr (sizeof(P) == sizeof(Dense)) {
        gather<T, T, V, U>(base, sizeof(T), at.offset[o], at.valid, v);
    } else {
        gather_any<T, V, U>(p.type[o], base, p.inner[o], at.offset[o], at.valid, v);
    }
}

template <class S, class T, int V, int U>
__device__ __forceinline__ void scatter(char* base, int64_t step, const int64_t (&offset)[U], const int (&valid)[U],
                                        const Elements<T, U * V>& v) {
#pragma unroll
    for (int u = 0; u < U; u++)
#pragma unroll
        for (int k = 0; k < V; k++)
            if (k < valid[u]) *(S*)(base + offset[u] + k * step) = Convert<S, T>::of(v[u * V + k]);
}

template <class T, int V, int U, class P>
__device__ __forceinline__ void store(const P& p, char* base, const Location<U>& at, const Elements<T, U * V>& v) {
    if (p.kind[0] == kind_run && at.full) {
#pragma unroll
        for (int u = 0; u < U; u++) v.template write<V>(u, base + at.offset[0][u]);
    } else if constexpr (sizeof(P) == sizeof(Dense)) {
        scatter<T, T, V, U>(base, sizeof(T), at.offset[0], at.valid, v);
    } else if constexpr (sizeof(T) == 4 && is_float<T>) {
        // NumPy computes some functions of small integers in float16; here they are
        // computed in float32.
        if (p.type[0] == type_f16) scatter<f16, T, V, U>(base, p.inner[0], at.offset[0], at.valid, v);
        else if (p.type[0] == type_bf16) scatter<bf16, T, V, U>(base, p.inner[0], at.offset[0], at.valid, v);
        else scatter<T, T, V, U>(base, p.inner[0], at.offset[0], at.valid, v);
    } else {
        scatter<T, T, V, U>(base, p.inner[0], at.offset[0], at.valid, v);
    }
}
