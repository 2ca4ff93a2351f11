// Reductions. The elements that one result is made of are its steps. A thread
// folds some of them into an accumulator, which is wider than the elements
// where their sum is; then threads merge what they have, in an order that does
// not depend on time, so that a result is the same on every run. Where there are
// too few results to fill the GPU, their steps are split over blocks, which leave
// accumulators for a second kernel, `finish`.
//
// Four kernels reduce. `rows` is for steps that are neighbours in memory: the
// threads of a group take neighbouring vectors of a row. `columns` is for results
// that are neighbours: a thread takes a vector of columns and walks down.
// `tiles` is for short rows without gaps. `strided` is columns of single elements,
// for everything else.

#pragma once
#include "axes.cuh"
#include "reduce_ops.cuh"

// The steps of a result are runs of `length` steps, `stride` bytes apart; each
// run is cut into parts of `part` steps, the last of which may be shorter. Runs
// begin where the nest `run` says.
struct Plan {
    int64_t outputs;      // results
    int64_t items;        // of columns: vectors of results, with padding
    int64_t width;        // of columns: results along kept[0]; what is beyond is padding
    int64_t length, stride, part;
    Divisor parts;
    int64_t all_parts;    // of all runs; of finish: the accumulators of a result
    int64_t per_split;    // parts that a block does
    int64_t folded;       // of finish: see numbered
    int64_t base;         // the number of the first step
    uint64_t neutral[2];  // an element that changes no result
    Finish finish;
    int32_t partial;      // accumulators are written, not results
    int32_t lanes;        // log2 of the threads along a row, or along the columns
    int32_t kept_axes, run_axes;
    int32_t dense;        // the results of a vector of columns are a vector
    int32_t vector;       // elements of one
    int32_t out_size;
    int32_t aligned;      // vectors of columns are, and none is beyond width
    Axis kept[max_axes];  // the innermost first; of columns, [0] counts vectors
    Axis run[max_axes];
};

// Part s of all parts: where it begins, how many steps it has, and the number of
// the first.
__device__ __forceinline__ int64_t locate_part(const Plan& p, int64_t s, int64_t& from, int64_t& number) {
    const int64_t run = quotient(s, p.parts), first = (s - run * p.parts.by) * p.part;
    int64_t none = 0;
    from += first * p.stride;
    locate(p.run, p.run_axes, run, from, none);
    number = p.base + run * p.length + first;
    return min(p.part, p.length - first);
}

// Another thread's accumulator, word by word.
template <class A> __device__ __forceinline__ A shuffle(const A& a, int distance) {
    union Words { A a; uint32_t w[sizeof(A) / 4]; __device__ Words() {} } from, to;
    from.a = a;
#pragma unroll
    for (int i = 0; i < (int)(sizeof(A) / 4); i++) to.w[i] = __shfl_xor_sync(~0u, from.w[i], distance);
    return to.a;
}

// Merges over the threads of a group of 2^lanes neighbours; the first has all.
template <class Op> __device__ __forceinline__ void merge_group(typename Op::Acc& acc, int lanes) {
    using Acc = typename Op::Acc;
#pragma unroll 1
    for (int l = 0; l < lanes && l < 5; l++) acc = Op::merge(acc, shuffle(acc, 1 << l));
    if (lanes <= 5) return;
    __shared__ __align__(16) unsigned char memory[block_threads / 32 * sizeof(Acc)];
    Acc* of_warp = (Acc*)memory;
    const int warp = threadIdx.x / 32, warps = 1 << (lanes - 5);
    if (threadIdx.x % 32 == 0) of_warp[warp] = acc;
    __syncthreads();
    if (threadIdx.x % (32 * warps) != 0) return;
#pragma unroll 1
    for (int w = 1; w < warps; w++) acc = Op::merge(acc, of_warp[warp + w]);
}

