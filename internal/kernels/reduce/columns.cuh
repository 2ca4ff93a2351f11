// Reductions whose results are neighbours in memory.

#pragma once
#include "reduce/plan.cuh"

// Loads the first `valid` elements from an address that is aligned to one element only. It
// reads no word without any of them.
template <class T, int V> __device__ __forceinline__ void load_apart(RowOf<T, V>& row, const char* at, int valid) {
    constexpr int size = sizeof(T);
    if constexpr (size >= 4) {
#pragma unroll
        for (int k = 0; k < V; k++)
            if (k < valid) load(*(Row<size>*)(row.w + k * size / 4), at + k * size);
    } else if (valid > 0) {
        const int skew = (int)((uintptr_t)at & 3), end = skew + valid * size;
        const uint32_t* from = (const uint32_t*)(at - skew);
        uint32_t low = from[0];
#pragma unroll
        for (int k = 0; k < V * size / 4; k++) {
            const uint32_t high = 4 * k + 4 < end ? from[k + 1] : 0;
            const uint32_t word = __funnelshift_r(low, high, 8 * skew);
            const int left = valid * size - 4 * k;  // bytes of the word
            const uint32_t mask = left >= 4 ? ~0u : left <= 0 ? 0 : (1u << 8 * left) - 1;
            row.w[k] = (row.w[k] & ~mask) | (word & mask);
            low = high;
        }
    }
}

// Returns the accumulator of a block's column c; each thread has V.
template <int V, class Acc> __device__ __forceinline__ Acc& column_of(Acc* all, int pitch, int c) { return all[c % V * pitch + c / V]; }

// Merges the results of rows that were taken as one row, after renumbering their steps.
template <class Op, int V> __device__ __forceinline__ void merge_rows(typename Op::Acc* all, int pitch, const Plan& p) {
    const int width = (int)(p.width / p.folded);
#pragma unroll 1
    for (int c = threadIdx.x; c < p.width; c += block_threads)
        column_of<V>(all, pitch, c) = Op::numbered(column_of<V>(all, pitch, c), c / width, p.folded);
#pragma unroll 1
    for (int many = (int)p.folded; many > 1;) {
        const int half = (many + 1) / 2;
        __syncthreads();
#pragma unroll 1
        for (int c = threadIdx.x; c < (many - half) * width; c += block_threads)
            column_of<V>(all, pitch, c) = Op::merge(column_of<V>(all, pitch, c), column_of<V>(all, pitch, c + half * width));
        many = half;
    }
    __syncthreads();
}

// Writes the results or accumulators of a block's columns; neighbouring threads write
// neighbours.
template <class Op, int V>
__device__ __forceinline__ void put_columns(typename Op::Acc* all, int pitch, int64_t first_item, char* out, char* partials, const Plan& p) {
    using R = typename Op::Out;
    if (V > 1 && p.dense && !p.partial) {
        constexpr int per_store = at_most(16 / sizeof(R), V);
#pragma unroll 1
        for (int c = threadIdx.x * per_store; c < V << p.lanes; c += block_threads * per_store) {
            int64_t from = 0, to = 0;
            if (first_item + c / V >= p.items || locate_result(p, first_item + c / V, from, to) * V >= p.width) continue;
            Vector<R, per_store> r;
#pragma unroll
            for (int j = 0; j < per_store; j++) r.v[j] = Op::result(column_of<V>(all, pitch, c + j), p.finish);
            ((Vector<R, per_store>*)(out + to))[c % V / per_store] = r;
        }
        return;
    }
    const int64_t width = V > 1 && p.folded > 1 ? p.width / p.folded : p.width;
#pragma unroll 1
    for (int c = threadIdx.x; c < V << p.lanes; c += block_threads) {
        int64_t from = 0, to = 0;
        const int64_t item = first_item + c / V, column = locate_result(p, item, from, to) * V + c % V;
        if (item >= p.items || column >= width) continue;
        put<Op>(column_of<V>(all, pitch, c), out + to + c % V * (p.kept[0].out / V), partials,
                quotient(item, p.kept[0].extent) * p.width + column, p);
    }
}

