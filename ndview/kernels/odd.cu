// Units of 1 and 2 bytes through tiles whose rows begin anywhere, where those of
// the destination are not a multiple of four units apart.
//
// A tile is an image of what is written: each byte lies where it does in a word of
// 16 bytes of the destination, so that writing is to move such words. What is read
// goes there unit by unit. Threads side by side write to rows of the image that are
// so many words apart as they are units: an odd number, or twice one, so that their
// banks differ.

#include "move.cuh"

constexpr int held = 16;  // bytes that are written at once

// Where a thread puts the units of the words that it reads of a row of the source,
// and which words those are. rounds are the rows of a warp that are under way at once.
template <typename T, int words, int rounds> struct Image {
    static constexpr int size = sizeof(T), units = 4 / size, warps = block / 32;
    static constexpr int together = rounds * warps;  // rows of a block
    uint8_t* at[words * units];
    int first[words];  // byte of each word in the row

    // unit says where the first of each column's units is in the image.
    template <typename Unit> __device__ __forceinline__ Image(int columns, Unit unit) {
#pragma unroll
        for (int k = 0; k < words; k++) {
            first[k] = min(k * 32 + (int)threadIdx.x % 32, (columns * size - 1) / 4) * 4;
#pragma unroll
            for (int i = 0; i < units; i++) at[k * units + i] = unit(first[k] / size + i);
        }
    }

    __device__ __forceinline__ void put(uint32_t v, int word, int row) const {
#pragma unroll
        for (int i = 0; i < units; i++) *(T*)(at[word * units + i] + row * size) = (T)(v >> 8 * size * i);
    }

    __device__ __forceinline__ void pass(int rows) {
#pragma unroll
        for (int i = 0; i < words * units; i++) at[i] += rows * size;
    }

    // Reads rows, of which from says where they are, of a whole number of rounds. A
    // word is made of two aligned ones, of which the latter may be none of the row's.
    __device__ __forceinline__ void read(const int64_t* from, int row, int rows) {
        for (pass(row += threadIdx.x / 32); row < rows; row += together, pass(together)) {
            uint32_t lo[rounds][words], hi[rounds][words], by[rounds];
#pragma unroll
            for (int r = 0; r < rounds; r++) {
                const int64_t p = from[row + r * warps];
                by[r] = (uint32_t)p * 8;
#pragma unroll
                for (int k = 0; k < words; k++) {
                    lo[r][k] = read_near((const uint32_t*)((p & ~3ll) + first[k]));
                    hi[r][k] = read_near((const uint32_t*)((p & ~3ll) + first[k] + 4));
                }
            }
            const auto round = [&](int r) {
#pragma unroll
                for (int k = 0; k < words; k++) put(__funnelshift_r(lo[r][k], hi[r][k], by[r]), k, r * warps);
            };
            if (row + (rounds - 1) * warps < rows) {
#pragma unroll
                for (int r = 0; r < rounds; r++) round(r);
            } else {
#pragma unroll
                for (int r = 0; r < rounds; r++)
                    if (row + r * warps < rows) round(r);
            }
        }
    }

    // Does so where rows end with the source, beyond which nothing may be read.
    __device__ __forceinline__ void read_last(const int64_t* from, int row, int rows, int columns) {
        for (pass(row += threadIdx.x / 32); row < rows; row += warps, pass(warps)) {
            const int skip = (int)from[row] & 3;
#pragma unroll
            for (int k = 0; k < words; k++) {
                const uint32_t* p = (const uint32_t*)(from[row] - skip + first[k]);
                put(__funnelshift_r(__ldg(p), __ldg(p + (first[k] + 4 < columns * size + skip)), 8 * skip), k, 0);
            }
        }
    }
};

// Where the rows of a tile are in the source, as addresses, from row first on for
// whole rounds. Answers whether a block's rows end with the source.
template <typename T, typename Image>
__device__ __forceinline__ bool find(int64_t* from, const uint8_t* src, const Tiles& t, const Tile& s, int a0, int first, int rows, int columns) {
    const int all = first + (rows - first + Image::together - 1) / Image::together * Image::together;
    bool ends = false;
    for (int i = first + threadIdx.x; i < all; i += block) {
        const int64_t at = s.src + (int64_t)s.b0 * sizeof(T) + place(t.axes, t.axes_a, a0 + min(i, rows - 1), &Axis::src);
        from[i] = (int64_t)(src + at);
        ends |= at + columns * (int)sizeof(T) + 4 > t.end;
    }
    return __syncthreads_or(ends);
}

