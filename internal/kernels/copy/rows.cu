// Copies units in the order of the destination, if tiles would not help.

#include "copy/plan.cuh"

struct Rows {
    int32_t items, length;  // items in all, and per row
    int64_t dst_step, src_step;
    uint32_t magic, shift;  // to divide by length
    int32_t count, units;   // axes, and units per row
    Axis axes[plan_axes];   // of rows
};

// A block copies 1024 items, and computes the offset of each row once. The items of a
// thread are one block apart, so that neighbouring threads copy neighbouring items.
template <int unroll, typename Item>
__device__ __forceinline__ void each(const Rows& r, Item item) {
    constexpr uint32_t all = 1024, threads = all / unroll;
    __shared__ int64_t to[all], from[all];
    const uint32_t first = blockIdx.x * all, items = min(all, (uint32_t)r.items - first);
    const bool single = r.length < 2;
    const uint32_t row0 = single ? first : __umulhi(first, r.magic) >> r.shift, skip = first - row0 * (uint32_t)r.length;
    const uint32_t rows = (single ? items - 1 : __umulhi(skip + items - 1, r.magic) >> r.shift) + 1;
    for (uint32_t i = threadIdx.x; i < rows; i += threads) {
        to[i] = offset_of(r.axes, r.count, row0 + i, &Axis::dst);
        from[i] = offset_of(r.axes, r.count, row0 + i, &Axis::src);
    }
    __syncthreads();
#pragma unroll
    for (int u = 0; u < unroll; u++) {
        const uint32_t i = skip + min(threadIdx.x + u * threads, items - 1);
        const uint32_t row = single ? i : __umulhi(i, r.magic) >> r.shift;
        item(u, to[row], from[row], (int)(i - row * (uint32_t)r.length), threadIdx.x + u * threads < items);
    }
}

// A sector that is written in part is read first. If units are more than 2 apart,
// prefetching those sectors while the units are loaded is faster, as more sectors lie
// across the ends of what warps write.
template <typename T, int unroll>
__device__ __forceinline__ void copy_rows(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const Rows& r) {
    constexpr uint32_t all = 1024, threads = all / unroll;
    const bool ahead = sizeof(T) < 16 && r.dst_step > 2 * (int)sizeof(T);
    const uint32_t first = blockIdx.x * all, row = __umulhi(first, r.magic) >> r.shift, at = first - row * (uint32_t)r.length;
    // A block inside one row does not need the table of rows. On an H200 this is faster if
    // every second unit is written, and for units of 1 byte that are further apart.
    constexpr int size = sizeof(T);
    const bool single = r.dst_step == 2 * size || r.dst_step > 2 * size && size == 1;
    if (single && at + all <= (uint32_t)r.length) {
        T v[unroll];
        dst += offset_of(r.axes, r.count, row, &Axis::dst) + (int64_t)(at + threadIdx.x) * r.dst_step;
        src += offset_of(r.axes, r.count, row, &Axis::src) + (int64_t)(at + threadIdx.x) * r.src_step;
        const int64_t to = threads * r.dst_step, from = threads * r.src_step;
#pragma unroll
        for (int u = 0; u < unroll; u++) {
            v[u] = __ldg((const T*)(src + u * from));
            if (ahead) asm volatile("prefetch.global.L2 [%0];" ::"l"(dst + u * to));
        }
#pragma unroll
        for (int u = 0; u < unroll; u++) *(T*)(dst + u * to) = v[u];
        return;
    }
    T v[unroll], *out[unroll];
    each<unroll>(r, [&](int u, int64_t to, int64_t from, int i, bool is) {
        T* p = (T*)(dst + to + i * r.dst_step);
        v[u] = __ldg((const T*)(src + from + i * r.src_step));
        out[u] = is ? p : nullptr;
        if (ahead) asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
    });
#pragma unroll
    for (int u = 0; u < unroll; u++)
        if (out[u]) *out[u] = v[u];
}

// Long rows of large units, one unit per thread: each unit is written as soon as it is
// read.
template <typename T>
__device__ __forceinline__ void copy_unit_rows(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const Rows& r) {
    const uint32_t i = blockIdx.x * 256 + threadIdx.x, row = __umulhi(i, r.magic) >> r.shift, at = i - row * (uint32_t)r.length;
    if (i >= (uint32_t)r.items) return;
    const T v = __ldg((const T*)(src + offset_of(r.axes, r.count, row, &Axis::src) + at * r.src_step));
    *(T*)(dst + offset_of(r.axes, r.count, row, &Axis::dst) + at * r.dst_step) = v;
}

