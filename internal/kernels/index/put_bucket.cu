// dst[pos[j]] = values[j] for many random positions, faster than random writes to memory:
// the counterpart of take_bucket.cu. If a position repeats, the last value wins, see
// put.cu.
//
// Each tile of the positions is sorted by bucket, and its values with them. Then all
// claims, and all writes, of a bucket happen while it is in the cache.

#include "common/warp.cuh"
#include "index/bucket.cuh"

constexpr int tile = 4096;
constexpr int each = tile / threads;

// keys[i] = the sorted positions, sorted[i] = their values, and origins[i] = their places
// in the tile before sorting. starts[tile*buckets + b] is where bucket b begins in the
// tile. One block per tile.
template <typename T>
__device__ __forceinline__ void sort_puts(const int64_t* __restrict__ pos, const T* __restrict__ values, uint32_t* __restrict__ keys,
                                          uint16_t* __restrict__ origins, T* __restrict__ sorted, uint16_t* __restrict__ starts,
                                          int64_t n, int32_t shift, int32_t buckets) {
    __shared__ uint32_t key_at[tile], count[most_buckets];
    __shared__ uint16_t origin_at[tile];
    const int64_t base = (int64_t)blockIdx.x * tile;
    const int here = (int)min((int64_t)tile, n - base);
    if (threadIdx.x < most_buckets) count[threadIdx.x] = 0;
    __syncthreads();
    uint32_t key[each], rank[each];
#pragma unroll
    for (int e = 0; e < each; e++) key[e] = (uint32_t)__ldcs((const long long*)(pos + base + min(e * threads + (int)threadIdx.x, here - 1)));
#pragma unroll
    for (int e = 0; e < each; e++)
        if (e * threads + (int)threadIdx.x < here) rank[e] = atomicAdd(count + (key[e] >> shift), 1u);
    __syncthreads();
    sum_counts(count);
    for (int b = threadIdx.x; b < buckets; b += threads) starts[(int64_t)blockIdx.x * buckets + b] = (uint16_t)count[b];
#pragma unroll
    for (int e = 0; e < each; e++) {
        const int i = e * threads + (int)threadIdx.x;
        if (i >= here) break;
        const uint32_t to = count[key[e] >> shift] + rank[e];
        key_at[to] = key[e];
        origin_at[to] = (uint16_t)i;
    }
    __syncthreads();
#pragma unroll
    for (int e = 0; e < each; e++) {
        const int i = e * threads + (int)threadIdx.x;
        if (i >= here) break;
        __stcs(keys + base + i, key_at[i]);
        __stcs(origins + base + i, origin_at[i]);
        __stcs(sorted + base + i, __ldg(values + base + origin_at[i]));
    }
}

// The items of one bucket in a tile, which one warp processes. Neighbouring blocks have the
// same bucket, so that few buckets are written at a time.
struct Part {
    int64_t base;    // of the tile
    int begin, end;  // in it
};

__device__ __forceinline__ Part part_of(const uint16_t* __restrict__ starts, int64_t n, int32_t tiles, int32_t buckets, int32_t blocks_per_bucket) {
    const int32_t b = blockIdx.x / blocks_per_bucket;
    const int32_t t = blockIdx.x % blocks_per_bucket * (blockDim.x / warp_size) + threadIdx.x / warp_size;
    const int64_t base = (int64_t)t * tile;
    if (t >= tiles) return {base, 0, 0};
    const uint16_t* start = starts + (int64_t)t * buckets + b;
    return {base, start[0], b + 1 < buckets ? start[1] : (int)min((int64_t)tile, n - base)};
}

// claims[keys[i]] = the largest item number plus one. All claims must be 0 at first.
extern "C" __global__ void quiver_put_claim(const uint32_t* __restrict__ keys, const uint16_t* __restrict__ origins, uint32_t* claims,
                                            const uint16_t* __restrict__ starts, int64_t n, int32_t tiles, int32_t buckets, int32_t blocks) {
    const Part p = part_of(starts, n, tiles, buckets, blocks);
    const uint32_t first = (uint32_t)p.base + 1;
#pragma unroll 4
    for (int i = p.begin + lane(); i < p.end; i += warp_size) atomicMax(claims + __ldcs(keys + p.base + i), first + __ldcs(origins + p.base + i));
}

// dst[keys[i]] = sorted[i] for items whose claim is the largest.
template <typename T>
__device__ __forceinline__ void write(T* __restrict__ dst, const uint32_t* __restrict__ keys, const uint16_t* __restrict__ origins,
                                      const T* __restrict__ sorted, const uint32_t* __restrict__ claims, const Part& p) {
    constexpr int unroll = 2;
    const uint32_t first = (uint32_t)p.base + 1;
    for (int i = p.begin + lane(); i < p.end; i += warp_size * unroll) {
        uint32_t key[unroll], item[unroll], claim[unroll];
        T v[unroll];
#pragma unroll
        for (int u = 0; u < unroll; u++) {
            const int64_t at = p.base + min(i + u * warp_size, p.end - 1);
            key[u] = __ldcs(keys + at);
            item[u] = first + __ldcs(origins + at);
            v[u] = __ldcs(sorted + at);
        }
#pragma unroll
        for (int u = 0; u < unroll; u++) claim[u] = __ldg(claims + key[u]);
#pragma unroll
        for (int u = 0; u < unroll; u++)
            if (i + u * warp_size < p.end && claim[u] == item[u]) dst[key[u]] = v[u];
    }
}

#define PUT(WIDTH, T)                                                                                                  \
    extern "C" __global__ void __launch_bounds__(threads) quiver_put_sort_##WIDTH(                                     \
        const int64_t* pos, const T* values, uint32_t* keys, uint16_t* origins, T* sorted, uint16_t* starts, int64_t n, \
        int32_t shift, int32_t buckets) {                                                                              \
        sort_puts(pos, values, keys, origins, sorted, starts, n, shift, buckets);                                      \
    }                                                                                                                  \
    extern "C" __global__ void quiver_put_write_##WIDTH(T* dst, const uint32_t* keys, const uint16_t* origins,         \
                                                        const T* sorted, const uint32_t* claims,                       \
                                                        const uint16_t* starts, int64_t n, int32_t tiles,              \
                                                        int32_t buckets, int32_t blocks) {                             \
        write(dst, keys, origins, sorted, claims, part_of(starts, n, tiles, buckets, blocks));                         \
    }

PUT(4, uint32_t)
PUT(8, uint2)
