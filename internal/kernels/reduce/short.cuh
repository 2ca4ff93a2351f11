// Reductions of short rows.

#pragma once
#include "reduce/plan.cuh"

constexpr int tile_bytes = 16 << 10;

// Contiguous rows with too few elements for a group of threads each. A block copies
// p.per_split of them to shared memory as neighbouring vectors; then groups of threads fold
// rows there.
template <class Op>
__device__ __forceinline__ void tiled_rows(const char* __restrict__ in, char* __restrict__ out, char* __restrict__ partials, const Plan& p) {
    using T = typename Op::In;
    constexpr int U = 4;
    __shared__ __align__(16) unsigned char memory[tile_bytes + 32];
    const int64_t first = blockIdx.x * p.per_split;
    const int rows = (int)min(p.per_split, p.outputs - first), length = (int)p.length;
    const char* from = in + first * p.kept[0].in;
    const int skew = (int)((uintptr_t)from & 15), end = skew + rows * (int)p.kept[0].in;
    // Vectors at the ends may include bytes of other rows or unmapped memory: those are not
    // read as vectors.
    const uint4* vectors = (const uint4*)(from - skew);
    uint4* copy = (uint4*)memory;
    for (int i = threadIdx.x; i < end / 16; i += U * block_threads) {
        uint4 v[U];
#pragma unroll
        for (int u = 0; u < U; u++)
            if (i + u * block_threads < end / 16 && (i + u * block_threads > 0 || skew == 0)) v[u] = vectors[i + u * block_threads];
#pragma unroll
        for (int u = 0; u < U; u++)
            if (i + u * block_threads < end / 16 && (i + u * block_threads > 0 || skew == 0)) copy[i + u * block_threads] = v[u];
    }
    const T* elements = (const T*)(from - skew);
    const int t = threadIdx.x, whole = end / 16 * (16 / (int)sizeof(T));
    if (skew > 0 && t < 16 / (int)sizeof(T) && t * (int)sizeof(T) >= skew && t * (int)sizeof(T) < end) ((T*)memory)[t] = elements[t];
    if (t < 16 / (int)sizeof(T) && (whole > 0 || skew == 0) && (whole + t) * (int)sizeof(T) < end) ((T*)memory)[whole + t] = elements[whole + t];
    __syncthreads();

    const int G = 1 << p.lanes, g = t & (G - 1), groups = block_threads >> p.lanes;
    const T* tile = (const T*)(memory + skew);
#pragma unroll 1
    for (int base = 0; base < rows; base += groups) {
        const int row = base + (t >> p.lanes);
        typename Op::Acc acc = Op::none();
        if (row < rows) {
            const T* at = tile + row * length;
            typename Op::template Held<1> held;
#pragma unroll 1
            for (int i = g, count = 0; i < length; i += U * G, count += U) {
                RowOf<T, 1> x[U];
#pragma unroll
                for (int u = 0; u < U; u++) {
                    memcpy(x[u].w, p.neutral, sizeof x[u].w);
                    if (i + u * G < length) load(x[u], (const char*)(at + i + u * G));
                }
                held.add(x, count, p.finish);
            }
            if (g < length) acc = held.of(0, g, G);
        }
#pragma unroll 1
        for (int l = 0; l < p.lanes; l++) acc = Op::merge(acc, shuffle(acc, 1 << l));
        if (g == 0 && row < rows) put<Op>(acc, out + (first + row) * p.kept[0].out, partials, first + row, p);
    }
}

// Contiguous rows of L elements, 2 or 4, that are aligned to 16 bytes and fill whole
// vectors. A thread reduces whole units: rows whose results make a vector, or that are one
// vector.
template <class Op, int L> __device__ __forceinline__ void short_rows_of(const char* __restrict__ in, char* __restrict__ out, const Plan& p) {
    using T = typename Op::In;
    using R = typename Op::Out;
    constexpr int rows = at_most(at_least(16 / (L * sizeof(T)), 1), 16 / sizeof(R));  // rows per unit
    constexpr int bytes = at_most(rows * L * sizeof(T), 16), N = rows * L * sizeof(T) / bytes;  // bytes per load, and loads per unit
    // If at least half of the traffic is writes, they should be in the order of addresses.
    constexpr int U = sizeof(R) >= L * sizeof(T) ? 1 : at_most(at_least(64 / (N * bytes), 1), 4);
    const int64_t units = p.outputs / rows, first = (int64_t)blockIdx.x * (U * block_threads) + threadIdx.x;
    union Unit { Row<bytes> v[N]; T x[rows][L]; uint32_t w[rows][L * sizeof(T) < 4 ? 1 : L * sizeof(T) / 4]; __device__ Unit() {} } unit[U];
    if ((int64_t)(blockIdx.x + 1) * (U * block_threads) <= units) {
#pragma unroll
        for (int u = 0; u < U; u++)
#pragma unroll
            for (int k = 0; k < N; k++) load(unit[u].v[k], in + ((first + u * block_threads) * N + k) * bytes);
    } else {
#pragma unroll
        for (int u = 0; u < U; u++)
#pragma unroll
            for (int k = 0; k < N; k++)
                if (first + u * block_threads < units) load(unit[u].v[k], in + ((first + u * block_threads) * N + k) * bytes);
    }
    constexpr int per_store = 16 / sizeof(R) < rows ? 16 / sizeof(R) : rows;
#pragma unroll
    for (int u = 0; u < U; u++) {
        if (first + u * block_threads >= units) return;
        Vector<R, per_store>* to = (Vector<R, per_store>*)((R*)out + (first + u * block_threads) * rows);
#pragma unroll
        for (int r = 0; r < rows; r += per_store) {
            Vector<R, per_store> result;
#pragma unroll
            for (int j = 0; j < per_store; j++) {
                if constexpr (Op::is_numbered) {
                    typename Op::template Held<1> held;
                    RowOf<T, 1> x[L];
#pragma unroll
                    for (int k = 0; k < L; k++) x[k].w[0] = 0, memcpy(x[k].w, &unit[u].x[r + j][k], sizeof(T));
                    held.add(x, 0, p.finish);
                    result.v[j] = held.row(0);
                } else {
                    typename Op::Acc acc = Op::none();
                    if constexpr (sizeof(T) == 1 && L >= 4) Op::fold_words(acc, unit[u].w[r + j], p.finish);
                    else Op::fold(acc, unit[u].x[r + j], p.finish);
                    result.v[j] = Op::result(acc, p.finish);
                }
            }
            to[r / per_store] = result;
        }
    }
}

template <class Op> __device__ __forceinline__ void short_rows(const char* __restrict__ in, char* __restrict__ out, const Plan& p) {
    if (p.length == 2) short_rows_of<Op, 2>(in, out, p);
    else short_rows_of<Op, 4>(in, out, p);
}
