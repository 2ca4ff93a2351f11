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

// A block does 1024 items; where their rows begin is found once a row. The items
// of a thread are a block apart, so that threads side by side move items side by
// side, and several at once.
template <int unroll, typename Item>
__device__ __forceinline__ void each(const Rows& r, Item item) {
    constexpr uint32_t all = 1024, threads = all / unroll;
    __shared__ int64_t to[all], from[all];
    const uint32_t first = blockIdx.x * all, items = min(all, (uint32_t)r.items - first);
    const bool single = r.length < 2;
    const uint32_t row0 = single ? first : __umulhi(first, r.magic) >> r.shift, skip = first - row0 * (uint32_t)r.length;
    const uint32_t rows = (single ? items - 1 : __umulhi(skip + items - 1, r.magic) >> r.shift) + 1;
    for (uint32_t i = threadIdx.x; i < rows; i += threads) {
        to[i] = place(r.axes, r.count, row0 + i, &Axis::dst);
        from[i] = place(r.axes, r.count, row0 + i, &Axis::src);
    }
    __syncthreads();
#pragma unroll
    for (int u = 0; u < unroll; u++) {
        const uint32_t i = skip + min(threadIdx.x + u * threads, items - 1);
        const uint32_t row = single ? i : __umulhi(i, r.magic) >> r.shift;
        item(u, to[row], from[row], (int)(i - row * (uint32_t)r.length), threadIdx.x + u * threads < items);
    }
}

template <typename T, int unroll>
__device__ __forceinline__ void move_rows(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const Rows& r) {
    T v[unroll], *out[unroll];
    each<unroll>(r, [&](int u, int64_t to, int64_t from, int i, bool is) {
        v[u] = __ldg((const T*)(src + from + i * r.src_step));
        out[u] = is ? (T*)(dst + to + i * r.dst_step) : nullptr;
    });
#pragma unroll
    for (int u = 0; u < unroll; u++)
        if (out[u]) *out[u] = v[u];
}

// Rows without gaps in the destination, of units of 1 and 2 bytes: an item is an
// aligned word of it, of which the first and last of a row may be a part only.
template <typename T, int unroll, typename Word>
__device__ __forceinline__ void move_words(uint8_t* __restrict__ dst, const Rows& r, Word word) {
    const int bytes = r.units * (int)sizeof(T);
    uint32_t v[unroll];
    uint8_t* out[unroll];
    int at[unroll];  // of the word's first byte in the row
    each<unroll>(r, [&](int u, int64_t to, int64_t from, int i, bool is) {
        out[u] = dst + to;
        at[u] = i * 4 - (int)((uintptr_t)out[u] & 3);
        out[u] += at[u];
        v[u] = word(from, at[u], bytes);
        if (!is) at[u] = bytes;
    });
#pragma unroll
    for (int u = 0; u < unroll; u++) {
        if (at[u] >= 0 && at[u] + 4 <= bytes) *(uint32_t*)out[u] = v[u];
        else
            for (int k = 0; k < 4; k += (int)sizeof(T))
                if (at[u] + k >= 0 && at[u] + k < bytes) *(T*)(out[u] + k) = (T)(v[u] >> 8 * k);
    }
}

// The word at a place of a run of bytes, of which it may reach over an end.
__device__ __forceinline__ uint32_t word_at(const uint8_t* run, int at, int bytes) {
    const int skip = (uintptr_t)(run + at) & 3, begin = at - skip;
    const uint32_t* words = (const uint32_t*)(run + begin);
    const uint32_t lo = begin + 4 > 0 && begin < bytes ? __ldg(words) : 0;
    const uint32_t hi = skip && begin + 8 > 0 && begin + 4 < bytes ? __ldg(words + 1) : 0;
    return __funnelshift_r(lo, hi, 8 * skip);
}

// Rows without gaps in the source too, at any alignment.
template <typename T>
__device__ __forceinline__ void move_spans(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const Rows& r) {
    move_words<T, 8>(dst, r, [&](int64_t row, int at, int bytes) { return word_at(src + row, at, bytes); });
}

// Rows that lie backwards in the source, without gaps.
template <typename T>
__device__ __forceinline__ void move_turned(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const Rows& r) {
    move_words<T, 8>(dst, r, [&](int64_t row, int at, int bytes) {
        const uint32_t word = word_at(src + row - (bytes - (int)sizeof(T)), bytes - 4 - at, bytes);
        return __byte_perm(word, 0, sizeof(T) == 1 ? 0x0123 : 0x1032);
    });
}

// Rows with gaps in the source.
template <typename T>
__device__ __forceinline__ void move_picks(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const Rows& r) {
    constexpr int size = sizeof(T);
    move_words<T, 4>(dst, r, [&](int64_t row, int at, int bytes) {
        uint32_t word = 0;
#pragma unroll
        for (int k = 0; k < 4; k += size) {
            const int unit = min(max(at + k, 0), bytes - size) / size;
            word |= (uint32_t)__ldg((const T*)(src + row + unit * r.src_step)) << 8 * k;
        }
        return word;
    });
}

#define ROWS(WIDTH, T, UNROLL)                                                                                 \
    extern "C" __global__ void __launch_bounds__(1024 / UNROLL)                                                \
        quiver_rows_##WIDTH(uint8_t* dst, const uint8_t* src, const __grid_constant__ Rows r) {                \
        move_rows<T, UNROLL>(dst, src, r);                                                                     \
    }

ROWS(1, uint8_t, 8)
ROWS(2, uint16_t, 8)
ROWS(4, uint32_t, 8)
ROWS(8, uint2, 8)
ROWS(16, uint4, 4)

#define WORDS(KERNEL, WIDTH, T, UNROLL)                                                                        \
    extern "C" __global__ void __launch_bounds__(1024 / UNROLL)                                                \
        quiver_##KERNEL##_##WIDTH(uint8_t* dst, const uint8_t* src, const __grid_constant__ Rows r) {          \
        move_##KERNEL<T>(dst, src, r);                                                                         \
    }

WORDS(spans, 1, uint8_t, 8)
WORDS(spans, 2, uint16_t, 8)
WORDS(turned, 1, uint8_t, 8)
WORDS(turned, 2, uint16_t, 8)
WORDS(picks, 1, uint8_t, 4)
WORDS(picks, 2, uint16_t, 4)
