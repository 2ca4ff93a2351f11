// Sums, and means as quotients of sums.

#pragma once
#include "reduce/op.cuh"

// Pairwise summation.
template <int N, class W> __device__ __forceinline__ W tree(const W* x) {
    if constexpr (N == 1) return x[0];
    else return tree<N / 2>(x) + tree<N - N / 2>(x + N / 2);
}

__device__ __forceinline__ int32_t add_bytes(int32_t sum, uint32_t w, int8_t) { return __dp4a((int)w, 0x01010101, sum); }
__device__ __forceinline__ int32_t add_bytes(int32_t sum, uint32_t w, uint8_t) { return (int32_t)__dp4a(w, 0x01010101u, (unsigned)sum); }

template <class T> struct SumInteger : Unnumbered<int64_t> {
    using In = T;
    using Acc = int64_t;
    using Out = int64_t;
    static __device__ __forceinline__ Acc none() { return 0; }
    template <int N> static __device__ __forceinline__ void fold(Acc& a, const T (&x)[N], const Finish&) {
        if constexpr (sizeof(T) < 4) {
            int32_t sum = 0;
#pragma unroll
            for (int i = 0; i < N; i++) sum += x[i];
            a += sum;
        } else {
#pragma unroll
            for (int i = 0; i < N; i++) a += (int64_t)x[i];
        }
    }
    template <int N> static __device__ __forceinline__ void fold_words(Acc& a, const uint32_t (&w)[N], const Finish&) {
        int32_t sums[2] = {0, 0};
#pragma unroll
        for (int i = 0; i < N; i++) sums[i % 2] = add_bytes(sums[i % 2], w[i], T());
        a += sums[0] + sums[1];
    }
    // Signed bytes are treated as unsigned ones that are 128 too large, so that two sums
    // fit a word without a carry between them.
    template <int V> struct HeldBytes {
        static constexpr int most = 256, N = V / 4;
        uint32_t even[N], odd[N];
        int32_t excess;
        __device__ __forceinline__ HeldBytes() : excess(0) {
#pragma unroll
            for (int i = 0; i < N; i++) even[i] = odd[i] = 0;
        }
        template <int U> __device__ __forceinline__ void add(const Row<V> (&rows)[U], int, const Finish&) {
            constexpr uint32_t turn = is_unsigned<T> ? 0 : 0x80808080u;
#pragma unroll
            for (int u = 0; u < U; u++) {
#pragma unroll
                for (int i = 0; i < N; i++) {
                    even[i] += (rows[u].w[i] ^ turn) & 0x00ff00ffu;
                    odd[i] += (rows[u].w[i] ^ turn) >> 8 & 0x00ff00ffu;
                }
            }
            if (!is_unsigned<T>) excess += 128 * U;
        }
        __device__ __forceinline__ Acc of(int k, int64_t, int64_t) const {
            const uint32_t w = k % 2 ? odd[k / 4] : even[k / 4];
            return (int32_t)(k & 2 ? w >> 16 : w & 0xffff) - excess;
        }
    };
    template <int V> using Held = typename Choose<sizeof(T) == 1 && V % 4 == 0, HeldBytes<V>, HeldApart<SumInteger, V>>::type;
    static __device__ __forceinline__ Acc merge(Acc a, Acc b) { return a + b; }
    static __device__ __forceinline__ Out result(Acc a, const Finish&) { return a; }
    PUT_RESULT
    static __device__ __forceinline__ void store(Acc a, char* out, const Finish& f) {
        if (f.what != want_mean) return store_integer(a, out, f.to, is_unsigned<T>);
        store_float((is_unsigned<T> ? (double)(uint64_t)a : (double)a) / (double)f.total, out, f.to);
    }
};

// Returns the sum of four floats, and adds the rounding errors of its additions to lost.
__device__ __forceinline__ float sum_of_four(const float* x, float& lost) {
    const auto add = [&](float a, float b) {
        const float s = a + b, of_b = s - a;
        lost += (a - (s - of_b)) + (b - of_b);
        return s;
    };
    return add(add(x[0], x[1]), add(x[2], x[3]));
}

// Sums of floats of up to 4 bytes, in double: the result is rounded once.
template <class T> struct SumFloat : Unnumbered<double> {
    using In = T;
    using Acc = double;
    using Out = T;
    template <int V> using Held = HeldApart<SumFloat, V>;
    static __device__ __forceinline__ Acc none() { return 0; }
    template <int N> static __device__ __forceinline__ void fold(Acc& a, const T (&x)[N], const Finish&) {
        if constexpr (same<T, f16> && N == 8) {
            // Three conversions to double are faster than eight, and exact: the rounding
            // errors are multiples of 2^-24 of at most 2^-5.
            float w[N], lost = 0;
#pragma unroll
            for (int i = 0; i < N; i++) w[i] = widen(x[i]);
            const double sum = (double)sum_of_four(w, lost) + (double)sum_of_four(w + 4, lost);
            a += sum - sum == 0 ? sum + lost : sum;
        } else {
            double w[N];
#pragma unroll
            for (int i = 0; i < N; i++) w[i] = widen(x[i]);
            a += tree<N>(w);
        }
    }
    static __device__ __forceinline__ Acc merge(Acc a, Acc b) { return a + b; }
    static __device__ __forceinline__ Out result(Acc a, const Finish& f) {
        Out r;
        round(mean_of(a, f), r);
        return r;
    }
    PUT_RESULT
    static __device__ __forceinline__ void store(Acc a, char* out, const Finish& f) {
        store_float(mean_of(a, f), out, f.to);
    }
};

