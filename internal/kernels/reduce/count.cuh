// Counts nonzero elements.

#pragma once
#include "reduce/op.cuh"

// Counts the elements that have any of the bits of f.flip.
template <class T> struct Count : Unnumbered<int64_t> {
    using In = T;
    using Acc = int64_t;
    using Out = int64_t;
    static __device__ __forceinline__ Acc none() { return 0; }
    static __device__ __forceinline__ bool set(T x, uint64_t mask) { return (x & (T)mask) != 0; }
    // Sets the highest bit of each byte that is not 0.
    static __device__ __forceinline__ uint32_t set_bytes(uint32_t w) { return (((w & 0x7f7f7f7fu) + 0x7f7f7f7fu) | w) & 0x80808080u; }
    template <int N> static __device__ __forceinline__ void fold(Acc& a, const T (&x)[N], const Finish& f) {
        int32_t n = 0;
#pragma unroll
        for (int i = 0; i < N; i++) n += set(x[i], f.flip);
        a += n;
    }
    template <int N> static __device__ __forceinline__ void fold_words(Acc& a, const uint32_t (&w)[N], const Finish&) {
        int32_t n = 0;
#pragma unroll
        for (int i = 0; i < N; i++) n += __popc(set_bytes(w[i]));
        a += n;
    }
    // Four counters per word.
    template <int V> struct HeldBytes {
        static constexpr int most = 248, N = V / 4;
        uint32_t counts[N];
        __device__ __forceinline__ HeldBytes() {
#pragma unroll
            for (int i = 0; i < N; i++) counts[i] = 0;
        }
        template <int U> __device__ __forceinline__ void add(const Row<V> (&rows)[U], int, const Finish&) {
#pragma unroll
            for (int u = 0; u < U; u++) {
#pragma unroll
                for (int i = 0; i < N; i++) counts[i] += set_bytes(rows[u].w[i]) >> 7;
            }
        }
        __device__ __forceinline__ Acc of(int k, int64_t, int64_t) const { return counts[k / 4] >> 8 * (k % 4) & 0xff; }
    };
    template <int V> using Held = typename Choose<sizeof(T) == 1 && V % 4 == 0, HeldBytes<V>, HeldApart<Count, V>>::type;
    static __device__ __forceinline__ Acc merge(Acc a, Acc b) { return a + b; }
    static __device__ __forceinline__ Out result(Acc a, const Finish&) { return a; }
    static __device__ __forceinline__ void store(Acc a, char* out, const Finish& f) {
        if (f.what == want_itself) *(int64_t*)out = a;
        else *(uint8_t*)out = f.what == want_any ? a != 0 : a == f.total;
    }
    static __device__ __forceinline__ void put(Acc a, char* out, const Finish& f) { store(a, out, f); }
};
struct alignas(16) Words { uint64_t low, high; };
template <> __device__ __forceinline__ bool Count<Words>::set(Words x, uint64_t mask) { return ((x.low | x.high) & mask) != 0; }
