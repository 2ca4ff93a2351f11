// Casts of contiguous arrays. Neighbouring threads convert neighbouring vectors, of 16
// bytes on the side with the wider element.

#pragma once
#include "elementwise/cast_bytes.cuh"

constexpr int block_threads = 256;

// Vectors per thread: two if there are more bytes to read than to write, so that more reads
// are in flight. Otherwise one, as writes should be in the order of addresses.
template <class S, class D> constexpr int unroll = sizeof(S) > sizeof(D) ? 2 : 1;

template <class T, int V> struct alignas(V * sizeof(T)) Vector { T v[V]; };
template <bool first, class A, class B> struct Either { using type = A; };
template <class A, class B> struct Either<false, A, B> { using type = B; };

// limit is 1 for bytes that represent bools, so that any byte but 0 counts as 1.
template <class S> __device__ __forceinline__ S limited(S v, uint32_t) { return v; }
__device__ __forceinline__ uint8_t limited(uint8_t v, uint32_t limit) { return v < limit ? v : (uint8_t)limit; }

// Results that are far wider than their source are the first to be evicted from the cache.
template <class S, class D> constexpr bool far_wider = sizeof(D) >= 4 * sizeof(S);

// Switching between writing and reading costs memory time, so if most of the traffic is
// writes, reads should come in bursts. Of all blocks that read one burst, the first ones
// prefetch the next burst to L2. On an H200 this is 1 to 12 percent faster; a burst twice
// as large is partly evicted before it is read. The instruction needs compute capability
// 9.0.
constexpr int burst = 3 << 20, burst_blocks = 512;

template <class S, class D> __device__ __forceinline__ void prefetch(const S* in, int64_t n) {
#if __CUDA_ARCH__ >= 900
    constexpr int share = burst / burst_blocks, blocks = burst / (block_threads * 16 / sizeof(D) * sizeof(S));
    const int block = blockIdx.x % blocks;
    if (threadIdx.x != 0 || block >= burst_blocks) return;
    const char* at = (const char*)in - (uintptr_t)in % 16 + (int64_t)(blockIdx.x / blocks + 1) * burst + block * share;
    if (at + share <= (const char*)(in + n)) asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(at), "r"(share));
#endif
}

template <class S, class D, int V>
__device__ __forceinline__ void cast_vector(const Vector<S, V>& from, Vector<D, V>* to, uint32_t limit) {
    Vector<D, V> out;
#pragma unroll
    for (int k = 0; k < V; k++) out.v[k] = convert<D>(limited(from.v[k], limit));
    if constexpr (far_wider<S, D>) __stcs((uint4*)to, *(const uint4*)&out);
    else *to = out;
}

// Bytes, four per word.
template <class S, class D, int V>
__device__ __forceinline__ void cast_vector(const Vector<uint32_t, V>& from, Vector<uint32_t, V * sizeof(D)>* to, uint32_t limit) {
    uint32_t out[V][sizeof(D)];
#pragma unroll
    for (int k = 0; k < V; k++) cast_word<S, D>(!is_signed<S> && limit == 1 ? truths(from.v[k]) : from.v[k], out[k]);
    const Vector<uint32_t, V * sizeof(D)> vector = *(const Vector<uint32_t, V * sizeof(D)>*)out;
    if constexpr (far_wider<S, D>) __stcs((uint4*)to, *(const uint4*)&vector);
    else *to = vector;
}

template <class S, class D>
__device__ __forceinline__ void cast_all(const S* __restrict__ in, D* __restrict__ out, int64_t n, int head, uint32_t limit) {
    constexpr int V = 16 / (sizeof(S) > sizeof(D) ? sizeof(S) : sizeof(D)), U = unroll<S, D>;
    constexpr bool words = is_byte<S> && V >= 4;
    using From = typename Either<words, Vector<uint32_t, V / 4>, Vector<S, V>>::type;
    using To = typename Either<words, Vector<uint32_t, V * sizeof(D) / 4>, Vector<D, V>>::type;
    if constexpr (sizeof(D) > sizeof(S)) prefetch<S, D>(in, n);
    const uint64_t vectors = (uint64_t)(n - head) / V;
    const uint64_t first = (uint64_t)blockIdx.x * (block_threads * U) + threadIdx.x;
    const From* from = (const From*)(in + head) + first;
    To* to = (To*)(out + head) + first;
    if (first - threadIdx.x + block_threads * U <= vectors) {
        From v[U];
#pragma unroll
        for (int u = 0; u < U; u++) v[u] = from[u * block_threads];
#pragma unroll
        for (int u = 0; u < U; u++) cast_vector<S, D>(v[u], to + u * block_threads, limit);
    } else {
#pragma unroll 1
        for (int u = 0; u < U && first + u * block_threads < vectors; u++)
            cast_vector<S, D>(from[u * block_threads], to + u * block_threads, limit);
    }
    if (blockIdx.x == 0 && threadIdx.x < n - vectors * V) {  // elements before and after the vectors
        const int64_t i = threadIdx.x + ((int)threadIdx.x < head ? 0 : vectors * V);
        out[i] = convert<D>(limited(in[i], limit));
    }
}

// Whether S already has the bits of D, so that there is no cast kernel.
template <class S, class D> constexpr bool has_bits =
    same<S, D> || (is_integer<S> && is_integer<D> && sizeof(S) == sizeof(D) && !same<D, b8>);

// Destination types that receive the same bits from S share a case.
template <class S> __device__ __forceinline__ void cast_to(uint32_t type, const S* in, void* out, int64_t n, int head, uint32_t limit) {
#define CASE(code, D)                                                                           \
    case code:                                                                                  \
        if constexpr (!has_bits<S, D>) cast_all<S, D>(in, (D*)out, n, head, limit);             \
        break;
#define CASE_UNLESS_INTEGER(code, D)                        \
    case code:                                              \
        if constexpr (!is_integer<S>) {                     \
            cast_all<S, D>(in, (D*)out, n, head, limit);    \
            break;                                          \
        }
    switch (type) {
    CASE(type_bool, b8)
    case type_u8:
    CASE(type_i8, int8_t)
    case type_u16:
    CASE(type_i16, int16_t)
    CASE_UNLESS_INTEGER(type_u32, uint32_t)
    CASE(type_i32, int32_t)
    CASE_UNLESS_INTEGER(type_u64, uint64_t)
    CASE(type_i64, int64_t)
    CASE(type_f16, f16)
    CASE(type_bf16, bf16)
    CASE(type_f32, float)
    CASE(type_f64, double)
    CASE(type_c64, c64)
    CASE(type_c128, c128)
    }
#undef CASE
#undef CASE_UNLESS_INTEGER
}

// out[i] = in[i] cast to `type`, for 0 <= i < n. From element `head` on, both sides are
// aligned to vectors.
#define CAST_FROM(name, S)                                                                                           \
    extern "C" __global__ void __launch_bounds__(block_threads)                                                      \
        quiver_cast_##name(const S* in, void* out, int64_t n, int head, uint32_t type, uint32_t limit) {             \
        cast_to<S>(type, in, out, n, head, limit);                                                                   \
    }