// Folds rows of V columns, U rows at a time; missing rows are replaced by neutral elements.
// Accumulators move from registers to shared memory, where the block merges them, so that
// neighbouring threads write neighbouring results.
template <class Op, int V, int U>
__device__ __forceinline__ void columns(const char* __restrict__ in, char* __restrict__ out, char* __restrict__ partials, const Plan& p) {
    using T = typename Op::In;
    using Acc = typename Op::Acc;
    using Held = typename Op::template Held<V>;
    // With this pitch, neighbours along columns and along rows are in different banks.
    constexpr int pitch = block_threads + (V > 1 ? 128 / (int)sizeof(Acc) / V : 0);
    __shared__ __align__(16) unsigned char memory[V * pitch * sizeof(Acc)];
    Acc* all = (Acc*)memory;
    const int wide = 1 << p.lanes, lanes = block_threads >> p.lanes, y = threadIdx.x >> p.lanes;
    const int64_t first_item = (int64_t)blockIdx.x << p.lanes, item = first_item + (threadIdx.x & (wide - 1));
    int64_t from = 0, to = 0;
    const int64_t innermost = locate_result(p, item, from, to);
    const int64_t fold = V > 1 ? p.folded : 1, stride = fold * p.stride, step = lanes * stride;
    const int valid = (int)min((int64_t)V, p.width - innermost * V);

    Held held;
    int room = Held::most;
    bool left = false;  // accumulators are in shared memory
    const auto leave = [&](int64_t number) {
#pragma unroll
        for (int k = 0; k < V; k++) {
            Acc& there = all[k * pitch + threadIdx.x];
            const Acc acc = held.of(k, number, lanes);
            there = left ? Op::merge(there, acc) : acc;
        }
        held = Held();
        room = Held::most;
        left = true;
    };
    if (item < p.items && valid > 0) {
        const int64_t first = blockIdx.y * p.per_split, last = min(first + p.per_split, p.all_parts);
#pragma unroll 1
        for (int64_t s = first; s < last; s++) {
            int64_t begin = from, number = p.base, n = p.length;
            if (p.all_parts > 1) n = locate_part(p, s, begin, number);
            int some = 0;  // valid columns of one more, partial row
            if (V > 1 && fold > 1) {
                const int64_t wide_rows = n / fold, rest = n - wide_rows * fold;  // rows that do not fill a wide one
                if (y == wide_rows % lanes) some = (int)min((int64_t)V, max(rest * (p.width / fold) - innermost * V, (int64_t)0));
                n = wide_rows;
                number /= fold;
            }
            const char* at = in + begin + y * stride;
            int64_t rows = ((n - y + lanes - 1) >> (8 - p.lanes)) + (some > 0);  // of this thread
            number += y;
#pragma unroll 1
            while (rows > 0) {
                const int count = (int)min(rows, (int64_t)room), whole = count - (some > 0 && count == rows);
#pragma unroll 1
                for (int i = 0; i < count; i += U) {
                    RowOf<T, V> x[U];
                    if ((V == 1 || p.aligned) && i + U <= whole) {
#pragma unroll
                        for (int u = 0; u < U; u++, at += step) load(x[u], at);
                    } else {
#pragma unroll
                        for (int u = 0; u < U; u++) memcpy(x[u].w, p.neutral, sizeof x[u].w);
                        if (V == 1 || (p.aligned && whole == count)) {
#pragma unroll
                            for (int u = 0; u < U; u++, at += step)
                                if (i + u < count) load(x[u], at);
                        } else if constexpr (V > 1) {
#pragma unroll
                            for (int u = 0; u < U; u++, at += step)
                                load_apart<T, V>(x[u], at, i + u < whole ? valid : i + u < count ? some : 0);
                        }
                    }
                    held.add(x, i, p.finish);
                }
                room -= (count + U - 1) / U * U;
                if (Op::is_numbered) leave(number);
                else if (room <= 0) {
                    if (Held::most < 1 << 30) leave(0);
                    else room = Held::most;
                }
                number += (int64_t)count * lanes;
                rows -= count;
            }
        }
    }

    if constexpr (!Op::is_numbered) {
        leave(0);
    } else if (!left) {
#pragma unroll
        for (int k = 0; k < V; k++) all[k * pitch + threadIdx.x] = Op::none();
    }
    merge_block<Op, V>(all, pitch, p.lanes);
    if (V > 1 && fold > 1) merge_rows<Op, V>(all, pitch, p);
    put_columns<Op, V>(all, pitch, first_item, out, partials, p);
}

