// Upper and lower triangles of matrices, as NumPy's triu and tril.

#include "common/warp.cuh"

// Matrices of rows x columns, one after the other.
struct Triangle {
    int64_t vectors;  // of all matrices
    int64_t rows, columns;
    int64_t diagonal;
    int32_t upper;  // keep elements from the diagonal on; otherwise up to it
    int32_t vector; // elements of a vector; a row has a whole number of vectors
};

template <class T, int V> struct alignas(V * sizeof(T)) Vector { T v[V]; };

// out = in inside the triangle, 0 outside. Only elements inside are read; if out == in,
// only elements outside are written.
template <class T, int V> __device__ __forceinline__ void triangle(const T* in, T* out, const Triangle& p) {
    const int64_t i = thread_index();
    if (i >= p.vectors) return;
    const int64_t per_row = p.columns / V;
    int64_t row, column;
    if ((uint64_t)p.vectors >> 32) {
        row = i / per_row;
        column = i - row * per_row;
        row %= p.rows;
    } else {
        const uint32_t r = (uint32_t)i / (uint32_t)per_row;
        column = (uint32_t)i - r * (uint32_t)per_row;
        row = r % (uint32_t)p.rows;
    }
    column *= V;
    const int64_t edge = row + p.diagonal;  // the column of the diagonal
    const bool all = p.upper ? column >= edge : column + V - 1 <= edge;
    const bool none = p.upper ? column + V - 1 < edge : column > edge;
    if (all && in == out) return;
    Vector<T, V> v = {};
    if (!none) v = ((const Vector<T, V>*)in)[i];
    if (!all && !none) {
#pragma unroll
        for (int k = 0; k < V; k++)
            if (p.upper ? column + k < edge : column + k > edge) v.v[k] = T{};
    }
    ((Vector<T, V>*)out)[i] = v;
}

#define TRIANGLE(width, T, V)                                                                                   \
    extern "C" __global__ void quiver_triangle_##width(const T* in, T* out, const Triangle p) {                 \
        if (p.vector == 1) triangle<T, 1>(in, out, p);                                                          \
        else triangle<T, V>(in, out, p);                                                                        \
    }

TRIANGLE(1, uint8_t, 16)
TRIANGLE(2, uint16_t, 8)
TRIANGLE(4, uint32_t, 4)
TRIANGLE(8, uint64_t, 2)
TRIANGLE(16, ulonglong2, 1)
