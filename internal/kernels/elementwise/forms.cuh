// The entry points of a family of operations for one type, in up to three forms:
//
//   quiver_NAME_dense   contiguous operands of that type, in one order
//   quiver_NAME_rows    rows of whole vectors; an operand may be one element per row
//   quiver_NAME_nest    all others

#pragma once
#include "elementwise/rows.cuh"

// Elements of a vector of 16 bytes.
template <class T, class R> constexpr int vector = 16 / (sizeof(T) > sizeof(R) ? sizeof(T) : sizeof(R));

// Elements per thread of the form nest. They may be loaded one by one, so few of them keep
// the lanes' words close together.
template <class T, class R> constexpr int few = vector<T, R> < 4 ? vector<T, R> : 4;

// out = op(x, y), with elements of type T for x and y and of type R for out.
template <class T, class R, int V, int U, class Ops, class P>
__device__ __forceinline__ void combine(const P& p, char* out, const char* x, const char* y) {
    const int size[4] = {sizeof(R), sizeof(T), sizeof(T), 0};
    Location<U> at;
    find<V, U, 3>(p, size, at);
    if (at.valid[0] == 0) return;
    Elements<T, U * V> a, b;
    Elements<R, U * V> r;
    load<T, V, U>(p, 1, x, at, a);
    load<T, V, U>(p, 2, y, at, b);
    Ops::apply(p.op, a, b, r);
    store<R, V, U>(p, out, at, r);
}

template <class T, class R, int V, int U, class Ops>
__device__ __forceinline__ void combine_rows(const Nest& p, char* out, const char* x, const char* y) {
    Items<U> at;
    find_rows<V, U, 3>(p, at);
    Elements<T, U * V> a, b;
    Elements<R, U * V> r;
    T one_a[U], one_b[U];
    fetch<T, V, U>(p, 1, x, at, a, one_a);
    fetch<T, V, U>(p, 2, y, at, b, one_b);
    spread<T, V, U>(p, 1, a, one_a);
    spread<T, V, U>(p, 2, b, one_b);
    Ops::apply(p.op, a, b, r);
    put_rows<R, V, U>(out, at, r);
}

// out = op(x, y, z), with elements of type S for x and of type T for the others.
template <class S, class T, int V, class Ops, class P>
__device__ __forceinline__ void choose(const P& p, char* out, const char* x, const char* y, const char* z) {
    const int size[4] = {sizeof(T), sizeof(S), sizeof(T), sizeof(T)};
    Location<1> at;
    find<V, 1, 4>(p, size, at);
    if (at.valid[0] == 0) return;
    Elements<S, V> a;
    Elements<T, V> b, c, r;
    load<S, V, 1>(p, 1, x, at, a);
    load<T, V, 1>(p, 2, y, at, b);
    load<T, V, 1>(p, 3, z, at, c);
    Ops::apply(a, b, c, r);
    store<T, V, 1>(p, out, at, r);
}

template <class S, class T, class Ops>
__device__ __forceinline__ void choose_rows(const Nest& p, char* out, const char* x, const char* y, const char* z) {
    constexpr int V = vector<S, T>;
    Items<1> at;
    find_rows<V, 1, 4>(p, at);
    Elements<S, V> a;
    Elements<T, V> b, c, r;
    S one_a[1];
    T one_b[1], one_c[1];
    fetch<S, V, 1>(p, 1, x, at, a, one_a);
    fetch<T, V, 1>(p, 2, y, at, b, one_b);
    fetch<T, V, 1>(p, 3, z, at, c, one_c);
    spread<S, V, 1>(p, 1, a, one_a);
    spread<T, V, 1>(p, 2, b, one_b);
    spread<T, V, 1>(p, 3, c, one_c);
    Ops::apply(a, b, c, r);
    put_rows<T, V, 1>(out, at, r);
}

// Blocks per multiprocessor, which limits registers so that the most threads are resident.
// Complex numbers would spill with that limit.
template <class T> constexpr int resident_blocks = is_complex<T> ? 1 : 16;

#define RESIDENT_KERNEL(name, blocks) extern "C" __global__ void __launch_bounds__(block_threads, blocks) quiver_##name
#define KERNEL(name) RESIDENT_KERNEL(name, 1)

// Vectors per thread: two if the result is narrower, as mostly reads are then in flight,
// and two in rows if fewer threads are resident.
template <class T, class R> constexpr int dense_vectors = sizeof(R) < sizeof(T) ? 2 : 1;
template <class T, class R> constexpr int row_vectors = resident_blocks<T> == 1 ? 2 : dense_vectors<T, R>;

#define DENSE_KERNEL(name, T, R, Ops)                                                          \
    RESIDENT_KERNEL(name##_dense, resident_blocks<T>)(char* out, const char* x, const char* y, const Dense p) { \
        combine<T, R, vector<T, R>, dense_vectors<T, R>, Ops>(p, out, x, y);                   \
    }

#define BINARY_KERNELS(name, T, R, Ops)                                                        \
    DENSE_KERNEL(name, T, R, Ops)                                                              \
    RESIDENT_KERNEL(name##_rows, resident_blocks<T>)(char* out, const char* x, const char* y, const Nest p) { \
        combine_rows<T, R, vector<T, R>, row_vectors<T, R>, Ops>(p, out, x, y);                \
    }                                                                                          \
    KERNEL(name##_nest)(char* out, const char* x, const char* y, const Nest p) {               \
        combine<T, R, few<T, R>, 1, Ops>(p, out, x, y);                                        \
    }

// One element per thread, for operations that cost more than memory.
#define NEST_KERNEL(name, T, R, Ops)                                                           \
    KERNEL(name##_nest)(char* out, const char* x, const char* y, const Nest p) {               \
        combine<T, R, 1, 1, Ops>(p, out, x, y);                                                \
    }

#define CHOICE_KERNELS(name, S, T, Ops)                                                        \
    KERNEL(name##_dense)(char* out, const char* x, const char* y, const char* z, const Dense p) { \
        choose<S, T, vector<S, T>, Ops>(p, out, x, y, z);                                      \
    }                                                                                          \
    KERNEL(name##_rows)(char* out, const char* x, const char* y, const char* z, const Nest p) { \
        choose_rows<S, T, Ops>(p, out, x, y, z);                                               \
    }                                                                                          \
    KERNEL(name##_nest)(char* out, const char* x, const char* y, const char* z, const Nest p) { \
        choose<S, T, few<S, T>, Ops>(p, out, x, y, z);                                         \
    }

// A case of an operation, element by element. A and B are the operands in the type that T
// computes in.
#define EACH(code, expression)                                        \
    case code:                                                        \
        _Pragma("unroll") for (int k = 0; k < N; k++) {               \
            const W A = widen(x[k]), B = widen(y[k]);                 \
            (void)A, (void)B;                                         \
            put(r, k, expression);                                    \
        }                                                             \
        break;

template <class R, int N, class W> __device__ __forceinline__ void put(Elements<R, N>& r, int k, W v) {
    R to;
    narrow((work<R>)v, to);
    r.set(k, to);
}
