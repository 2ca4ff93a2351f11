// Reductions. The elements that one result is made of are its steps. A thread
// folds some of them into an accumulator, which is wider than the elements
// where their sum is; then threads merge what they have, in an order that does
// not depend on time, so that a result is the same on every run. Where there are
// too few results to fill the GPU, their steps are split over blocks, which leave
// accumulators for a second kernel, `finish`.
//
// Five kernels reduce. `rows` is for steps that are neighbours in memory: the
// threads of a group take neighbouring vectors of a row. `columns` is for results
// that are neighbours: a thread takes a vector of columns and walks down; of narrow
// arrays without gaps several rows are one, and the block merges their results.
// `slim` is for rows of 2 or 4 in whole vectors, `tiles` for other short rows without
// gaps. `strided` is columns of single elements, for everything else.

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
    int64_t folded;       // of columns: rows, without gaps, that are taken as one of so many more results
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

// Merges over threads that are 2^lanes apart; the first 2^lanes have all. Thread t
// has its k-th at [k * block_threads + t] of what is returned, too.
template <class Op, int V> __device__ __forceinline__ const typename Op::Acc* merge_block(typename Op::Acc (&acc)[V], int lanes) {
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
    return (const Acc*)memory;
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

// Folds U vectors of a row, G vectors apart. Nothing is asked before a load, so
// that all of them are on their way before the first is needed.
template <class Op, int V, int U>
__device__ __forceinline__ void fold_vectors(typename Op::Acc& acc, const uint4* at, int G, const Finish& f) {
    uint4 v[U];
#pragma unroll
    for (int u = 0; u < U; u++) v[u] = at[u * (int64_t)G];
    if constexpr (sizeof(typename Op::In) == 1) {
        uint32_t x[4 * U];
#pragma unroll
        for (int u = 0; u < U; u++) x[4 * u] = v[u].x, x[4 * u + 1] = v[u].y, x[4 * u + 2] = v[u].z, x[4 * u + 3] = v[u].w;
        Op::fold_words(acc, x, f);
    } else {
        typename Op::In x[U * V];
        memcpy(x, v, sizeof x);
        Op::fold(acc, x, f);
    }
}

// Folds n neighbouring elements, of which the thread takes the vectors g, g+G,
// ... Those at the ends that are in no whole vector are folded last.
template <class Op, int V, int U>
__device__ __forceinline__ void fold_run(typename Op::Acc& acc, const char* from, int64_t n, int g, int G, int64_t number, const Plan& p) {
    using T = typename Op::In;
    const T* row = (const T*)from;
    const int64_t head = min((int64_t)(-(uintptr_t)from & 15) / (int64_t)sizeof(T), n);
    const int64_t vectors = (n - head) / V;
    const uint4* body = (const uint4*)(row + head);
    if constexpr (Op::is_numbered) {
        using Places = typename Op::template Places<V>;
#pragma unroll 1
        for (int64_t first = g; first < vectors; first += (int64_t)Places::most * G) {
            const int count = (int)min((vectors - first + G - 1) / G, (int64_t)Places::most);
            const uint4* at = body + first;
            Places places;
            int i = 0;
#pragma unroll 1
            for (; i + U <= count; i += U, at += (int64_t)U * G) {
                uint4 v[U];
#pragma unroll
                for (int u = 0; u < U; u++) v[u] = at[u * (int64_t)G];
#pragma unroll
                for (int u = 0; u < U; u++) places.add(v[u], i + u, p.finish);
            }
#pragma unroll 1
            for (; i < count; i++, at += G) places.add(uint4(*at), i, p.finish);
            acc = Op::merge(acc, places.of_row(number + head + first * V, (int64_t)G * V));
        }
    } else {
        int64_t i = g;
#pragma unroll 1
        for (; i + (U - 1) * G < vectors; i += U * G) fold_vectors<Op, V, U>(acc, body + i, G, p.finish);
#pragma unroll 1
        for (; i < vectors; i += G) fold_vectors<Op, V, 1>(acc, body + i, G, p.finish);
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

// Vectors of columns: U rows, step bytes apart.
template <class Op, int V, int U> struct Rows {
    using T = typename Op::In;
    static constexpr bool bytes = sizeof(T) == 1 && V > 1;
    using E = typename Choose<bytes, uint32_t, T>::type;
    static constexpr int per = V * sizeof(T) / sizeof(E);
    using X = Vector<E, per>;
    X x[U];
    // Nothing is asked between loads, so that all are on their way at once.
    __device__ __forceinline__ Rows(const char* at, int64_t step, int valid, const Plan& p, bool aligned) {
        if (V == 1 || aligned) {
#pragma unroll
            for (int u = 0; u < U; u++) x[u] = *(const X*)(at + u * step);
        } else if constexpr (V > 1) {
#pragma unroll
            for (int u = 0; u < U; u++) {
#pragma unroll
                for (int k = 0; k < per; k++) x[u].v[k] = *(const E*)p.neutral;
                load_apart<E, per, sizeof(T)>(x[u], at + u * step, valid);
            }
        }
    }
    __device__ __forceinline__ void fold(typename Op::Acc (&acc)[V], const Finish& f) const {
        if constexpr (bytes) {
            uint32_t w[U][per];
#pragma unroll
            for (int u = 0; u < U; u++)
#pragma unroll
                for (int k = 0; k < per; k++) w[u][k] = x[u].v[k];
            Op::fold_columns(acc, w, f);
        } else {
#pragma unroll
            for (int k = 0; k < V; k++) {
                T column[U];
#pragma unroll
                for (int u = 0; u < U; u++) column[u] = x[u].v[k];
                Op::fold(acc[k], column, f);
            }
        }
    }
};

// Folds n rows, step bytes apart, of the columns at `at`, and if `some` is more than
// 0 one more row, which has so few.
template <class Op, int V, int U>
__device__ __forceinline__ void fold_columns(typename Op::Acc (&acc)[V], const char* at, int64_t step, int64_t n, int64_t number, int lanes, int valid,
                                             int some, const Plan& p) {
    const int64_t all = n + (some > 0);
    if constexpr (Op::is_numbered) {
        using Places = typename Op::template Places<V>;
#pragma unroll 1
        for (int64_t done = 0; done < all; done += Places::most) {
            const int count = (int)min(all - done, (int64_t)Places::most), whole = (int)min(n - done, (int64_t)count);
            Places places;
            int i = 0;
#pragma unroll 1
            for (; i + U <= whole; i += U, at += U * step) {
                const Rows<Op, V, U> rows(at, step, valid, p, p.aligned);
#pragma unroll
                for (int u = 0; u < U; u++) places.add(rows.x[u], i + u, p.finish);
            }
#pragma unroll 1
            for (; i < count; i++, at += step)
                places.add(Rows<Op, V, 1>(at, step, i < whole ? valid : some, p, p.aligned && i < whole).x[0], i, p.finish);
#pragma unroll
            for (int k = 0; k < V; k++) acc[k] = Op::merge(acc[k], places.of(k, number + done * lanes, lanes));
        }
    } else {
        int64_t i = 0;
#pragma unroll 1
        for (; i + U <= n; i += U, at += U * step) Rows<Op, V, U>(at, step, valid, p, p.aligned).fold(acc, p.finish);
        if constexpr (U > 4) {
            if (i + 4 <= n) Rows<Op, V, 4>(at, step, valid, p, p.aligned).fold(acc, p.finish), i += 4, at += 4 * step;
        }
#pragma unroll 1
        for (; i < all; i++, at += step) Rows<Op, V, 1>(at, step, i < n ? valid : some, p, p.aligned && i < n).fold(acc, p.finish);
    }
}

template <class Op, int V, int U>
__device__ __forceinline__ void columns(const char* __restrict__ in, char* __restrict__ out, char* __restrict__ partials, const Plan& p) {
    const int lanes = block_threads >> p.lanes, y = threadIdx.x >> p.lanes;
    const int64_t item = ((int64_t)blockIdx.x << p.lanes) + (threadIdx.x & ((1 << p.lanes) - 1));
    typename Op::Acc acc[V];
#pragma unroll
    for (int k = 0; k < V; k++) acc[k] = Op::none();
    int64_t from = 0, to = 0;
    const int64_t innermost = locate(p.kept, p.kept_axes, item, from, to);
    const int64_t fold = V > 1 ? p.folded : 1, stride = fold * p.stride;
    const int valid = (int)min((int64_t)V, p.width - innermost * V);
    const bool active = item < p.items && valid > 0;
    if (active) {
        const int64_t first = blockIdx.y * p.per_split, last = min(first + p.per_split, p.all_parts);
#pragma unroll 1
        for (int64_t s = first; s < last; s++) {
            int64_t begin = from, number;
            int64_t n = locate_part(p, s, begin, number);
            const char* at = in + begin;
            int some = 0;
            if (V > 1 && fold > 1) {
                const int64_t wide = n / fold, left = n - wide * fold;  // the rows left do not make a wide one
                if (y == wide % lanes) some = (int)min((int64_t)V, max(left * (p.width / fold) - innermost * V, (int64_t)0));
                n = wide;
                number /= fold;
            }
            const int64_t own = (n - y + lanes - 1) / lanes;  // rows of the thread
            fold_columns<Op, V, U>(acc, at + y * stride, lanes * stride, own, number + y, lanes, valid, some, p);
        }
    }
    if constexpr (V > 1) {
        if (fold > 1) {
            const typename Op::Acc* all = merge_block<Op, V>(acc, p.lanes);
            const int width = (int)(p.width / fold), column = threadIdx.x;
            if (column >= width) return;
            typename Op::Acc sum = Op::none();
#pragma unroll 1
            for (int f = 0; f < (int)fold; f++) {
                const int at = f * width + column;
                sum = Op::merge(sum, Op::numbered(all[at % V * block_threads + at / V], f, fold));
            }
            return put<Op>(sum, out + column * (p.kept[0].out / V), partials, column, p);
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

// Rows of L neighbours, 2 or 4, that lie without gaps at multiples of 16
// bytes and fill whole vectors. A thread takes some of those, without the others.
template <class Op, int L> __device__ __forceinline__ void slim_of(const char* __restrict__ in, char* __restrict__ out, const Plan& p) {
    using T = typename Op::In;
    using R = typename Op::Out;
    constexpr int V = 16 / sizeof(T), rows = V > L ? V / L : 1, N = V > L ? 1 : L / V;  // of a thread's unit: rows, vectors
    constexpr int U = N < 4 ? 4 / N : 1;
    const int64_t units = p.outputs / rows, first = (int64_t)blockIdx.x * (U * block_threads) + threadIdx.x;
    union Unit { uint4 v[N]; T x[rows][L]; uint32_t w[rows][L * sizeof(T) < 4 ? 1 : L * sizeof(T) / 4]; __device__ Unit() {} } unit[U];
    if ((int64_t)(blockIdx.x + 1) * (U * block_threads) <= units) {
#pragma unroll
        for (int u = 0; u < U; u++)
#pragma unroll
            for (int k = 0; k < N; k++) unit[u].v[k] = ((const uint4*)in)[(first + u * block_threads) * N + k];
    } else {
#pragma unroll
        for (int u = 0; u < U; u++)
#pragma unroll
            for (int k = 0; k < N; k++)
                if (first + u * block_threads < units) unit[u].v[k] = ((const uint4*)in)[(first + u * block_threads) * N + k];
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
                    result.v[j] = Op::place(unit[u].x[r + j], p.finish);
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

// Whether a thread's results are a vector at most, so that those of a warp are
// written without gaps.
template <class Op, int L> constexpr bool is_slim = 16 / (int)sizeof(typename Op::In) * (int)sizeof(typename Op::Out) <= 16 * L;

template <class Op> __device__ __forceinline__ void slim(const char* __restrict__ in, char* __restrict__ out, const Plan& p) {
    if constexpr (is_slim<Op, 2>)
        if (p.length == 2) return slim_of<Op, 2>(in, out, p);
    if constexpr (is_slim<Op, 4>)
        if (p.length == 4) return slim_of<Op, 4>(in, out, p);
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
            acc[0] = Op::merge(acc[0], at[s * p.outputs]);
    }
    if (lanes > 1) merge_block<Op, 1>(acc, p.lanes);
    if (output >= p.outputs || threadIdx.x >> p.lanes) return;
    int64_t from = 0, to = 0;
    locate(p.kept, p.kept_axes, output, from, to);
    Op::store(acc[0], out + to, p.finish);
}

constexpr int at_most(int a, int b) { return a < b ? a : b; }

#define REDUCTION_KERNEL(kind, name) \
    extern "C" __global__ void __launch_bounds__(block_threads, 3) \
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
        constexpr int V = at_most(16 / sizeof(Op::In), sizeof(Op::Acc) == 4 ? 16 : 8); \
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
#define SLIM(name, ...)                                                   \
    REDUCTION_KERNEL(slim, name) {                                        \
        using Op = __VA_ARGS__;                                           \
        slim<Op>(in, out, p);                                             \
    }
#define REDUCTION(name, ...) SLIM(name, __VA_ARGS__) TILES(name, __VA_ARGS__) ROWS(name, __VA_ARGS__) COLUMNS(name, __VA_ARGS__) STRIDED(name, __VA_ARGS__)
