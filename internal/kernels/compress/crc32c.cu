// CRC-32C (Castagnoli) of ranges. A warp computes the remainder of a tile of a range, a row of
// 128 bytes at a time: a word for each thread. A remainder counts for the whole range after
// it is multiplied by x to the power of the number of bits that follow, and the sum of all
// is the range's.
//
// A multiple of the polynomial with few terms, all powers of x^1024, says how a word is
// added to words of later rows so that the remainder stays the same. Only the last rows of
// a tile are reduced by tables.
//
// Bit 31 of a polynomial is the coefficient of x^0, as in the reflected algorithm.

#include "compress/batch.cuh"
#include "compress/tiles.cuh"

constexpr uint32_t polynomial = 0x82f63b78, one = 0x80000000;
constexpr uint32_t order = 0x7fffffff;  // x to this power is 1
constexpr int row_bytes = 4 * warp_size, window = 52, loaded = 13;  // rows: of a window, and loaded at once
constexpr int threads = 256, tile_bytes = 16 * window * row_bytes;

// Returns the product of two polynomials.
__device__ constexpr uint32_t multiply(uint32_t a, uint32_t b) {
    uint32_t product = 0;
    for (int i = 31; i >= 0; i--) {
        product ^= a >> i & 1 ? b : 0;
        b = b >> 1 ^ (b & 1 ? polynomial : 0);
    }
    return product;
}

struct Tables {
    uint32_t power[4][256];  // x^(8 d 256^k)
    uint32_t row[8][16];     // the remainder of 4 bits of a word, times that of a row

    __device__ constexpr Tables() : power(), row() {
        uint32_t unit = one >> 8;  // x^8
        for (int k = 0; k < 4; k++) {
            power[k][0] = one;
            for (int d = 1; d < 256; d++) power[k][d] = multiply(power[k][d - 1], unit);
            unit = multiply(power[k][255], unit);
        }
        for (int k = 0; k < 8; k++)
            for (uint32_t d = 0; d < 16; d++) row[k][d] = multiply(d << 4 * k, power[0][row_bytes]);
    }
};

static __device__ const Tables tables;

// Returns x^(8 n), 0 <= n < 2^32.
__device__ __forceinline__ uint32_t power(uint32_t n) {
    uint32_t product = tables.power[0][n & 255];
    for (int k = 1; k < 4; k++)
        if (const uint32_t digit = n >> 8 * k & 255) product = multiply(product, tables.power[k][digit]);
    return product;
}

// Begins the sums: a thread for each item. The remainder starts with all bits set, and all
// bits of the result are inverted.
extern "C" __global__ __launch_bounds__(256) void quiver_crc32c_begin(const Item* items, uint32_t* sums, int64_t count) {
    const int64_t i = thread_index();
    if (i < count) sums[i] = ~multiply(~0u, power(items[i].src_size));
}

// A tile of a piece: bytes [first, end) from an address on.
struct Tile {
    const uint8_t* begin;
    int first, end;

    // Returns the word at an offset, whose bytes outside of the tile are 0.
    template <bool whole> __device__ __forceinline__ uint32_t load(int at) const {
        if (whole) return *(const uint32_t*)(begin + at);
        if (at <= first - 4 || at >= end) return 0;
        uint32_t word = *(const uint32_t*)(begin + at);
        if (at < first) word = word >> 8 * (first - at) << 8 * (first - at);
        if (at > end - 4) word = word << 8 * (at + 4 - end) >> 8 * (at + 4 - end);
        return word;
    }
};

// Returns the sum of the words of earlier rows that are added to row i of a window. In the
// last window, which words are not added to, they are those of the window before.
template <bool last, int... lags> __device__ __forceinline__ uint32_t sum_of(const uint32_t* words, int i) {
    return (0u ^ ... ^ (!last || lags > i ? words[(i + window - lags) % window] : 0));
}

// The remainder stays the same if a word is added to those so many rows later.
template <bool last> __device__ __forceinline__ uint32_t added(const uint32_t* words, int i) { return sum_of<last, 52, 50, 42, 31, 27, 25, 20, 12, 2>(words, i); }