// Matrices as those of matrices.cu. The image is one run.
template <typename T> __device__ __forceinline__ void move_oddlines(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const Tiles& t) {
    using I = Image<T, 2, 8>;
    extern __shared__ uint4 image[];
    __shared__ int64_t from[256];
    const Tile s = tile_of(t, t.items_a, t.side_b);
    const int rows = t.items_a, columns = min(t.side_b, t.items_b - s.b0), bytes = rows * I::size;
    const bool ends = find<T, I>(from, src, t, s, 0, 0, rows, columns);
    dst += s.dst + (int64_t)s.b0 * bytes;
    const int skip = (uint32_t)(uintptr_t)dst & (held - 1), all = skip + columns * bytes;
    dst -= skip;
    I i(columns, [&](int column) { return (uint8_t*)image + skip + column * bytes; });
    if (ends) i.read_last(from, 0, rows, columns);
    else i.read(from, 0, rows);
    __syncthreads();
#pragma unroll 4
    for (int i = threadIdx.x * held; i < all; i += block * held) {
        if (i >= skip && i + held <= all) *(uint4*)(dst + i) = image[i / held];
        else
#pragma unroll 1
            for (int k = max(i, skip); k < min(i + held, all); k += I::size) *(T*)(dst + k) = *(const T*)((const uint8_t*)image + k);
    }
}

// Rows of the destination are written from one whole sector to another, as in
// tiles.cu. They are so far apart in the image as there, but for a multiple of 16
// bytes, and what may be missing to that.
template <typename T, int words, int rounds>
__device__ __forceinline__ void move_oddruns(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const Tiles& t) {
    using I = Image<T, words, rounds>;
    constexpr int size = I::size, halo = sector / size, most = 32 * words * I::units;
    extern __shared__ uint4 image[];
    __shared__ int64_t from[352], to[most];  // to where the first sector of a row is
    __shared__ uint16_t lies[most];          // at which word that is in the image
    __shared__ uint8_t lead[most];           // how many bytes of the row are before it
    const Tile s = tile_of(t, t.side_a, t.side_b);
    const int a0 = s.a0 - halo, rows = min(t.side_a + halo, t.items_a - a0), first = max(0, -a0), columns = min(t.side_b, t.items_b - s.b0);
    dst += s.dst + (int64_t)a0 * size;
    for (int i = threadIdx.x; i < most; i += block) {
        const uint8_t* row = dst + place(t.axes + t.axes_a, t.axes_b, s.b0 + min(i, columns - 1), &Axis::dst);
        const int before = sector - ((uint32_t)(uintptr_t)row & (sector - 1));
        lead[i] = before;
        to[i] = (int64_t)(row + before);
        lies[i] = (i * t.pitch + (((uint32_t)(uintptr_t)row - i * t.pitch) & (held - 1)) + before) / held;
    }
    const bool ends = find<T, I>(from, src, t, s, a0, first, rows, columns);
    I i(columns, [&](int column) { return (uint8_t*)(image + lies[column]) - lead[column]; });
    if (ends) i.read_last(from, first, rows, columns);
    else i.read(from, first, rows);
    __syncthreads();
    const int each = t.side_a * size / held, all = columns * each, low = first * size, high = rows * size;
    if (first == 0 && rows == t.side_a + halo) {
#pragma unroll 4
        for (int i = threadIdx.x; i < all; i += block) {
            const int row = t.by(i), at = held * (i - row * each);
            *(uint4*)(to[row] + at) = image[lies[row] + at / held];
        }
        return;
    }
#pragma unroll 4
    for (int i = threadIdx.x; i < all; i += block) {
        const int row = t.by(i), at = held * (i - row * each);
        if (lead[row] + at >= low && lead[row] + at + held <= high) *(uint4*)(to[row] + at) = image[lies[row] + at / held];
    }
    // The words at both ends of a row, of which a part is written: a thread a unit,
    // so that those of a word are written at once.
    constexpr int units = held / size;
    for (int i = threadIdx.x; i < 2 * units * columns; i += block) {
        const int row = i / (2 * units), before = lead[row], edge = (i / units % 2 ? high : low) - before;
        const int word = edge & -held, at = word + i % units * size;
        if (word == edge || word < 0 || word >= t.side_a * size || at < low - before || at >= high - before) continue;
        *(T*)(to[row] + at) = *(const T*)((const uint8_t*)(image + lies[row]) + at);
    }
}

#define ODD(WIDTH, T, WORDS, ROUNDS)                                                                           \
    extern "C" __global__ void __launch_bounds__(block, 4)                                                     \
        quiver_oddlines_##WIDTH(uint8_t* dst, const uint8_t* src, const __grid_constant__ Tiles t) {           \
        move_oddlines<T>(dst, src, t);                                                                         \
    }                                                                                                          \
    extern "C" __global__ void __launch_bounds__(block, 4)                                                     \
        quiver_oddruns_##WIDTH(uint8_t* dst, const uint8_t* src, const __grid_constant__ Tiles t) {            \
        move_oddruns<T, WORDS, ROUNDS>(dst, src, t);                                                           \
    }

ODD(1, uint8_t, 1, 8)
ODD(2, uint16_t, 2, 4)
