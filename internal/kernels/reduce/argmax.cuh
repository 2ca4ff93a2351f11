// The position and the value of the first maximum.

#pragma once
#include "reduce/order.cuh"

// The type in which elements are compared: for elements of 1 or 2 bytes integers of the
// same order, for larger ones as in Order.
template <class T, int size = sizeof(T)> struct Ranks {
    using O = Order<T>;
    using W = typename O::W;
    static __device__ __forceinline__ W lowest() { return O::lowest(); }
    static __device__ __forceinline__ W of(T x, const Finish& f) { return O::of(x, f); }
    static __device__ __forceinline__ bool over(W a, W b) { return O::over(a, b); }
    // The greatest element of a vector.
    static __device__ __forceinline__ W best(const Row<16>& row, const Finish& f) {
        T x[16 / size];
        memcpy(x, row.w, 16);
        W w = of(x[0], f);
#pragma unroll
        for (int k = 1; k < 16 / size; k++) w = O::best(w, of(x[k], f));
        return w;
    }
};
template <class T> struct Ranks<T, 2> {
    using W = int32_t;
    static __device__ __forceinline__ W lowest() { return (W)(1u << 31); }
    static __device__ __forceinline__ W of(T x, const Finish& f) {
        uint16_t half;
        memcpy(&half, &x, 2);
        return (int16_t)ordered(half, f, T());
    }
    static __device__ __forceinline__ bool over(W a, W b) { return a > b; }
    static __device__ __forceinline__ W best(const Row<16>& row, const Finish& f) {
        uint32_t w = row.w[0] ^ flip_pair<T>(f);
#pragma unroll
        for (int i = 1; i < 4; i++) w = best_pair<T>(w, row.w[i] ^ flip_pair<T>(f));
        w = ordered(w ^ flip_pair<T>(f), f, T());
        return max((int32_t)w >> 16, (int32_t)(w << 16) >> 16);
    }
};
template <class T> struct Ranks<T, 1> : Order<T> {
    static __device__ __forceinline__ int32_t best(const Row<16>& row, const Finish& f) { return best_byte(row.w, flips(f)); }
};

// A candidate as one number, the greater the better, for elements of 1 or 2 bytes: the
// element in the highest bits, and below it the 48-bit step number counted backwards.
constexpr int64_t last_step = ((int64_t)1 << 48) - 1;
template <class T> struct CandidateKey {
    using W = int32_t;
    int64_t key;
    static __device__ __forceinline__ CandidateKey none() { return {nat}; }
    static __device__ __forceinline__ CandidateKey of(W w, int64_t index) { return {(int64_t)w << 48 | (last_step - index)}; }
    static __device__ __forceinline__ CandidateKey better(const CandidateKey& a, const CandidateKey& b) { return a.key > b.key ? a : b; }
    __device__ __forceinline__ bool is_none() const { return key == nat; }
    __device__ __forceinline__ W rank() const { return (W)(key >> 48); }
    __device__ __forceinline__ int64_t index() const { return ~key & last_step; }
};
// A candidate as element and step number, for larger elements.
template <class T> struct CandidatePair {
    using R = Ranks<T>;
    using W = typename R::W;
    W w;
    int64_t at;
    static __device__ __forceinline__ CandidatePair none() { return {R::lowest(), ~nat}; }
    static __device__ __forceinline__ CandidatePair of(W w, int64_t index) { return {w, index}; }
    static __device__ __forceinline__ CandidatePair better(const CandidatePair& a, const CandidatePair& b) {
        if (R::over(a.w, b.w)) return a;
        if (R::over(b.w, a.w)) return b;
        return a.at <= b.at ? a : b;
    }
    __device__ __forceinline__ bool is_none() const { return at == ~nat; }
    __device__ __forceinline__ W rank() const { return w; }
    __device__ __forceinline__ int64_t index() const { return at; }
};

