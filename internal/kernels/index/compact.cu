// Selects elements by a mask, in order.
//
// A block has a tile of the mask, 16 elements per thread. First the true elements of each
// tile are counted, and prefix sums of the counts give the position of each tile's output.
// Then a block lists its true elements in shared memory, and its threads process neighbours
// of that list.

#include "common/scan.cuh"

constexpr int threads = 256;
constexpr int bytes = 16;  // of the mask per thread
constexpr int tile = threads * bytes;

// Bit b is set if byte b of 16 is not 0.
__device__ __forceinline__ uint32_t true_bits(uint4 m) {
    // A byte that is not 0 becomes 0xff; the product brings bit 8*b to bit 28+b.
    auto four = [](uint32_t word) { return (__vcmpne4(word, 0) & 0x01010101u) * 0x10204080u >> 28; };
    return four(m.x) | four(m.y) << 4 | four(m.z) << 8 | four(m.w) << 12;
}

// Returns the mask's elements from `first` on as bits; elements from n on are false.
__device__ __forceinline__ uint32_t load_bits(const uint8_t* __restrict__ mask, int64_t first, int64_t n) {
    if (first + bytes <= n && ((uintptr_t)mask & (bytes - 1)) == 0) return true_bits(__ldg((const uint4*)(mask + first)));
    uint32_t set = 0;
    for (int b = 0; b < bytes && first + b < n; b++) set |= (uint32_t)(mask[first + b] != 0) << b;
    return set;
}

// counts[t] = the number of true elements in mask[t*tile .. t*tile+tile). One block per
// tile.
extern "C" __global__ void quiver_mask_count(const uint8_t* __restrict__ mask, int64_t n, uint32_t* __restrict__ counts) {
    const int64_t first = (int64_t)blockIdx.x * tile + threadIdx.x * bytes;
    uint32_t all;
    sum_before<threads>((uint32_t)__popc(load_bits(mask, first, n)), all);
    if (threadIdx.x == 0) counts[blockIdx.x] = all;
}

// starts[t] = the sum of counts[0 .. t) for 0 <= t <= tiles. A block has 4 tiles per
// thread, and sums all previous counts itself. counts are 16-byte aligned.
extern "C" __global__ void quiver_mask_scan(const uint32_t* __restrict__ counts, int64_t tiles, int64_t* __restrict__ starts) {
    constexpr int each = 4;
    const int64_t first = (int64_t)blockIdx.x * (threads * each);
    int64_t sum = 0, before;
#pragma unroll 4
    for (int64_t t = threadIdx.x; t < first / 4; t += threads) {
        const uint4 four = __ldg((const uint4*)counts + t);
        sum += (int64_t)four.x + four.y + four.z + four.w;
    }
    sum_before<threads>(sum, before);
    const int64_t mine = first + threadIdx.x * each;
    uint32_t c[each];
    int64_t total = 0, all;
    for (int i = 0; i < each; i++) {
        c[i] = mine + i < tiles ? counts[mine + i] : 0;
        total += c[i];
    }
    int64_t start = before + sum_before<threads>(total, all);
    for (int i = 0; i < each; i++) {
        if (mine + i <= tiles) starts[mine + i] = start;
        start += c[i];
    }
}

// Calls do_each(k, i) for the k-th true element of the mask, element i. Neighbouring
// threads have neighbouring k.
template <typename Do>
__device__ __forceinline__ void for_each_true(const uint8_t* __restrict__ mask, int64_t n,
                                              const int64_t* __restrict__ starts, Do do_each) {
    __shared__ uint16_t list[tile];
    const int64_t base = (int64_t)blockIdx.x * tile;
    const int64_t start = starts[blockIdx.x];
    uint32_t set = load_bits(mask, base + threadIdx.x * bytes, n);
    uint32_t all;
    uint32_t at = sum_before<threads>((uint32_t)__popc(set), all);
    for (; set; set &= set - 1) list[at++] = (uint16_t)(threadIdx.x * bytes + __ffs(set) - 1);
    __syncthreads();
#pragma unroll 4
    for (uint32_t k = threadIdx.x; k < all; k += threads) do_each(start + k, base + list[k]);
}

// out[k] = i for the k-th true element i.
extern "C" __global__ void quiver_true_positions(const uint8_t* mask, int64_t n, const int64_t* starts,
                                                 int64_t* __restrict__ out) {
    for_each_true(mask, n, starts, [&](int64_t k, int64_t i) { out[k] = i; });
}

// out[k] = in[i] for the k-th true element i.
template <typename T>
__device__ __forceinline__ void compact(const uint8_t* mask, int64_t n, const int64_t* starts, const T* __restrict__ in,
                                        T* __restrict__ out) {
    for_each_true(mask, n, starts, [&](int64_t k, int64_t i) { out[k] = __ldg(in + i); });
}

// out[i] = in[k * step] for the k-th true element i; step is 1, or 0 for a single value.
template <typename T>
__device__ __forceinline__ void expand(const uint8_t* mask, int64_t n, const int64_t* starts, const T* __restrict__ in,
                                       int64_t step, T* __restrict__ out) {
    for_each_true(mask, n, starts, [&](int64_t k, int64_t i) { out[i] = __ldg(in + k * step); });
}

#define COMPACT(WIDTH, T)                                                                                             \
    extern "C" __global__ void quiver_compact_##WIDTH(const uint8_t* mask, int64_t n, const int64_t* starts,          \
                                                      const T* in, T* out) {                                          \
        compact(mask, n, starts, in, out);                                                                            \
    }                                                                                                                 \
    extern "C" __global__ void quiver_expand_##WIDTH(const uint8_t* mask, int64_t n, const int64_t* starts,           \
                                                     const T* in, int64_t step, T* out) {                             \
        expand(mask, n, starts, in, step, out);                                                                       \
    }

COMPACT(1, uint8_t)
COMPACT(2, uint16_t)
COMPACT(4, uint32_t)
COMPACT(8, uint2)
COMPACT(16, uint4)

// out[axis*n + j] = the index along each axis of position j of n, in C order, for a shape
// of `axes` extents.
struct Shape {
    int64_t axes;
    int64_t extent[32];
};
extern "C" __global__ void quiver_unravel(const int64_t* __restrict__ positions, int64_t n,
                                          const __grid_constant__ Shape shape, int64_t* __restrict__ out) {
    const int64_t j = thread_index();
    if (j >= n) return;
    uint64_t rest = positions[j];
    for (int k = (int)shape.axes - 1; k >= 0; k--) {
        const uint64_t extent = shape.extent[k];
        uint64_t q;
        if (rest >> 32 == 0 && extent >> 32 == 0) q = (uint32_t)rest / (uint32_t)extent;
        else q = rest / extent;
        out[k * n + j] = (int64_t)(rest - q * extent);
        rest = q;
    }
}