// Columns of few rows, in whole vectors whose results are whole vectors too: a thread
// reduces a vector of columns alone. If its results are larger than a vector, they go
// through shared memory, so that neighbouring threads write neighbours.
template <class Op, int V> __device__ __forceinline__ void short_columns(const char* __restrict__ in, char* __restrict__ out, const Plan& p) {
    using T = typename Op::In;
    using R = typename Op::Out;
    constexpr int U = 4, J = at_most(16 / sizeof(R), V), pitch = 32 + 128 / (int)sizeof(R) / V;
    const int lane = threadIdx.x % 32;
    const int64_t first = (int64_t)blockIdx.x * block_threads + (threadIdx.x - lane), item = first + lane;
    int64_t from = 0, to = 0;
    const bool active = locate_result(p, item, from, to) * V < p.width && item < p.items;
    typename Op::template Held<V> held;
    if (active) {
        const char* at = in + from;
#pragma unroll 1
        for (int i = 0; i < (int)p.length; i += U, at += U * p.stride) {
            RowOf<T, V> x[U];
            if (i + U <= (int)p.length) {
#pragma unroll
                for (int u = 0; u < U; u++) load(x[u], at + u * p.stride);
            } else {
#pragma unroll
                for (int u = 0; u < U; u++) {
                    memcpy(x[u].w, p.neutral, sizeof x[u].w);
                    if (i + u < (int)p.length) load(x[u], at + u * p.stride);
                }
            }
            held.add(x, i, p.finish);
        }
    }
    if constexpr (J == V) {
        Vector<R, V> r;
#pragma unroll
        for (int k = 0; k < V; k++) r.v[k] = Op::result(held.of(k, p.base, 1), p.finish);
        if (active) *(Vector<R, V>*)(out + to) = r;
    } else {
        __shared__ __align__(16) unsigned char memory[block_threads / 32 * V * pitch * sizeof(R)];
        R* all = (R*)memory + threadIdx.x / 32 * V * pitch;
#pragma unroll
        for (int k = 0; k < V; k++) all[k * pitch + lane] = Op::result(held.of(k, p.base, 1), p.finish);
        __syncwarp();
        const auto vector = [&](int c) {
            Vector<R, J> r;
#pragma unroll
            for (int j = 0; j < J; j++) r.v[j] = all[(c % V + j) * pitch + c / V];
            return r;
        };
        if (p.kept_axes == 1) {
            Vector<R, J>* const end = (Vector<R, J>*)((R*)out + p.items * V);
            Vector<R, J>* result = (Vector<R, J>*)((R*)out + first * V) + lane;
#pragma unroll
            for (int c = lane * J; c < 32 * V; c += 32 * J, result += 32)
                if (result < end) *result = vector(c);
            return;
        }
#pragma unroll 1
        for (int c = lane * J; c < 32 * V; c += 32 * J) {
            int64_t at = 0, place = 0;
            if (locate_result(p, first + c / V, at, place) * V < p.width && first + c / V < p.items)
                ((Vector<R, J>*)(out + place))[c % V / J] = vector(c);
        }
    }
}
