// Reductions whose steps are neighbours in memory.

#pragma once
#include "reduce/plan.cuh"

template <class Op> __device__ __forceinline__ void fold_one(typename Op::Acc& acc, typename Op::In v, int64_t number, const Finish& f) {
    if constexpr (Op::is_numbered) {
        acc = Op::merge(acc, Op::one(v, number, f));
    } else {
        const typename Op::In x[1] = {v};
        Op::template fold<1>(acc, x, f);
    }
}

// The accumulator of a thread for a row of vectors.
template <class Op, bool = Op::is_numbered> struct HeldRow {
    static constexpr int V = 16 / sizeof(typename Op::In);
    typename Op::Acc& acc;
    __device__ __forceinline__ HeldRow(typename Op::Acc& acc) : acc(acc) {}
    template <int U> __device__ __forceinline__ void add(const Row<16> (&rows)[U], int32_t, const Finish& f) {
        if constexpr (sizeof(typename Op::In) == 1) {
            uint32_t w[4 * U];
            memcpy(w, rows, sizeof w);
            Op::fold_words(acc, w, f);
        } else {
            typename Op::In x[U * V];
            memcpy(x, rows, sizeof x);
            Op::fold(acc, x, f);
        }
    }
    __device__ __forceinline__ void end(int64_t, int64_t, const Finish&) {}
};
// Position of the maximum: the greatest element of each vector is compared with the
// previous maximum. The vector is kept, as the element's position in it is computed only at
// the end.
template <class Op> struct HeldRow<Op, true> {
    using R = typename Op::Ranks;
    typename Op::Acc& acc;
    typename R::W greatest;
    int32_t at;  // index among the thread's vectors
    Row<16> kept;
    __device__ __forceinline__ HeldRow(typename Op::Acc& acc) : acc(acc), greatest(R::lowest()), at(0) {}
    template <int U> __device__ __forceinline__ void add(const Row<16> (&rows)[U], int32_t i, const Finish& f) {
        if (i == 0) kept = rows[0];
#pragma unroll
        for (int u = 0; u < U; u++) {
            const typename R::W next = R::best(rows[u], f);
            const bool over = R::over(next, greatest);
            greatest = over ? next : greatest;
            at = over ? i + u : at;
#pragma unroll
            for (int k = 0; k < 4; k++) kept.w[k] = over ? rows[u].w[k] : kept.w[k];
        }
    }
    __device__ __forceinline__ void end(int64_t number, int64_t step, const Finish& f) {
        acc = Op::merge(acc, Op::Acc::of(greatest, number + at * step + Op::find(kept, greatest, f)));
    }
};

// Folds n neighbouring elements; thread g of G takes vectors g, g+G, and so on. Elements
// outside whole vectors are folded last. Nothing is tested between loads, so that all of
// them are in flight before the first is needed.
template <class Op, int V, int U>
__device__ __forceinline__ void fold_run(typename Op::Acc& acc, const char* from, int64_t n, int g, int G, int64_t number, const Plan& p) {
    using T = typename Op::In;
    const T* row = (const T*)from;
    const int64_t head = min((int64_t)(-(uintptr_t)from & 15) / (int64_t)sizeof(T), n);
    const int64_t vectors = (n - head) / V;
    const int64_t own = (vectors - g + G - 1) / G, step = (int64_t)G * 16;
    const char* at = from + head * (int64_t)sizeof(T) + g * 16;
    HeldRow<Op> held(acc);
    int64_t i = 0;
#pragma unroll 1
    for (; i + U <= own; i += U, at += U * step) {
        Row<16> x[U];
#pragma unroll
        for (int u = 0; u < U; u++) load(x[u], at + u * step);
        held.add(x, i, p.finish);
    }
#pragma unroll 1
    for (; i < own; i++, at += step) {
        Row<16> x[1];
        load(x[0], at);
        held.add(x, i, p.finish);
    }
    if (own > 0) held.end(number + head + g * V, (int64_t)G * V, p.finish);
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
