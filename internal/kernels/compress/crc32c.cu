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
constexpr int row_bytes = 4 * warp_size, window = 44, loaded = 22;  // rows: of a window, and loaded at once
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

// Returns the sum of the words of earlier rows that are added to row i of a window. In the
// last window, which words are not added to, they are those of the window before.
template <bool last, int... lags> __device__ __forceinline__ uint32_t sum_of(const uint32_t* words, int i) {
    return (0u ^ ... ^ (!last || lags > i ? words[(i + window - lags) % window] : 0));
}

// A word is added to the words of these numbers of rows later, which keeps the remainder.
template <bool last> __device__ __forceinline__ uint32_t added(const uint32_t* words, int i) { return sum_of<last, 44, 37, 36, 35, 34, 33, 26, 20, 10, 7, 4>(words, i); }

// A thread's words of a tile: one of each row, from first on. Rows before it are 0, so that
// windows are whole.
struct Column {
    const uint32_t* word;  // that of row 0
    int first, windows;
    uint32_t first_mask, last_mask;  // the bits of the first and of the last word that count
    bool has_last;                   // whether the last row has a word of this thread
};

// Returns the remainder of a thread's words.
__device__ __forceinline__ uint32_t remainder(Column c, const uint32_t* table) {
    uint32_t words[window], own[loaded], next[loaded] = {};
#pragma unroll
    for (int i = 0; i < window; i++) words[i] = 0;
    // Loads the rows from one on, while those before are in own.
    const auto load = [&](int row) {
#pragma unroll
        for (int i = 0; i < loaded; i++) own[i] = next[i], next[i] = c.word[(row + i) * warp_size];
    };
    const auto load_part = [&](int row, bool last) {
#pragma unroll
        for (int i = 0; i < loaded; i++) {
            own[i] = next[i];
            if (row + i < window) next[i] = row + i >= c.first && (!last || row + i < window - 1 || c.has_last) ? c.word[(row + i) * warp_size] : 0;
        }
    };
    const auto masked = [&](int row, uint32_t word) { return row == c.first ? word & c.first_mask : word; };
    load_part(0, c.windows == 1);
    if (c.windows > 1) {
#pragma unroll
        for (int row = 0; row < window; row += loaded) {
            if (row + loaded < window)
                load_part(row + loaded, false);
            else
                load(window);
#pragma unroll
            for (int i = 0; i < loaded; i++) words[row + i] = masked(row + i, own[i]) ^ added<false>(words, row + i);
        }
        c.first = -1;
    }
    for (int k = 2; k < c.windows; k++) {
        c.word += window * warp_size;
#pragma unroll
        for (int row = 0; row < window; row += loaded) {
            load(row + loaded);
#pragma unroll
            for (int i = 0; i < loaded; i++) words[row + i] = own[i] ^ added<false>(words, row + i);
        }
    }
    if (c.windows > 1) c.word += window * warp_size;
    uint32_t r = 0;
#pragma unroll
    for (int row = 0; row < window; row += loaded) {
        load_part(row + loaded, true);
#pragma unroll
        for (int i = 0; i < loaded; i++) {
            uint32_t sum = masked(row + i, own[i]);
            if (row + i == window - 1) sum &= c.last_mask;
            sum ^= added<true>(words, row + i);
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
extern "C" __global__ __launch_bounds__(threads, 2) void quiver_crc32c_add(uint32_t* sums, const uint8_t* src, const Piece* pieces, int64_t count, int64_t tiles) {
    // A copy of the tables for each thread of a warp, in its own bank.
    __shared__ uint32_t table[8 * 16 * warp_size];
    __shared__ uint32_t remainders[threads / warp_size];
    __shared__ int64_t after[threads / warp_size], numbers[threads / warp_size];
    for (int i = threadIdx.x; i < 8 * 16 * warp_size; i += threads) table[i] = tables.row[i / (16 * warp_size)][i / warp_size % 16];
    __syncthreads();
    const int64_t index = warp_index();
    if (index < tiles) {
        const Piece p = pieces[find_piece(pieces, count, index)];
        const int64_t before = (uintptr_t)(src + p.src) & (alignment - 1), left = before + p.size - (index - p.tile) * tile_bytes;
        const int skipped = index == p.tile ? before : 0, size = min(left, (int64_t)tile_bytes);
        const int rows = (size + row_bytes - 1) / row_bytes, windows = (rows + window - 1) / window, zeros = windows * window - rows;
        const int early = skipped - 4 * lane(), late = 4 * (lane() + 1) + (rows - 1) * row_bytes - size;  // bytes of words outside of the piece
        Column c;
        c.word = (const uint32_t*)(src + p.src - before + (index - p.tile) * tile_bytes) + lane() - zeros * warp_size;
        c.windows = windows, c.first = zeros + (early >= 4);
        c.first_mask = early <= 0 || early >= 4 ? ~0u : ~0u << 8 * early;
        c.last_mask = late <= 0 || late >= 4 ? ~0u : ~0u >> 8 * late;
        c.has_last = late < 4;
        // Each word is followed by those of later threads, and counts as one with 32 more bits.
        uint32_t r = multiply(remainder(c, table + lane()), tables.power[0][4 * (warp_size - lane())]);
#pragma unroll
        for (int step = warp_size / 2; step > 0; step /= 2) r ^= __shfl_xor_sync(~0u, r, step);
        if (lane() == 0) {
            const int64_t bytes = left - rows * row_bytes;  // after the last row, or those missing in it
            const int warp = threadIdx.x / warp_size;
            remainders[warp] = r, after[warp] = bytes < 0 ? bytes + order : bytes, numbers[warp] = p.dst;
        }
    }
    __syncthreads();
    // A thread for each tile multiplies, instead of a warp.
    if (threadIdx.x < threads / warp_size && index + threadIdx.x < tiles) atomicXor(sums + numbers[threadIdx.x], multiply(remainders[threadIdx.x], power(after[threadIdx.x])));
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
