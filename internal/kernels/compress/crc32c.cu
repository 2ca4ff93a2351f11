// CRC-32C (Castagnoli) of ranges. A warp computes the remainder of a tile of a range, each
// thread that of a row of it. A remainder counts for the whole range after it is multiplied
// by x to the power of the number of bits that follow, and the sum of all is the range's.
//
// Bit 31 of a polynomial is the coefficient of x^0, as in the reflected algorithm.

#include "compress/batch.cuh"
#include "compress/tiles.cuh"

constexpr uint32_t polynomial = 0x82f63b78, one = 0x80000000;
constexpr int threads = 1024, tile_bytes = 32 << 10;

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
    uint32_t byte[256];       // the remainder of a byte
    uint32_t power[4][256];   // x^(8 d 256^k)

    __device__ constexpr Tables() : byte(), power() {
        for (uint32_t d = 0; d < 256; d++) {
            uint32_t r = d;
            for (int i = 0; i < 8; i++) r = r >> 1 ^ (r & 1 ? polynomial : 0);
            byte[d] = r;
        }
        uint32_t unit = one >> 8;  // x^8
        for (int k = 0; k < 4; k++) {
            power[k][0] = one;
            for (int d = 1; d < 256; d++) power[k][d] = multiply(power[k][d - 1], unit);
            unit = multiply(power[k][255], unit);
        }
    }
};

static __device__ const Tables tables;

// Returns a word whose first n bytes are 0.
__device__ __forceinline__ uint32_t first_zero(uint32_t word, int n) { return n <= 0 ? word : n >= 4 ? 0 : word >> 8 * n << 8 * n; }

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

// The tiles of a piece begin at multiples of this address, so that threads read whole
// sectors of memory. The first one begins before the piece.
constexpr int alignment = 64;

// Adds the tiles of pieces to the sums. dst of a piece is the number of its sum.
extern "C" __global__ __launch_bounds__(threads) void quiver_crc32c_add(uint32_t* sums, const uint8_t* src, const Piece* pieces, int64_t count, int64_t tiles) {
    // A copy of the table for each thread of a warp, in its own bank.
    __shared__ uint32_t byte[256 * warp_size];
    for (int i = threadIdx.x; i < 256 * warp_size; i += threads) byte[i] = tables.byte[i / warp_size];
    __syncthreads();
    const int64_t tile = warp_index();
    if (tile >= tiles) return;
    const Piece p = pieces[find_piece(pieces, count, tile)];
    // Zeros before the first byte do not change a remainder.
    const int64_t before = (uintptr_t)(src + p.src) & (alignment - 1), left = before + p.size - (tile - p.tile) * tile_bytes;
    const uint8_t* begin = src + p.src - before + (tile - p.tile) * tile_bytes;
    const int skip = tile == p.tile ? before : 0, size = min(left, (int64_t)tile_bytes);
    const int row = (size + 64 * warp_size - 1) / (64 * warp_size) * 64;
    const int first = min(lane() * row, size), end = min(first + row, size);
    const uint32_t* table = byte + lane();
    uint32_t r = 0;
    int at = first;
    auto add = [&](uint32_t word) {
        r ^= word;
#pragma unroll
        for (int i = 0; i < 4; i++) r = table[(r & 255) * warp_size] ^ r >> 8;
    };
    auto load = [&](int at) {  // 16 bytes, of which those before the range are 0
        const int zeros = skip - at;
        if (zeros >= 16) return uint4{0, 0, 0, 0};
        uint4 v = *(const uint4*)(begin + at);
        if (zeros > 0) v = {first_zero(v.x, zeros), first_zero(v.y, zeros - 4), first_zero(v.z, zeros - 8), first_zero(v.w, zeros - 12)};
        return v;
    };
    for (; at + 64 <= end; at += 64) {
        uint4 v[4];
#pragma unroll
        for (int i = 0; i < 4; i++) v[i] = load(at + 16 * i);
#pragma unroll
        for (int i = 0; i < 4; i++) add(v[i].x), add(v[i].y), add(v[i].z), add(v[i].w);
    }
    for (; at < end; at += 16) {
        const uint4 v = load(at);
        for (int i = 0; i < min(end - at, 16); i++) {
            const uint32_t word = i < 4 ? v.x : i < 8 ? v.y : i < 12 ? v.z : v.w;
            r = table[((r ^ word >> 8 * (i & 3)) & 255) * warp_size] ^ r >> 8;
        }
    }
    r = multiply(r, power(left - end));
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
