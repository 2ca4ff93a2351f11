// out[j] = src[indices[j]] for many random indices, faster than random reads of memory.
//
// A random read costs the sector that it fetches. So the source is divided into buckets
// that fit the cache, and all elements of a bucket are fetched together. Each tile of the
// indices is sorted by bucket, in the memory of the result. Then the sorted indices are
// replaced by their elements, bucket by bucket. Finally each tile's elements are put in the
// order of its indices, for which 2 bytes per index are kept.

#include "common/warp.cuh"
#include "index/bucket.cuh"

constexpr int tile_bytes = 32 << 10;
constexpr int part = 4;  // neighbouring items per thread
template <typename T>
constexpr int tile_of = tile_bytes / sizeof(T);

// *count = how many of `threads` pairs of neighbouring indices, evenly spread over the
// array, are more than `far` apart. n is at least 2.
template <typename I>
__device__ __forceinline__ void sample(const I* __restrict__ indices, int64_t n, int64_t far, int32_t* count) {
    const int64_t j = (n - 2) / (threads - 1) * threadIdx.x;
    const int64_t step = (int64_t)indices[j + 1] - (int64_t)indices[j];
    const int many = __syncthreads_count(step > far || -step > far);
    if (threadIdx.x == 0) *count = many;
}

// Loads the four indices from j on as elements of the axis; items from n on are `none`.
constexpr uint32_t none = 0xffffffffu;
template <typename I>
__device__ __forceinline__ void load_part(const I* __restrict__ indices, int64_t j, int64_t n, int64_t extent,
                                          int64_t first, unsigned long long* flag, uint32_t (&key)[part]) {
    I i[part];
    if (j + part <= n) {
        constexpr int quads = part * sizeof(I) / 16;
        int4 raw[quads];
#pragma unroll
        for (int q = 0; q < quads; q++) raw[q] = __ldcs((const int4*)(indices + j) + q);
        memcpy(i, raw, sizeof(i));
    } else {
#pragma unroll
        for (int c = 0; c < part; c++) i[c] = j + c < n ? indices[j + c] : 0;
    }
#pragma unroll
    for (int c = 0; c < part; c++) {
        int64_t k = i[c];
        if (k < 0) k += extent;
        if ((uint64_t)k >= (uint64_t)extent) {
            atomicMin(flag, (unsigned long long)(first + j + c));
            k = 0;
        }
        key[c] = j + c < n ? (uint32_t)k : none;
    }
}

// Sorts the indices of each tile by bucket, index >> shift, into sorted. ranks[j] is the
// position in the tile of item j after sorting; starts[tile*buckets + b] is where bucket b
// begins in the tile. indices and ranks are 16-byte aligned. A bad index lowers the flag to
// first plus its position. One block per tile.
template <typename T, typename I>
__device__ __forceinline__ void sort_tile(const I* __restrict__ indices, T* __restrict__ sorted,
                                          uint16_t* __restrict__ ranks, uint16_t* __restrict__ starts, int64_t n,
                                          int64_t extent, int32_t shift, int32_t buckets, int64_t first,
                                          unsigned long long* flag) {
    constexpr int tile = tile_of<T>, each = tile / threads / part;
    __shared__ uint32_t keys[tile], count[most_buckets];
    const int64_t base = (int64_t)blockIdx.x * tile;
    if (threadIdx.x < most_buckets) count[threadIdx.x] = 0;
    __syncthreads();
    uint32_t key[each][part], rank[each][part];
#pragma unroll
    for (int e = 0; e < each; e++)
        load_part(indices, base + (e * threads + (int)threadIdx.x) * part, n, extent, first, flag, key[e]);
#pragma unroll
    for (int e = 0; e < each; e++)
#pragma unroll
        for (int c = 0; c < part; c++)
            if (key[e][c] != none) rank[e][c] = atomicAdd(count + (key[e][c] >> shift), 1u);
    __syncthreads();
    sum_counts(count);
    for (int b = threadIdx.x; b < buckets; b += threads) starts[(int64_t)blockIdx.x * buckets + b] = (uint16_t)count[b];
#pragma unroll
    for (int e = 0; e < each; e++) {
        const int64_t j = base + (e * threads + (int)threadIdx.x) * part;
        uint32_t to[part] = {};
#pragma unroll
        for (int c = 0; c < part; c++) {
            if (key[e][c] == none) continue;
            to[c] = count[key[e][c] >> shift] + rank[e][c];
            keys[to[c]] = key[e][c];
        }
        // ranks has whole groups of `part` items.
        if (j < n) __stcs((uint2*)(ranks + j), make_uint2(to[0] | to[1] << 16, to[2] | to[3] << 16));
    }
    __syncthreads();
    for (int i = threadIdx.x; i < tile && base + i < n; i += threads) *(uint32_t*)(sorted + base + i) = keys[i];
}

