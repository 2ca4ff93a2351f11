// Units moved in the order in which they lie in the destination, where no tile
// would help.

#include "move.cuh"

struct Rows {
    int32_t items, length;  // that threads move, in all and of a row
    int64_t dst_step, src_step;
    uint32_t magic, shift;  // to divide by length
    int32_t count, units;   // of axes, and of a row
    Axis axes[move_axes];   // over which rows are counted
};

// The items of a thread are a block apart, so that threads side by side move
// items side by side, and several at once.
template <int unroll, int threads, typename Item>
__device__ __forceinline__ void each(const Rows& r, Item item) {
    const uint32_t first = blockIdx.x * (unroll * threads) + threadIdx.x;
#pragma unroll
    for (int u = 0; u < unroll; u++) {
        const uint32_t i = min(first + u * threads, (uint32_t)r.items - 1);
        const uint32_t row = r.length < 2 ? i : __umulhi(i, r.magic) >> r.shift;
        item(u, row, (int)(i - row * (uint32_t)r.length), first + u * threads < (uint32_t)r.items);
    }
}

template <typename T, int unroll, int threads>
__device__ __forceinline__ void move_rows(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const Rows& r) {
    T v[unroll], *to[unroll];
    each<unroll, threads>(r, [&](int u, uint32_t row, int i, bool is) {
        v[u] = __ldg((const T*)(src + place(r.axes, r.count, row, &Axis::src) + i * r.src_step));
        to[u] = is ? (T*)(dst + place(r.axes, r.count, row, &Axis::dst) + i * r.dst_step) : nullptr;
    });
#pragma unroll
    for (int u = 0; u < unroll; u++)
        if (to[u]) *to[u] = v[u];
}

// Rows without gaps in the destination, of units of 1 and 2 bytes: an item is an
// aligned word of it, of which the first and last of a row may be a part only.
template <typename T, int unroll, int threads, typename Word>
__device__ __forceinline__ void move_words(uint8_t* __restrict__ dst, const Rows& r, Word word) {
    const int bytes = r.units * (int)sizeof(T);
    uint32_t v[unroll];
    uint8_t* to[unroll];
    int at[unroll];  // of the word's first byte in the row
    each<unroll, threads>(r, [&](int u, uint32_t row, int i, bool is) {
        to[u] = dst + place(r.axes, r.count, row, &Axis::dst);
        at[u] = i * 4 - (int)((uintptr_t)to[u] & 3);
        to[u] += at[u];
        v[u] = word(place(r.axes, r.count, row, &Axis::src), at[u], bytes);
        if (!is) at[u] = bytes;
    });
#pragma unroll
    for (int u = 0; u < unroll; u++) {
        if (at[u] >= 0 && at[u] + 4 <= bytes) *(uint32_t*)to[u] = v[u];
        else
            for (int k = 0; k < 4; k += (int)sizeof(T))
                if (at[u] + k >= 0 && at[u] + k < bytes) *(T*)(to[u] + k) = (T)(v[u] >> 8 * k);
    }
}

// Rows without gaps in the source too, at any alignment.
template <typename T>
__device__ __forceinline__ void move_spans(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const Rows& r) {
    move_words<T, 8, 128>(dst, r, [&](int64_t row, int at, int bytes) {
        const uint8_t* from = src + row + at;
        const int skip = (uintptr_t)from & 3, begin = at - skip;  // of the aligned word that has the first byte
        const uint32_t* words = (const uint32_t*)(from - skip);
        const uint32_t lo = begin + 4 > 0 && begin < bytes ? __ldg(words) : 0;
        const uint32_t hi = skip && begin + 8 > 0 && begin + 4 < bytes ? __ldg(words + 1) : 0;
        return __funnelshift_r(lo, hi, 8 * skip);
    });
}

// Rows with gaps in the source.
template <typename T>
__device__ __forceinline__ void move_picks(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const Rows& r) {
    constexpr int size = sizeof(T);
    move_words<T, 4, 256>(dst, r, [&](int64_t row, int at, int bytes) {
        uint32_t word = 0;
#pragma unroll
        for (int k = 0; k < 4; k += size) {
            const int unit = min(max(at + k, 0), bytes - size) / size;
            word |= (uint32_t)__ldg((const T*)(src + row + unit * r.src_step)) << 8 * k;
        }
        return word;
    });
}

#define ROWS(WIDTH, T, UNROLL, THREADS)                                                                        \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                      \
        quiver_rows_##WIDTH(uint8_t* dst, const uint8_t* src, const __grid_constant__ Rows r) {                \
        move_rows<T, UNROLL, THREADS>(dst, src, r);                                                            \
    }

ROWS(1, uint8_t, 8, 128)
ROWS(2, uint16_t, 8, 128)
ROWS(4, uint32_t, 8, 128)
ROWS(8, uint2, 8, 128)
ROWS(16, uint4, 4, 256)

#define WORDS(WIDTH, T)                                                                                        \
    extern "C" __global__ void __launch_bounds__(128)                                                          \
        quiver_spans_##WIDTH(uint8_t* dst, const uint8_t* src, const __grid_constant__ Rows r) {               \
        move_spans<T>(dst, src, r);                                                                            \
    }                                                                                                          \
    extern "C" __global__ void __launch_bounds__(256)                                                          \
        quiver_picks_##WIDTH(uint8_t* dst, const uint8_t* src, const __grid_constant__ Rows r) {               \
        move_picks<T>(dst, src, r);                                                                            \
    }

WORDS(1, uint8_t)
WORDS(2, uint16_t)
