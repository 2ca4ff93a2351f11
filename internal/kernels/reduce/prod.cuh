// Products.

#pragma once
#include "reduce/op.cuh"

template <class T> struct ProdInteger : Unnumbered<int64_t> {
    using In = T;
    using Acc = int64_t;
    using Out = int64_t;
    template <int V> using Held = HeldApart<ProdInteger, V>;
    static __device__ __forceinline__ Acc none() { return 1; }
    template <int N> static __device__ __forceinline__ void fold(Acc& a, const T (&x)[N], const Finish&) {
#pragma unroll
        for (int i = 0; i < N; i++) a *= (int64_t)x[i];
    }
    static __device__ __forceinline__ Acc merge(Acc a, Acc b) { return a * b; }
    static __device__ __forceinline__ Out result(Acc a, const Finish&) { return a; }
    PUT_RESULT
    static __device__ __forceinline__ void store(Acc a, char* out, const Finish& f) { store_integer(a, out, f.to, is_unsigned<T>); }
};

// Products of floats, and of integers with a float result, in double.
template <class T, class R> struct ProdFloat : Unnumbered<double> {
    using In = T;
    using Acc = double;
    using Out = R;
    template <int V> using Held = HeldApart<ProdFloat, V>;
    static __device__ __forceinline__ Acc none() { return 1; }
    template <int N> static __device__ __forceinline__ void fold(Acc& a, const T (&x)[N], const Finish&) {
#pragma unroll
        for (int i = 0; i < N; i++) a *= (double)widen(x[i]);
    }
    static __device__ __forceinline__ Acc merge(Acc a, Acc b) { return a * b; }
    static __device__ __forceinline__ Out result(Acc a, const Finish&) {
        Out r;
        round(a, r);
        return r;
    }
    PUT_RESULT
    static __device__ __forceinline__ void store(Acc a, char* out, const Finish& f) { store_float(a, out, f.to); }
};

template <class R> struct ProdComplex : Unnumbered<c128> {
    using In = complex<R>;
    using Acc = c128;
    using Out = In;
    template <int V> using Held = HeldApart<ProdComplex, V>;
    static __device__ __forceinline__ Acc none() { return {1, 0}; }
    template <int N> static __device__ __forceinline__ void fold(Acc& a, const In (&x)[N], const Finish&) {
#pragma unroll
        for (int i = 0; i < N; i++) a = merge(a, {(double)x[i].re, (double)x[i].im});
    }
    static __device__ __forceinline__ Acc merge(const Acc& a, const Acc& b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
    static __device__ __forceinline__ Out result(const Acc& a, const Finish&) { return {(R)a.re, (R)a.im}; }
    PUT_RESULT
    static __device__ __forceinline__ void store(const Acc& a, char* out, const Finish& f) { store_complex(a.re, a.im, out, f.to); }
};