// Replaces the sorted indices by elements. A warp processes one bucket of a tile;
// neighbouring blocks have the same bucket, so that few buckets are read at a time.
template <typename T>
__device__ __forceinline__ void fetch(const T* __restrict__ src, T* __restrict__ sorted, const uint16_t* __restrict__ starts,
                                      int64_t n, int32_t tiles, int32_t buckets, int32_t blocks_per_bucket) {
    constexpr int tile = tile_of<T>, unroll = 4;
    const int32_t b = blockIdx.x / blocks_per_bucket;
    const int32_t t = blockIdx.x % blocks_per_bucket * (blockDim.x / warp_size) + threadIdx.x / warp_size;
    if (t >= tiles) return;
    const uint16_t* start = starts + (int64_t)t * buckets + b;
    const int end = b + 1 < buckets ? start[1] : (int)min((int64_t)tile, n - (int64_t)t * tile);
    T* at = sorted + (int64_t)t * tile;
#pragma unroll 1
    for (int i = start[0] + lane(); i < end; i += warp_size * unroll) {
        uint32_t k[unroll];
        T v[unroll];
#pragma unroll
        for (int u = 0; u < unroll; u++) k[u] = i + u * warp_size < end ? __ldcs((const uint32_t*)(at + i + u * warp_size)) : none;
#pragma unroll
        for (int u = 0; u < unroll; u++)
            if (k[u] != none) v[u] = __ldg(src + k[u]);
#pragma unroll
        for (int u = 0; u < unroll; u++)
            if (k[u] != none) __stcs(at + i + u * warp_size, v[u]);
    }
}

// out[j] = out[first item of its tile + ranks[j]]. One block per tile.
template <typename T>
__device__ __forceinline__ void reorder(T* __restrict__ out, const uint16_t* __restrict__ ranks, int64_t n) {
    constexpr int tile = tile_of<T>, wide = 16 / sizeof(T);
    __shared__ __align__(16) T elements[tile];
    const int64_t base = (int64_t)blockIdx.x * tile;
    const int here = (int)min((int64_t)tile, n - base);
    for (int i = threadIdx.x * wide; i < here; i += threads * wide) {
        if (i + wide <= here) *(uint4*)(elements + i) = __ldcs((const uint4*)(out + base + i));
        else
            for (int j = i; j < here; j++) elements[j] = out[base + j];
    }
    __syncthreads();
    for (int i = threadIdx.x * part; i < here; i += threads * part) {
        const uint2 two = __ldcs((const uint2*)(ranks + base + i));
        const uint32_t from[part] = {two.x & 0xffffu, two.x >> 16, two.y & 0xffffu, two.y >> 16};
        if (i + part <= here) {
            T v[part];
#pragma unroll
            for (int c = 0; c < part; c++) v[c] = elements[from[c]];
            int4 raw[sizeof(v) / 16];
            memcpy(raw, v, sizeof(v));
#pragma unroll
            for (int q = 0; q < (int)(sizeof(v) / 16); q++) __stcs((int4*)(out + base + i) + q, raw[q]);
        } else {
            for (int c = 0; c < part && i + c < here; c++) out[base + i + c] = elements[from[c]];
        }
    }
}

#define BUCKETS_BY(BITS, WIDTH, T)                                                                                    \
    extern "C" __global__ void __launch_bounds__(threads) quiver_bucket_sort_##WIDTH##_i##BITS(                       \
        const int##BITS##_t* indices, T* sorted, uint16_t* ranks, uint16_t* starts, int64_t n, int64_t extent,        \
        int32_t shift, int32_t buckets, int64_t first, unsigned long long* flag) {                                    \
        sort_tile(indices, sorted, ranks, starts, n, extent, shift, buckets, first, flag);                            \
    }
#define BUCKETS(WIDTH, T)                                                                                             \
    BUCKETS_BY(32, WIDTH, T)                                                                                          \
    BUCKETS_BY(64, WIDTH, T)                                                                                          \
    extern "C" __global__ void quiver_bucket_fetch_##WIDTH(const T* src, T* sorted, const uint16_t* starts, int64_t n, \
                                                           int32_t tiles, int32_t buckets, int32_t blocks) {          \
        fetch(src, sorted, starts, n, tiles, buckets, blocks);                                                        \
    }                                                                                                                 \
    extern "C" __global__ void __launch_bounds__(threads) quiver_bucket_reorder_##WIDTH(T* out, const uint16_t* ranks,  \
                                                                                      int64_t n) {                    \
        reorder(out, ranks, n);                                                                                         \
    }

BUCKETS(4, uint32_t)
BUCKETS(8, uint2)

extern "C" __global__ void quiver_sample_i32(const int32_t* indices, int64_t n, int64_t far, int32_t* count) {
    sample(indices, n, far, count);
}
extern "C" __global__ void quiver_sample_i64(const int64_t* indices, int64_t n, int64_t far, int32_t* count) {
    sample(indices, n, far, count);
}