// Reads 16 bytes at any alignment from a run of bytes; they may extend past either end of
// the run.
__device__ __forceinline__ uint4 read_at(const uint8_t* run, int at, int bytes) {
    const int skip = (uintptr_t)(run + at) & 15, begin = at - skip;
    const uint4* lines = (const uint4*)(run + begin);
    uint4 lo = {}, hi = {};
    if (begin + 16 > 0 && begin < bytes) lo = __ldg(lines);
    if (skip && begin + 32 > 0 && begin + 16 < bytes) hi = __ldg(lines + 1);
    uint32_t w[8] = {lo.x, lo.y, lo.z, lo.w, hi.x, hi.y, hi.z, hi.w};
    if (skip & 8) {
#pragma unroll
        for (int i = 0; i < 6; i++) w[i] = w[i + 2];
    }
    if (skip & 4) {
#pragma unroll
        for (int i = 0; i < 5; i++) w[i] = w[i + 1];
    }
    const uint32_t by = skip % 4 * 8;
    return {__funnelshift_r(w[0], w[1], by), __funnelshift_r(w[1], w[2], by), __funnelshift_r(w[2], w[3], by), __funnelshift_r(w[3], w[4], by)};
}

// Rows that are contiguous in both operands, at any alignment. An item is 16 aligned bytes
// of the destination; at the ends of a row only a part of them is written. The row may be
// reversed in the source.
template <typename T, int unroll>
__device__ __forceinline__ void copy_vector_rows(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const Rows& r) {
    constexpr int size = sizeof(T);
    const int bytes = r.units * size;
    const bool turned = r.src_step < 0;
    uint4 v[unroll];
    uint8_t* out[unroll];
    int at[unroll];  // offset of the item's first byte in the row
    each<unroll>(r, [&](int u, int64_t to, int64_t from, int i, bool is) {
        out[u] = dst + to;
        at[u] = i * 16 - (int)((uintptr_t)out[u] & 15);
        out[u] += at[u];
        const uint8_t* run = src + from;
        v[u] = turned ? read_at(run - (bytes - size), bytes - 16 - at[u], bytes) : read_at(run, at[u], bytes);
        if (!is) at[u] = bytes;
    });
    if (turned) {
        constexpr uint32_t order = size == 1 ? 0x0123 : size == 2 ? 0x1032 : 0x3210;
#pragma unroll
        for (int u = 0; u < unroll; u++)
            v[u] = {__byte_perm(v[u].w, 0, order), __byte_perm(v[u].z, 0, order), __byte_perm(v[u].y, 0, order), __byte_perm(v[u].x, 0, order)};
    }
#pragma unroll
    for (int u = 0; u < unroll; u++) {
        if (at[u] >= 0 && at[u] + 16 <= bytes) *(uint4*)out[u] = v[u];
        else if (at[u] < bytes) {
            const uint32_t w[4] = {v[u].x, v[u].y, v[u].z, v[u].w};
#pragma unroll
            for (int k = 0; k < 16; k += 4) {
                const int first = at[u] + k;
                if (first >= 0 && first + 4 <= bytes) *(uint32_t*)(out[u] + k) = w[k / 4];
                else if (size < 4)
                    for (int b = 0; b < 4; b += size)
                        if (first + b >= 0 && first + b < bytes) *(T*)(out[u] + k + b) = (T)(w[k / 4] >> 8 * b);
            }
        }
    }
}

// Rows with gaps in the source, of units of 1 and 2 bytes. An item is an aligned word of
// the destination.
template <typename T, int unroll>
__device__ __forceinline__ void copy_word_rows(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const Rows& r) {
    constexpr int size = sizeof(T);
    const int bytes = r.units * size;
    uint32_t v[unroll];
    uint8_t* out[unroll];
    int at[unroll];
    each<unroll>(r, [&](int u, int64_t to, int64_t from, int i, bool is) {
        out[u] = dst + to;
        at[u] = i * 4 - (int)((uintptr_t)out[u] & 3);
        out[u] += at[u];
        v[u] = 0;
#pragma unroll
        for (int k = 0; k < 4; k += size) {
            const int unit = min(max(at[u] + k, 0), bytes - size) / size;
            v[u] |= (uint32_t)__ldg((const T*)(src + from + unit * r.src_step)) << 8 * k;
        }
        if (!is) at[u] = bytes;
    });
#pragma unroll
    for (int u = 0; u < unroll; u++) {
        if (at[u] >= 0 && at[u] + 4 <= bytes) *(uint32_t*)out[u] = v[u];
        else
            for (int k = 0; k < 4; k += size)
                if (at[u] + k >= 0 && at[u] + k < bytes) *(T*)(out[u] + k) = (T)(v[u] >> 8 * k);
    }
}

