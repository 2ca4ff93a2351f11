// Maxima, and minima as maxima of flipped elements.

#pragma once
#include "reduce/order.cuh"

template <class T> struct Max : Unnumbered<typename Order<T>::W> {
    using In = T;
    using O = Order<T>;
    using Acc = typename O::W;
    using Out = T;
    static __device__ __forceinline__ Acc none() { return O::lowest(); }
    template <int N> static __device__ __forceinline__ void fold(Acc& a, const T (&x)[N], const Finish& f) {
#pragma unroll
        for (int i = 0; i < N; i++) a = O::best(a, O::of(x[i], f));
    }
    template <int N> static __device__ __forceinline__ void fold_words(Acc& a, const uint32_t (&w)[N], const Finish& f) {
        a = max(a, best_byte(w, flips(f)));
    }
    // Bytes in the upper halves of 16-bit integers, as in best_byte.
    template <int V> struct HeldBytes {
        static constexpr int most = 1 << 30, N = V / 4;
        uint32_t even[N], odd[N];
        __device__ __forceinline__ HeldBytes() {
#pragma unroll
            for (int i = 0; i < N; i++) even[i] = odd[i] = 0x80008000u;
        }
        template <int U> __device__ __forceinline__ void add(const Row<V> (&rows)[U], int, const Finish& f) {
#pragma unroll
            for (int u = 0; u < U; u++) {
#pragma unroll
                for (int i = 0; i < N; i++) {
                    odd[i] = greater_pair(odd[i], rows[u].w[i] ^ flips(f));
                    even[i] = greater_pair(even[i], (rows[u].w[i] ^ flips(f)) << 8);
                }
            }
        }
        __device__ __forceinline__ Acc of(int k, int64_t, int64_t) const {
            const uint32_t w = k % 2 ? odd[k / 4] : even[k / 4];
            return (k & 2 ? (int32_t)w : (int32_t)(w << 16)) >> 24;
        }
    };
    template <int V> struct HeldPairs {
        static constexpr int most = 1 << 30;
        uint32_t pairs[V / 2];
        __device__ __forceinline__ HeldPairs() {
            T lowest;
            if constexpr (is_float<T>) narrow(O::lowest(), lowest);
            else lowest = 0x8000;
#pragma unroll
            for (int i = 0; i < V / 2; i++) memcpy(&pairs[i], &lowest, 2), memcpy((char*)&pairs[i] + 2, &lowest, 2);
        }
        template <int U> __device__ __forceinline__ void add(const Row<2 * V> (&rows)[U], int, const Finish& f) {
#pragma unroll
            for (int u = 0; u < U; u++) {
#pragma unroll
                for (int i = 0; i < V / 2; i++) pairs[i] = best_pair<T>(pairs[i], rows[u].w[i] ^ flip_pair<T>(f));
            }
        }
        __device__ __forceinline__ Acc of(int k, int64_t, int64_t) const {
            const uint16_t half = (uint16_t)(k % 2 ? pairs[k / 2] >> 16 : pairs[k / 2]);
            if constexpr (is_float<T>) return widen(T{half});
            else return (int16_t)half;
        }
    };
    template <int V> using Held = typename Choose<sizeof(T) == 1 && V % 4 == 0, HeldBytes<V>,
                                  typename Choose<sizeof(T) == 2 && V % 2 == 0, HeldPairs<V>, HeldApart<Max, V>>::type>::type;
    static __device__ __forceinline__ Acc merge(const Acc& a, const Acc& b) { return O::best(a, b); }
    static __device__ __forceinline__ Out result(const Acc& a, const Finish& f) { return O::back(a, f); }
    PUT_RESULT
    static __device__ __forceinline__ void store(const Acc& a, char* out, const Finish& f) { *(T*)out = O::back(a, f); }
};
