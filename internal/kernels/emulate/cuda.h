// The parts of CUDA that the emulated kernels need, on a CPU: see fibers.cpp.

#pragma once
#include <cstdint>
#include <type_traits>

#define __device__
#define __global__
#define __constant__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)

struct Index { unsigned x = 0, y = 0; };
extern Index threadIdx, blockIdx, blockDim, gridDim;
extern unsigned char dynamic_shared[];

struct alignas(8) uint2 { uint32_t x, y; };
struct alignas(16) uint4 { uint32_t x, y, z, w; };

void __syncthreads();
int __syncthreads_and(int);
int __syncthreads_or(int);
void __syncwarp(unsigned = ~0u);
void sync_threads(int barrier, int threads);  // of compress/batch.cuh
unsigned __ballot_sync(unsigned, int);
uint32_t exchange(uint32_t value, int lane);  // with the other threads of a warp

template <typename T> T __shfl_sync(unsigned, T value, int lane) {
    static_assert(sizeof(T) % 4 == 0);
    union { T whole; uint32_t part[sizeof(T) / 4]; } v{value};
    for (uint32_t& part : v.part) part = exchange(part, lane);
    return v.whole;
}

template <typename T> T __ldg(const T* p) { return *p; }
template <typename T> T __ldcg(const T* p) { return *p; }
inline void __threadfence() {}
template <typename A, typename B> std::common_type_t<A, B> min(A a, B b) { return std::common_type_t<A, B>(a) < std::common_type_t<A, B>(b) ? a : b; }
template <typename A, typename B> std::common_type_t<A, B> max(A a, B b) { return std::common_type_t<A, B>(a) > std::common_type_t<A, B>(b) ? a : b; }
inline uint32_t __umulhi(uint32_t a, uint32_t b) { return (uint64_t)a * b >> 32; }
inline uint64_t __umul64hi(uint64_t a, uint64_t b) { return (unsigned __int128)a * b >> 64; }
inline uint32_t __funnelshift_r(uint32_t lo, uint32_t hi, uint32_t by) { return ((uint64_t)hi << 32 | lo) >> (by & 31); }

inline uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t selector) {
    const uint64_t both = (uint64_t)b << 32 | a;
    uint32_t result = 0;
    for (int i = 0; i < 4; i++) result |= (uint32_t)(both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
    return result;
}

template <typename T> T __shfl_up_sync(unsigned mask, T value, int by) {
    const int lane = threadIdx.x % 32;
    return __shfl_sync(mask, value, lane >= by ? lane - by : lane);
}
template <typename T> T __shfl_down_sync(unsigned mask, T value, int by) {
    const int lane = threadIdx.x % 32;
    return __shfl_sync(mask, value, lane + by < 32 ? lane + by : lane);
}
template <typename T> T __shfl_xor_sync(unsigned mask, T value, int with) { return __shfl_sync(mask, value, threadIdx.x % 32 ^ with); }
inline unsigned __match_any_sync(unsigned mask, uint32_t value) {
    unsigned same = 0;
    for (int i = 0; i < 32; i++) same |= (__shfl_sync(mask, value, i) == value) << i;
    return same;
}
inline int __any_sync(unsigned mask, int truth) { return __ballot_sync(mask, truth) != 0; }
inline uint32_t __brev(uint32_t v) {
    uint32_t r = 0;
    for (int i = 0; i < 32; i++) r |= (v >> i & 1) << (31 - i);
    return r;
}
inline int __popc(uint32_t v) { return __builtin_popcount(v); }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __clz(int v) { return v ? __builtin_clz(v) : 32; }
inline uint32_t __funnelshift_l(uint32_t low, uint32_t high, uint32_t by) { return by & 31 ? high << (by & 31) | low >> (32 - (by & 31)) : high; }
inline uint32_t __funnelshift_lc(uint32_t low, uint32_t high, uint32_t by) { return by >= 32 ? low : by ? high << by | low >> (32 - by) : high; }
inline uint32_t __funnelshift_rc(uint32_t low, uint32_t high, uint32_t by) { return by >= 32 ? high : by ? low >> by | high << (32 - by) : low; }
template <typename T> T atomicOr(T* p, T v) {
    const T before = *p;
    *p |= v;
    return before;
}
template <typename T> T atomicXor(T* p, T v) {
    const T before = *p;
    *p ^= v;
    return before;
}
template <typename T> T atomicAdd(T* p, T v) {
    const T before = *p;
    *p += v;
    return before;
}
template <typename T> T atomicCAS(T* p, T compare, T v) {
    const T before = *p;
    if (before == compare) *p = v;
    return before;
}
template <typename T> T atomicMax(T* p, T v) {
    const T before = *p;
    if (v > before) *p = v;
    return before;
}
inline uint32_t __dp4a(uint32_t a, uint32_t b, uint32_t sum) {
    for (int i = 0; i < 32; i += 8) sum += (a >> i & 255) * (b >> i & 255);
    return sum;
}