// Merges over threads that are 2^lanes apart; the first 2^lanes have all.
template <class Op, int V> __device__ __forceinline__ void merge_block(typename Op::Acc (&acc)[V], int lanes) {
    using Acc = typename Op::Acc;
    __shared__ __align__(16) unsigned char memory[V * block_threads * sizeof(Acc)];
    Acc* all = (Acc*)memory + threadIdx.x;
#pragma unroll
    for (int k = 0; k < V; k++) all[k * block_threads] = acc[k];
    __syncthreads();
#pragma unroll 1
    for (int half = block_threads / 2; half >= 1 << lanes; half /= 2) {
        if (threadIdx.x < half) {
#pragma unroll 1
            for (int k = 0; k < V * block_threads; k += block_threads) all[k] = Op::merge(all[k], all[k + half]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int k = 0; k < V; k++) acc[k] = all[k * block_threads];
}

template <class Op>
__device__ __forceinline__ void put(const typename Op::Acc& acc, char* out, char* partials, int64_t output, const Plan& p) {
    if (p.partial) ((typename Op::Acc*)partials)[blockIdx.y * p.outputs + output] = acc;
    else Op::put(acc, out, p.finish);
}

template <bool yes, class A, class B> struct Choose { using type = A; };
template <class A, class B> struct Choose<false, A, B> { using type = B; };

template <class Op> __device__ __forceinline__ void fold_one(typename Op::Acc& acc, typename Op::In v, int64_t number, const Finish& f) {
    if constexpr (Op::is_numbered) {
        acc = Op::merge(acc, Op::one(v, number, f));
    } else {
        const typename Op::In x[1] = {v};
        Op::template fold<1>(acc, x, f);
    }
}

// Folds n neighbouring elements, of which the thread takes the vectors g, g+G,
// ... Those at the ends that are in no whole vector are folded last.
template <class Op, int V, int U>
__device__ __forceinline__ void fold_run(typename Op::Acc& acc, const char* from, int64_t n, int g, int G, int64_t number, const Plan& p) {
    using T = typename Op::In;
    constexpr bool bytes = sizeof(T) == 1;
    using E = typename Choose<bytes, uint32_t, T>::type;
    constexpr int per = V * sizeof(T) / sizeof(E);  // E of a vector
    using X = Vector<E, per>;
    const T* row = (const T*)from;
    const int64_t head = min((int64_t)(-(uintptr_t)from & (sizeof(X) - 1)) / (int64_t)sizeof(T), n);
    const int64_t vectors = (n - head) / V;
    const X* body = (const X*)(row + head);
    const E neutral = *(const E*)p.neutral;
#pragma unroll 1
    for (int64_t i = g; i < vectors; i += U * G) {
        E x[U * per];
#pragma unroll
        for (int u = 0; u < U; u++) {
            X v;
#pragma unroll
            for (int k = 0; k < per; k++) v.v[k] = neutral;
            if (i + u * G < vectors) v = body[i + u * G];
#pragma unroll
            for (int k = 0; k < per; k++) x[u * per + k] = v.v[k];
        }
        if constexpr (Op::is_numbered) {
            typename Op::W best;
            if constexpr (bytes) best = Op::best_of_words(x, p.finish);
            else best = Op::best(x, p.finish);
            if (Op::is_new(acc, best)) {
                int64_t at = i;
                int k = 0;
                const T* v = (const T*)(body + i);
                while (!Op::is(v[k], best, p.finish))
                    if (++k == V) k = 0, at += G, v += (int64_t)G * V;
                acc.w = best;
                acc.index = number + head + at * V + k;
            }
        } else if constexpr (bytes) {
            Op::fold_words(acc, x, p.finish);
        } else {
            Op::fold(acc, x, p.finish);
        }
    }
#pragma unroll 1
    for (int64_t i = g; i < n - vectors * V; i += G) {
        const int64_t at = i < head ? i : i + vectors * V;
        fold_one<Op>(acc, row[at], number + at, p.finish);
    }
}

template <class Op, int V, int U>
__device__ __forceinline__ void rows(const char* __restrict__ in, char* __restrict__ out, char* __restrict__ partials, const Plan& p) {
    const int G = 1 << p.lanes, g = threadIdx.x & (G - 1);
    const int64_t output = (int64_t)blockIdx.x * (block_threads >> p.lanes) + (threadIdx.x >> p.lanes);
    typename Op::Acc acc = Op::none();
    int64_t from = 0, to = 0;
    if (output < p.outputs) {
        locate(p.kept, p.kept_axes, output, from, to);
        const int64_t first = blockIdx.y * p.per_split, last = min(first + p.per_split, p.all_parts);
#pragma unroll 1
        for (int64_t s = first; s < last; s++) {
            int64_t at = from, number;
            const int64_t n = locate_part(p, s, at, number);
            fold_run<Op, V, U>(acc, in + at, n, g, G, number, p);
        }
    }
    merge_group<Op>(acc, p.lanes);
    if (g == 0 && output < p.outputs) put<Op>(acc, out + to, partials, output, p);
}

// The vector of `valid` elements at an address that is a multiple of an element's
// size only. No word is read that has none of them.
template <class E, int N, int size> __device__ __forceinline__ void load_apart(Vector<E, N>& v, const char* at, int valid) {
    if constexpr (size >= 4) {
#pragma unroll
        for (int k = 0; k < N; k++)
            if (k < valid) v.v[k] = ((const E*)at)[k];
    } else {
        constexpr int words = N * sizeof(E) / 4;
        union { uint32_t w[words]; Vector<E, N> v; } to;
        to.v = v;
        const int skew = (int)((uintptr_t)at & 3), end = skew + valid * size;
        const uint32_t* from = (const uint32_t*)(at - skew);
        uint32_t low = from[0];
#pragma unroll
        for (int k = 0; k < words; k++) {
            const uint32_t high = 4 * k + 4 < end ? from[k + 1] : 0;
            const uint32_t word = __funnelshift_r(low, high, 8 * skew);
            const int left = valid * size - 4 * k;  // bytes of the word
            const uint32_t mask = left >= 4 ? ~0u : left <= 0 ? 0 : (1u << 8 * left) - 1;
            to.w[k] = (to.w[k] & ~mask) | (word & mask);
            low = high;
        }
        v = to.v;
    }
}

// Finds which of the elements at `at`, step bytes apart, is the best, and takes it.
template <class Op>
__device__ __forceinline__ void found(typename Op::Acc& acc, typename Op::W best, const char* at, int64_t step, int64_t number, int lanes, const Finish& f) {
    while (!Op::is(*(const typename Op::In*)at, best, f)) at += step, number += lanes;
    acc.w = best;
    acc.index = number;
}

template <class Op, int V, int U>
__device__ __forceinline__ void columns(const char* __restrict__ in, char* __restrict__ out, char* __restrict__ partials, const Plan& p) {
    using T = typename Op::In;
    constexpr bool bytes = sizeof(T) == 1 && V > 1;
    using E = typename Choose<bytes, uint32_t, T>::type;
    constexpr int per = V * sizeof(T) / sizeof(E);
    using X = Vector<E, per>;
    const int lanes = block_threads >> p.lanes, y = threadIdx.x >> p.lanes;
    const int64_t item = ((int64_t)blockIdx.x << p.lanes) + (threadIdx.x & ((1 << p.lanes) - 1));
    typename Op::Acc acc[V];
#pragma unroll
    for (int k = 0; k < V; k++) acc[k] = Op::none();
    int64_t from = 0, to = 0;
    const int64_t innermost = locate(p.kept, p.kept_axes, item, from, to);
    const int valid = (int)min((int64_t)V, p.width - innermost * V);
    const bool active = item < p.items && valid > 0;
    if (active) {
        const E neutral = *(const E*)p.neutral;
        const int64_t first = blockIdx.y * p.per_split, last = min(first + p.per_split, p.all_parts);
        const int64_t step = lanes * p.stride;
#pragma unroll 1
        for (int64_t s = first; s < last; s++) {
            int64_t begin = from, number;
            const int64_t n = locate_part(p, s, begin, number);
            const char* at = in + begin + y * p.stride;
#pragma unroll 1
            for (int64_t i = y; i < n; i += U * lanes, at += U * step) {
                X x[U];
#pragma unroll
                for (int u = 0; u < U; u++)
#pragma unroll
                    for (int k = 0; k < per; k++) x[u].v[k] = neutral;
                if (V == 1 || p.aligned) {
#pragma unroll
                    for (int u = 0; u < U; u++)
                        if (i + u * lanes < n) x[u] = *(const X*)(at + u * step);
                } else if constexpr (V > 1) {
#pragma unroll
                    for (int u = 0; u < U; u++)
                        if (i + u * lanes < n) load_apart<E, per, sizeof(T)>(x[u], at + u * step, valid);
                }
                if constexpr (bytes) {
                    uint32_t w[U][per];
#pragma unroll
                    for (int u = 0; u < U; u++)
#pragma unroll
                        for (int k = 0; k < per; k++) w[u][k] = x[u].v[k];
                    if constexpr (Op::is_numbered) {
                        typename Op::W best[V];
                        Op::best_of_columns(best, w, p.finish);
#pragma unroll
                        for (int k = 0; k < V; k++)
                            if (Op::is_new(acc[k], best[k]) && k < valid) found<Op>(acc[k], best[k], at + k, step, number + i, lanes, p.finish);
                    } else {
                        Op::fold_columns(acc, w, p.finish);
                    }
                } else {
#pragma unroll
                    for (int k = 0; k < V; k++) {
                        T column[U];
#pragma unroll
                        for (int u = 0; u < U; u++) column[u] = x[u].v[k];
                        if constexpr (Op::is_numbered) {
                            const typename Op::W best = Op::best(column, p.finish);
                            if (Op::is_new(acc[k], best) && k < valid)
                                found<Op>(acc[k], best, at + k * sizeof(T), step, number + i, lanes, p.finish);
                        } else {
                            Op::fold(acc[k], column, p.finish);
                        }
                    }
                }
            }
        }
    }
    if (lanes > 1) merge_block<Op, V>(acc, p.lanes);
    if (!active || y > 0) return;
    out += to;
    if constexpr (V > 1) {
        if (p.dense && !p.partial) {
            using R = typename Op::Out;
            constexpr int per_store = 16 / sizeof(R) < V ? 16 / sizeof(R) : V;
#pragma unroll
            for (int k = 0; k < V; k += per_store) {
                Vector<R, per_store> r;
#pragma unroll
                for (int j = 0; j < per_store; j++) r.v[j] = Op::result(acc[k + j], p.finish);
                *(Vector<R, per_store>*)(out + k * sizeof(R)) = r;
            }
            return;
        }
    }
    const int64_t output = quotient(item, p.kept[0].extent) * p.width + innermost * V;
#pragma unroll
    for (int k = 0; k < V; k++)
        if (k < valid) put<Op>(acc[k], out + k * (p.kept[0].out / V), partials, output + k, p);
}

constexpr int tile_bytes = 16 << 10;

// Rows that lie without gaps, of so few elements that a group of threads for each
// would be idle most of the time. A block copies p.per_split of them to shared
// memory, as neighbouring vectors; then each group of threads folds rows there.
template <class Op>
__device__ __forceinline__ void tiles(const char* __restrict__ in, char* __restrict__ out, char* __restrict__ partials, const Plan& p) {
    using T = typename Op::In;
    constexpr int U = 4;
    __shared__ __align__(16) unsigned char memory[tile_bytes + 32];
    const int64_t first = blockIdx.x * p.per_split;
    const int rows = (int)min(p.per_split, p.outputs - first), length = (int)p.length;
    const char* from = in + first * p.kept[0].in;
    const int skew = (int)((uintptr_t)from & 15), end = skew + rows * (int)p.kept[0].in;
    // Vectors at the ends may have bytes of other rows, or of none: those are left.
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
    const T neutral = *(const T*)p.neutral;
#pragma unroll 1
    for (int base = 0; base < rows; base += groups) {
        const int row = base + (t >> p.lanes);
        typename Op::Acc acc = Op::none();
        if (row < rows) {
            const T* at = tile + row * length;
            if constexpr (Op::is_numbered) {
#pragma unroll 1
                for (int i = g; i < length; i += G) {
                    const typename Op::W w = Op::one(at[i], 0, p.finish).w;
                    if (Op::is_new(acc, w)) acc.w = w, acc.index = i;
                }
            } else {
#pragma unroll 1
                for (int i = g; i < length; i += U * G) {
                    T x[U];
#pragma unroll
                    for (int u = 0; u < U; u++) x[u] = i + u * G < length ? at[i + u * G] : neutral;
                    Op::fold(acc, x, p.finish);
                }
            }
        }
#pragma unroll 1
        for (int l = 0; l < p.lanes; l++) acc = Op::merge(acc, shuffle(acc, 1 << l));
        if (g == 0 && row < rows) put<Op>(acc, out + (first + row) * p.kept[0].out, partials, first + row, p);
    }
}

// Merges the accumulators of each result.
template <class Op>
__device__ __forceinline__ void finish(char* __restrict__ out, const char* __restrict__ partials, const Plan& p) {
    using Acc = typename Op::Acc;
    const int lanes = block_threads >> p.lanes;
    const int64_t output = ((int64_t)blockIdx.x << p.lanes) + (threadIdx.x & ((1 << p.lanes) - 1));
    Acc acc[1] = {Op::none()};
    if (output < p.outputs) {
        const Acc* at = (const Acc*)partials + output;
#pragma unroll 1
        for (int64_t s = threadIdx.x >> p.lanes; s < p.all_parts; s += lanes)
            acc[0] = Op::merge(acc[0], Op::numbered(at[s * p.outputs], s, p.folded));
    }
    if (lanes > 1) merge_block<Op, 1>(acc, p.lanes);
    if (output >= p.outputs || threadIdx.x >> p.lanes) return;
    int64_t from = 0, to = 0;
    locate(p.kept, p.kept_axes, output, from, to);
    Op::store(acc[0], out + to, p.finish);
}

constexpr int at_most(int a, int b) { return a < b ? a : b; }

#define REDUCTION_KERNEL(kind, name) \
    extern "C" __global__ void __launch_bounds__(block_threads) \
        quiver_##kind##_##name(const char* in, char* out, char* partials, const __grid_constant__ Plan p)

// The kernels of an operation. A thread has about 64 bytes on their way.
#define ROWS(name, ...)                                                   \
    REDUCTION_KERNEL(rows, name) {                                        \
        using Op = __VA_ARGS__;                                           \
        rows<Op, 16 / sizeof(Op::In), 4>(in, out, partials, p);           \
    }
#define COLUMNS(name, ...)                                                \
    REDUCTION_KERNEL(columns, name) {                                     \
        using Op = __VA_ARGS__;                                           \
        constexpr int V = at_most(16 / sizeof(Op::In), 8);                \
        columns<Op, V, 64 / (V * sizeof(Op::In))>(in, out, partials, p);  \
    }
#define STRIDED(name, ...)                                                \
    REDUCTION_KERNEL(strided, name) {                                     \
        using Op = __VA_ARGS__;                                           \
        columns<Op, 1, sizeof(Op::In) == 16 ? 4 : 8>(in, out, partials, p); \
    }
// The finish of one operation serves those with the same accumulators and types
// of results.
#define FINISH(name, ...)                                                 \
    extern "C" __global__ void __launch_bounds__(block_threads)           \
        quiver_finish_##name(char* out, const char* partials, const __grid_constant__ Plan p) { \
        using Op = __VA_ARGS__;                                           \
        finish<Op>(out, partials, p);                                     \
    }
#define TILES(name, ...)                                                  \
    REDUCTION_KERNEL(tiles, name) {                                       \
        using Op = __VA_ARGS__;                                           \
        tiles<Op>(in, out, partials, p);                                  \
    }
#define REDUCTION(name, ...) TILES(name, __VA_ARGS__) ROWS(name, __VA_ARGS__) COLUMNS(name, __VA_ARGS__) STRIDED(name, __VA_ARGS__)
