// Resolves indices of any integer type to positions.

#include "common/walk.cuh"

// Mode and IndexMap must match the types of internal/cpu.
enum Mode : int32_t { raise, wrap, clip };
struct IndexMap {
    int64_t extent, scale, bias;
    Mode mode;
    int32_t add;
    int32_t size;  // bytes of an index
    int32_t is_signed;
};

// Loads a little-endian integer of any alignment.
__device__ __forceinline__ uint64_t load(const uint8_t* from, int32_t size) {
    if (size == 8 && ((uintptr_t)from & 7) == 0) return *(const uint64_t*)from;
    if (size == 4 && ((uintptr_t)from & 3) == 0) return *(const uint32_t*)from;
    uint64_t bits = 0;
#pragma unroll 1
    for (int b = 0; b < size; b++) bits |= (uint64_t)from[b] << (8 * b);
    return bits;
}

__device__ __forceinline__ int64_t resolve(uint64_t bits, const IndexMap& f, int64_t item, unsigned long long* flag) {
    const int beyond = 64 - 8 * f.size;
    const int64_t i = f.is_signed ? (int64_t)(bits << beyond) >> beyond : (int64_t)bits;
    if ((uint64_t)i < (uint64_t)f.extent) return i;
    const bool negative = f.is_signed && i < 0;
    if (f.mode == clip) return negative ? 0 : f.extent - 1;
    if (f.mode == wrap) {
        if (!negative) return (int64_t)(bits % (uint64_t)f.extent);
        const int64_t k = i % f.extent;
        return k < 0 ? k + f.extent : k;
    }
    if (negative) return resolve(i, f.extent, item, flag);
    atomicMin(flag, (unsigned long long)item);
    return 0;
}

// pos[item] = the element that the item's index selects, times scale, plus bias. It is
// added to the previous value if f.add. A bad index lowers the flag to first + item.
extern "C" __global__ void quiver_resolve_indices(const uint8_t* __restrict__ indices, int64_t* __restrict__ pos,
                                       const __grid_constant__ Walk w, const __grid_constant__ IndexMap f, int64_t first,
                                       unsigned long long* flag) {
    int64_t index[unroll] = {};
    locate(w, [&](int k, int u, int64_t i) { index[u] += i * w.index[k]; });
    uint64_t bits[unroll];
#pragma unroll
    for (int u = 0; u < unroll; u++) bits[u] = load(indices + index[u], f.size);
#pragma unroll
    for (int u = 0; u < unroll; u++) {
        if (!is_item(w, u)) break;
        const uint32_t item = first_item() + u * blockDim.x;
        const int64_t p = resolve(bits[u], f, first + item, flag) * f.scale + f.bias;
        pos[item] = f.add ? pos[item] + p : p;
    }
}