// The candidates of V columns. For elements of 1 or 2 bytes the row number, counted
// backwards, is placed below the element, so that the greatest key is the first maximum.
template <class T, int V, int size = sizeof(T)> struct Candidates {
    using O = Order<T>;
    using W = typename O::W;
    static constexpr int most = 1 << 30;
    W w[V];
    int32_t at[V];
    __device__ __forceinline__ Candidates() {
#pragma unroll
        for (int k = 0; k < V; k++) w[k] = O::lowest(), at[k] = 0;
    }
    template <int U> __device__ __forceinline__ void add(const RowOf<T, V> (&rows)[U], int i, const Finish& f) {
        T x[U][V];
#pragma unroll
        for (int u = 0; u < U; u++) memcpy(x[u], rows[u].w, sizeof x[u]);
#pragma unroll
        for (int k = 0; k < V; k++) {
            // Compares pairs, then the winners of pairs, and so on.
            W best[U];
            int32_t which[U];
#pragma unroll
            for (int u = 0; u < U; u++) best[u] = O::of(x[u][k], f), which[u] = u;
#pragma unroll
            for (int apart = 1; apart < U; apart *= 2) {
#pragma unroll
                for (int u = 0; u + apart < U; u += 2 * apart) {
                    const bool over = O::over(best[u + apart], best[u]);
                    best[u] = over ? best[u + apart] : best[u];
                    which[u] = over ? which[u + apart] : which[u];
                }
            }
            const bool over = O::over(best[0], w[k]);
            w[k] = over ? best[0] : w[k];
            at[k] = over ? i + which[0] : at[k];
        }
    }
    __device__ __forceinline__ W rank(int k) const { return w[k]; }
    __device__ __forceinline__ int32_t row(int k) const { return at[k]; }
};
__device__ __forceinline__ int32_t greatest(int32_t a, int32_t b, int32_t c) {
#if __CUDA_ARCH__ >= 900
    return __vimax3_s32(a, b, c);
#else
    return max(max(a, b), c);
#endif
}
template <class T, int V> struct Candidates<T, V, 2> {
    static constexpr int most = 1 << 16;
    int32_t keys[V];
    __device__ __forceinline__ Candidates() {
#pragma unroll
        for (int k = 0; k < V; k++) keys[k] = (int32_t)(1u << 31);
    }
    template <int U> __device__ __forceinline__ void add(const Row<2 * V> (&rows)[U], int i, const Finish& f) {
        constexpr int together = U > 1 ? 2 : 1;  // elements per instruction
#pragma unroll
        for (int u = 0; u < U; u += together) {
            const uint32_t tag = 0xffff - i - u;
#pragma unroll
            for (int k = 0; k < V; k += 2) {
                uint32_t pair[together];
#pragma unroll
                for (int t = 0; t < together; t++) pair[t] = ordered(rows[u + t].w[k / 2], f, T());
                const auto low = [&](int t) { return (int32_t)__byte_perm(pair[t], tag - t, 0x1054); };
                const auto high = [&](int t) { return (int32_t)((pair[t] & 0xffff0000u) | (tag - t)); };
                keys[k] = greatest(keys[k], low(0), low(together - 1));
                if constexpr (V > 1) keys[k + 1] = greatest(keys[k + 1], high(0), high(together - 1));
            }
        }
    }
    __device__ __forceinline__ int32_t rank(int k) const { return keys[k] >> 16; }
    __device__ __forceinline__ int32_t row(int k) const { return ~keys[k] & 0xffff; }
};
template <class T, int V> struct Candidates<T, V, 1> {
    static constexpr int most = 1 << 8;
    static constexpr int N = V > 4 ? V / 4 : 1;
    uint32_t even[N], odd[N];
    __device__ __forceinline__ Candidates() {
#pragma unroll
        for (int k = 0; k < N; k++) even[k] = odd[k] = 0x80008000u;
    }
    template <int U> __device__ __forceinline__ void add(const Row<V> (&rows)[U], int i, const Finish& f) {
        const uint32_t last = (flips(f) & 0xff00ff00u) + (0xff - i) * 0x10001u;
#pragma unroll
        for (int u = 0; u < U; u++) {
            const uint32_t flip_and_tag = last - u * 0x10001u;
#pragma unroll
            for (int k = 0; k < N; k++) {
                odd[k] = greater_pair(odd[k], (rows[u].w[k] & 0xff00ff00u) ^ flip_and_tag);
                even[k] = greater_pair(even[k], (rows[u].w[k] << 8 & 0xff00ff00u) ^ flip_and_tag);
            }
        }
    }
    __device__ __forceinline__ int32_t key(int k) const {
        const uint32_t w = k % 2 ? odd[k / 4] : even[k / 4];
        return (k & 2 ? (int32_t)w : (int32_t)(w << 16)) >> 16;
    }
    __device__ __forceinline__ int32_t rank(int k) const { return key(k) >> 8; }
    __device__ __forceinline__ int32_t row(int k) const { return ~key(k) & 0xff; }
};

// The position of the first maximum.
template <class T> struct ArgMax {
    static constexpr bool is_numbered = true;
    using In = T;
    using Ranks = ::Ranks<T>;
    using Acc = typename Choose<sizeof(T) <= 2, CandidateKey<T>, CandidatePair<T>>::type;
    using Out = int64_t;
    static __device__ __forceinline__ Acc none() { return Acc::none(); }
    template <int V> struct Held : Candidates<T, V> {
        __device__ __forceinline__ Acc of(int k, int64_t number, int64_t step) const { return Acc::of(this->rank(k), number + this->row(k) * step); }
    };
    // Returns the first element of a vector with that rank, its greatest.
    static __device__ __forceinline__ int find(const Row<16>& row, typename Ranks::W rank, const Finish& f) {
        constexpr int V = 16 / sizeof(T);
        T x[V];
        memcpy(x, row.w, 16);
        int at = V - 1;
#pragma unroll
        for (int k = V - 2; k >= 0; k--) at = Ranks::over(rank, Ranks::of(x[k], f)) ? at : k;
        return at;
    }
    static __device__ __forceinline__ Acc one(T x, int64_t index, const Finish& f) { return Acc::of(Ranks::of(x, f), index); }
    static __device__ __forceinline__ Acc merge(const Acc& a, const Acc& b) { return Acc::better(a, b); }
    static __device__ __forceinline__ Acc numbered(const Acc& a, int64_t s, int64_t fold) {
        return a.is_none() ? a : Acc::of(a.rank(), a.index() * fold + s);
    }
    static __device__ __forceinline__ Out result(const Acc& a, const Finish&) { return a.index(); }
    PUT_RESULT
    static __device__ __forceinline__ void store(const Acc& a, char* out, const Finish&) { *(int64_t*)out = a.index(); }
};

// The first maximum itself, for complex numbers: distinct ones may be unordered. NaNs are
// greater than all others.
template <class T> struct FirstMax : ArgMax<T> {
    using Acc = typename ArgMax<T>::Acc;
    using Out = T;
    static __device__ __forceinline__ Out result(const Acc& a, const Finish& f) { return Order<T>::back(a.rank(), f); }
    PUT_RESULT
    static __device__ __forceinline__ void store(const Acc& a, char* out, const Finish& f) { put(a, out, f); }
};