// Returns the remainder of a thread's words of a tile, a word for each row. The first row
// is that of an offset, and there are windows of them.
template <bool whole> __device__ __forceinline__ uint32_t remainder(const Tile& tile, int at, int windows, const uint32_t* table) {
    uint32_t words[window], next[loaded];
#pragma unroll
    for (int i = 0; i < window; i++) words[i] = 0;
    const auto load = [&] {
#pragma unroll
        for (int i = 0; i < loaded; i++) next[i] = tile.load<whole>(at + i * row_bytes);
        at += loaded * row_bytes;
    };
    load();
    for (int k = 1; k < windows; k++) {
#pragma unroll
        for (int first = 0; first < window; first += loaded) {
            uint32_t own[loaded];
#pragma unroll
            for (int i = 0; i < loaded; i++) own[i] = next[i];
            load();
#pragma unroll
            for (int i = 0; i < loaded; i++) words[first + i] = own[i] ^ added<false>(words, first + i);
        }
    }
    uint32_t r = 0;
#pragma unroll
    for (int first = 0; first < window; first += loaded) {
        uint32_t own[loaded];
#pragma unroll
        for (int i = 0; i < loaded; i++) own[i] = next[i];
        if (first + loaded < window) load();
#pragma unroll
        for (int i = 0; i < loaded; i++) {
            uint32_t sum = own[i] ^ added<true>(words, first + i);
#pragma unroll
            for (int k = 0; k < 8; k++) sum ^= table[(r >> 4 * k & 15) * warp_size + k * 16 * warp_size];
            r = sum;
        }
    }
    return r;
}

// The tiles of a piece begin at multiples of this address, so that warps read whole lines of
// the cache. The first one begins before the piece.
constexpr int alignment = 128;

// Adds the tiles of pieces to the sums. dst of a piece is the number of its sum.
extern "C" __global__ __launch_bounds__(threads, 3) void quiver_crc32c_add(uint32_t* sums, const uint8_t* src, const Piece* pieces, int64_t count, int64_t tiles) {
    // A copy of the tables for each thread of a warp, in its own bank.
    __shared__ uint32_t shared[8 * 16 * warp_size];
    for (int i = threadIdx.x; i < 8 * 16 * warp_size; i += threads) shared[i] = tables.row[i / (16 * warp_size)][i / warp_size % 16];
    __syncthreads();
    const int64_t index = warp_index();
    if (index >= tiles) return;
    const Piece p = pieces[find_piece(pieces, count, index)];
    const int64_t before = (uintptr_t)(src + p.src) & (alignment - 1), left = before + p.size - (index - p.tile) * tile_bytes;
    const Tile tile = {src + p.src - before + (index - p.tile) * tile_bytes, index == p.tile ? (int)before : 0, (int)min(left, (int64_t)tile_bytes)};
    // Rows of zeros before the tile make its windows whole. They do not change a remainder.
    const int rows = (tile.end + row_bytes - 1) / row_bytes, windows = (rows + window - 1) / window;
    const int at = (rows - windows * window) * row_bytes + 4 * lane();
    const uint32_t* const table = shared + lane();
    uint32_t r;
    if (tile.first == 0 && tile.end == tile_bytes)
        r = remainder<true>(tile, at, windows, table);
    else
        r = remainder<false>(tile, at, windows, table);
    // The bytes after this thread's last word, and 4 as the remainder is one of 32 more bits.
    int64_t after = left - rows * row_bytes + 4 * (warp_size - lane());
    if (after < 0) after += order;
    r = multiply(r, power(after));
#pragma unroll
    for (int step = warp_size / 2; step > 0; step /= 2) r ^= __shfl_xor_sync(~0u, r, step);
    if (lane() == 0) atomicXor(sums + p.dst, r);
}

// Writes the sums to the outputs of items, little-endian.
extern "C" __global__ __launch_bounds__(256) void quiver_crc32c_store(uint8_t* dst, const Item* items, const uint32_t* sums, int64_t count) {
    const int64_t i = thread_index();
    if (i >= count) return;
    for (int k = 0; k < 4; k++) dst[items[i].dst + k] = sums[i] >> 8 * k;
}

// Compares the sums with the outputs of items.
extern "C" __global__ __launch_bounds__(256) void quiver_crc32c_verify(const uint8_t* dst, const Item* items, const uint32_t* sums, Result* results, int64_t count) {
    const int64_t i = thread_index();
    if (i >= count) return;
    uint32_t stored = 0;
    for (int k = 0; k < 4; k++) stored |= (uint32_t)dst[items[i].dst + k] << 8 * k;
    results[i] = {items[i].src_size, stored == sums[i] ? ok : bad_checksum, 0};
}