// Rows of units of 4 bytes, reversed or not, that follow one another in the destination.
// They are written as one row, two units at a time.
__device__ __forceinline__ void copy_joined_rows(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const Rows& r) {
    constexpr int unroll = 4, threads = 256, all = 2 * unroll * threads;
    __shared__ int64_t from[all / 16 + 2];
    // Words of two units are aligned, so the first block may begin one unit earlier.
    const int lead = (uint32_t)(uintptr_t)dst / 4 & 1, back = blockIdx.x ? 0 : lead;
    const int begin = (int)(blockIdx.x * all) - lead + back, items = min(all - back, r.items - begin);
    if (items <= 0) return;
    const int row0 = __umulhi(begin, r.magic) >> r.shift, skip = begin - row0 * r.length;
    const int rows = (__umulhi(skip + items - 1, r.magic) >> r.shift) + 1;
    for (int i = threadIdx.x; i < rows; i += threads) from[i] = (int64_t)(src + offset_of(r.axes, r.count, row0 + i, &Axis::src));
    __syncthreads();
    uint2 v[unroll];
#pragma unroll
    for (int u = 0; u < unroll; u++) {
        const int i = skip + min(max(2 * (int)(threadIdx.x + u * threads) - back, 0), items - 1);
        const int row = __umulhi(i, r.magic) >> r.shift, at = i - row * r.length;
        const int64_t p = from[row] + at * r.src_step, q = at + 1 < r.length ? p + r.src_step : from[min(row + 1, rows - 1)];
        v[u] = {__ldg((const uint32_t*)p), __ldg((const uint32_t*)(i + 1 < skip + items ? q : p))};
    }
    dst += (int64_t)begin * 4;
#pragma unroll
    for (int u = 0; u < unroll; u++) {
        const int i = 2 * (int)(threadIdx.x + u * threads) - back;
        if (i >= 0 && i + 2 <= items) *(uint2*)(dst + i * 4) = v[u];
        else if (i < 0) *(uint32_t*)dst = v[u].x;  // which is unit 0
        else if (i < items) *(uint32_t*)(dst + i * 4) = v[u].x;
    }
}

extern "C" __global__ void __launch_bounds__(256) quiver_joined_rows_4(uint8_t* dst, const uint8_t* src, const __grid_constant__ Rows r) {
    copy_joined_rows(dst, src, r);
}

extern "C" __global__ void __launch_bounds__(256) quiver_unit_rows_8(uint8_t* dst, const uint8_t* src, const __grid_constant__ Rows r) {
    copy_unit_rows<uint2>(dst, src, r);
}

extern "C" __global__ void __launch_bounds__(256) quiver_unit_rows_16(uint8_t* dst, const uint8_t* src, const __grid_constant__ Rows r) {
    copy_unit_rows<uint4>(dst, src, r);
}

#define ROWS(KERNEL, WIDTH, T, UNROLL)                                                                         \
    extern "C" __global__ void __launch_bounds__(1024 / UNROLL)                                                \
        quiver_##KERNEL##_##WIDTH(uint8_t* dst, const uint8_t* src, const __grid_constant__ Rows r) {          \
        copy_##KERNEL<T, UNROLL>(dst, src, r);                                                                 \
    }

ROWS(rows, 1, uint8_t, 8)
ROWS(rows, 2, uint16_t, 8)
ROWS(rows, 4, uint32_t, 8)
ROWS(rows, 8, uint2, 8)
ROWS(rows, 16, uint4, 4)
ROWS(vector_rows, 1, uint8_t, 4)
ROWS(vector_rows, 2, uint16_t, 4)
ROWS(vector_rows, 4, uint32_t, 4)
ROWS(word_rows, 1, uint8_t, 4)
ROWS(word_rows, 2, uint16_t, 4)