// A sum and the rounding errors of its additions (compensated summation).
struct Exact {
    double sum, rest;
    __device__ __forceinline__ void add(double x) {
        const double s = sum + x, of_x = s - sum;
        rest += (sum - (s - of_x)) + (x - of_x);
        sum = s;
    }
    __device__ __forceinline__ void add(const Exact& b) {
        add(b.sum);
        rest += b.rest;
    }
    // For infinite and overflowed sums rest is meaningless.
    __device__ __forceinline__ double value() const { return sum - sum == 0 ? sum + rest : sum; }
};

// Sums of doubles, or of integers converted to double.
template <class T> struct SumDouble : Unnumbered<Exact> {
    using In = T;
    using Acc = Exact;
    using Out = double;
    template <int V> using Held = HeldApart<SumDouble, V>;
    static __device__ __forceinline__ Acc none() { return {0, 0}; }
    template <int N> static __device__ __forceinline__ void fold(Acc& a, const T (&x)[N], const Finish&) {
        double w[N];
#pragma unroll
        for (int i = 0; i < N; i++) w[i] = (double)x[i];
        a.add(tree<N>(w));
    }
    static __device__ __forceinline__ Acc merge(Acc a, const Acc& b) {
        a.add(b);
        return a;
    }
    static __device__ __forceinline__ Out result(const Acc& a, const Finish& f) { return mean_of(a.value(), f); }
    PUT_RESULT
    static __device__ __forceinline__ void store(const Acc& a, char* out, const Finish& f) { store_float(result(a, f), out, f.to); }
};

// Sums of complex numbers: both parts are summed by S.
template <class R, class S> struct SumComplex {
    static constexpr bool is_numbered = false;
    using In = complex<R>;
    struct Acc { typename S::Acc re, im; };
    using Out = In;
    template <int V> using Held = HeldApart<SumComplex, V>;
    static __device__ __forceinline__ Acc none() { return {S::none(), S::none()}; }
    template <int N> static __device__ __forceinline__ void fold(Acc& a, const In (&x)[N], const Finish& f) {
        R re[N], im[N];
#pragma unroll
        for (int i = 0; i < N; i++) re[i] = x[i].re, im[i] = x[i].im;
        S::template fold<N>(a.re, re, f);
        S::template fold<N>(a.im, im, f);
    }
    static __device__ __forceinline__ Acc merge(const Acc& a, const Acc& b) { return {S::merge(a.re, b.re), S::merge(a.im, b.im)}; }
    static __device__ __forceinline__ Acc numbered(const Acc& a, int64_t, int64_t) { return a; }
    static __device__ __forceinline__ Out result(const Acc& a, const Finish& f) { return {S::result(a.re, f), S::result(a.im, f)}; }
    PUT_RESULT
    static __device__ __forceinline__ void store(const Acc& a, char* out, const Finish& f) {
        double re, im;
        Finish part = f;
        part.to = type_f64;
        S::store(a.re, (char*)&re, part);
        S::store(a.im, (char*)&im, part);
        store_complex(re, im, out, f.to);
    }
};

// Sums of timedeltas: one NaT makes the sum NaT.
struct Ticks { int64_t sum, nats; };
struct SumTicks : Unnumbered<Ticks> {
    using In = int64_t;
    using Acc = Ticks;
    using Out = int64_t;
    template <int V> using Held = HeldApart<SumTicks, V>;
    static __device__ __forceinline__ Acc none() { return {0, 0}; }
    template <int N> static __device__ __forceinline__ void fold(Acc& a, const In (&x)[N], const Finish&) {
#pragma unroll
        for (int i = 0; i < N; i++) {
            a.sum += x[i];
            a.nats |= x[i] == nat;
        }
    }
    static __device__ __forceinline__ Acc merge(const Acc& a, const Acc& b) { return {a.sum + b.sum, a.nats | b.nats}; }
    static __device__ __forceinline__ Out result(const Acc& a, const Finish& f) {
        return a.nats || a.sum == nat ? nat : f.what != want_mean ? a.sum : f.total ? a.sum / f.total : nat;
    }
    PUT_RESULT
    static __device__ __forceinline__ void store(const Acc& a, char* out, const Finish& f) { *(int64_t*)out = result(a, f); }
};
