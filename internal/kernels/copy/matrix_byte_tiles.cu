// Transposes a batch of small matrices of units of 1 and 2 bytes, like matrix_tiles.cu, if
// rows of the result are not a multiple of four units.
//
// A tile in shared memory is an exact image of the destination, so that it is written in
// aligned words of 16 bytes. Units of the source are put there one by one. Neighbouring
// threads write to rows of the image that are an odd number of units apart, or twice one,
// so that their banks differ.

#include "copy/plan.cuh"

constexpr int held = 16;                              // bytes of a store
constexpr int words = 2, warps = block / 32;          // words of a source row per thread, and warps of a block
constexpr int rounds = 8, together = rounds * warps;  // rows in flight per warp, and per block

// The words of a source row that a thread reads, and where in the image it puts their
// units.
template <typename T> struct Image {
    static constexpr int size = sizeof(T), units = 4 / size;
    uint8_t* at[words * units];
    int first[words];  // byte of each word in the row

    __device__ __forceinline__ Image(uint8_t* image, int columns, int bytes) {
#pragma unroll
        for (int k = 0; k < words; k++) {
            first[k] = min(k * 32 + (int)threadIdx.x % 32, (columns * size - 1) / 4) * 4;
#pragma unroll
            for (int i = 0; i < units; i++) at[k * units + i] = image + (first[k] / size + i) * bytes;
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

    // Reads rows from the addresses in `from`, which has whole rounds. A word is made of
    // two aligned words, the second of which may lie after the row.
    __device__ __forceinline__ void read(const int64_t* from, int rows) {
        int row = threadIdx.x / 32;
        for (pass(row); row < rows; row += together, pass(together)) {
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

    // Reads rows at the end of the source without reading past it.
    __device__ __forceinline__ void read_last(const int64_t* from, int rows, int columns) {
        int row = threadIdx.x / 32;
        for (pass(row); row < rows; row += warps, pass(warps)) {
            const int skip = (int)from[row] & 3;
#pragma unroll
            for (int k = 0; k < words; k++) {
                const uint32_t* p = (const uint32_t*)(from[row] - skip + first[k]);
                put(__funnelshift_r(__ldg(p), __ldg(p + (first[k] + 4 < columns * size + skip)), 8 * skip), k, 0);
            }
        }
    }
};

template <typename T> __device__ __forceinline__ void copy_matrix_bytes(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const Tiles& t) {
    constexpr int size = sizeof(T);
    extern __shared__ uint4 image[];
    __shared__ int64_t from[256];
    const Tile s = tile_of(t, t.items_a, t.side_b);
    const int rows = t.items_a, columns = min(t.side_b, t.items_b - s.b0), bytes = rows * size;
    bool ends = false;  // rows end where the source ends
    for (int i = threadIdx.x; i < (rows + together - 1) / together * together; i += block) {
        const int64_t at = s.src + (int64_t)s.b0 * size + offset_of(t.axes, t.axes_a, min(i, rows - 1), &Axis::src);
        from[i] = (int64_t)(src + at);
        ends |= at + columns * size + 4 > t.end;
    }
    ends = __syncthreads_or(ends);
    dst += s.dst + (int64_t)s.b0 * bytes;
    const int skip = (uint32_t)(uintptr_t)dst & (held - 1), all = skip + columns * bytes;
    dst -= skip;
    Image<T> i((uint8_t*)image + skip, columns, bytes);
    if (ends) i.read_last(from, rows, columns);
    else i.read(from, rows);
    __syncthreads();
#pragma unroll 4
    for (int i = threadIdx.x * held; i < all; i += block * held) {
        if (i >= skip && i + held <= all) *(uint4*)(dst + i) = image[i / held];
        else
#pragma unroll 1
            for (int k = max(i, skip); k < min(i + held, all); k += size) *(T*)(dst + k) = *(const T*)((const uint8_t*)image + k);
    }
}

#define MATRIX_BYTE_TILES(WIDTH, T)                                                                                          \
    extern "C" __global__ void __launch_bounds__(block, 4)                                                     \
        quiver_matrix_byte_tiles_##WIDTH(uint8_t* dst, const uint8_t* src, const __grid_constant__ Tiles t) {           \
        copy_matrix_bytes<T>(dst, src, t);                                                                         \
    }

MATRIX_BYTE_TILES(1, uint8_t)
MATRIX_BYTE_TILES(2, uint16_t)
