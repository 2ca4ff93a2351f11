// Byte and bit shuffles of ranges, and their inverses: a block of threads for each tile of
// a range. The size of a piece is its number of elements times their size. compress/shuffle
// defines the order of bytes and bits.
//
// A tile is read into shared memory by aligned words, transposed there, and written by
// aligned words. So ranges, and the planes within them, may begin anywhere.

#include "compress/copy.cuh"
#include "compress/tiles.cuh"

constexpr int threads = 128, tile_bytes = 8 << 10;

// The largest number of elements in a tile: a multiple of 32.
__device__ __forceinline__ int tile_elements(int size) { return tile_bytes / size & ~31; }

// Transposes a matrix of 4 by 4 bytes.
__device__ __forceinline__ void transpose_bytes(uint32_t& a, uint32_t& b, uint32_t& c, uint32_t& d) {
    const uint32_t ab = __byte_perm(a, b, 0x5140), cd = __byte_perm(c, d, 0x5140);
    const uint32_t ab2 = __byte_perm(a, b, 0x7362), cd2 = __byte_perm(c, d, 0x7362);
    a = __byte_perm(ab, cd, 0x5410), b = __byte_perm(ab, cd, 0x7632);
    c = __byte_perm(ab2, cd2, 0x5410), d = __byte_perm(ab2, cd2, 0x7632);
}

// Transposes a matrix of 8 by 8 bits, whose rows are the bytes of low and high.
__device__ __forceinline__ void transpose_bits(uint32_t& low, uint32_t& high) {
    uint32_t t = (low ^ low >> 7) & 0x00aa00aa;
    low ^= t ^ t << 7;
    t = (high ^ high >> 7) & 0x00aa00aa;
    high ^= t ^ t << 7;
    t = (low ^ low >> 14) & 0x0000cccc;
    low ^= t ^ t << 14;
    t = (high ^ high >> 14) & 0x0000cccc;
    high ^= t ^ t << 14;
    t = (low ^ high << 4) & 0xf0f0f0f0;
    low ^= t;
    high ^= t >> 4;
}

// Transposes the 32 bytes of w to 8 words with a bit of each byte, and back.
__device__ __forceinline__ void bytes_to_bits(uint32_t (&w)[8]) {
    for (int i = 0; i < 8; i += 2) transpose_bits(w[i], w[i + 1]);
    transpose_bytes(w[0], w[2], w[4], w[6]);
    transpose_bytes(w[1], w[3], w[5], w[7]);
    const uint32_t t[8] = {w[0], w[2], w[4], w[6], w[1], w[3], w[5], w[7]};
    for (int i = 0; i < 8; i++) w[i] = t[i];
}

__device__ __forceinline__ void bits_to_bytes(uint32_t (&w)[8]) {
    const uint32_t t[8] = {w[0], w[4], w[1], w[5], w[2], w[6], w[3], w[7]};
    for (int i = 0; i < 8; i++) w[i] = t[i];
    transpose_bytes(w[0], w[2], w[4], w[6]);
    transpose_bytes(w[1], w[3], w[5], w[7]);
    for (int i = 0; i < 8; i += 2) transpose_bits(w[i], w[i + 1]);
}

// Moves the bytes of n elements to planes of `pitch` bytes, or back. Some bytes after the
// last element may be undefined afterwards, but none outside the tile.
template <int size_, bool back> __device__ __forceinline__ void move_bytes(uint8_t* elements, uint8_t* planes, int size, int n, int pitch) {
    if constexpr (size_ == 2) {
        for (int i = threadIdx.x; i < (n + 7) / 8; i += threads) {
            uint4* e = (uint4*)elements + i;
            uint2 *p = (uint2*)planes + i, *q = (uint2*)(planes + pitch) + i;
            if (back) {
                const uint2 a = *p, b = *q;
                *e = {__byte_perm(a.x, b.x, 0x5140), __byte_perm(a.x, b.x, 0x7362), __byte_perm(a.y, b.y, 0x5140), __byte_perm(a.y, b.y, 0x7362)};
            } else {
                const uint4 w = *e;
                *p = {__byte_perm(w.x, w.y, 0x6420), __byte_perm(w.z, w.w, 0x6420)};
                *q = {__byte_perm(w.x, w.y, 0x7531), __byte_perm(w.z, w.w, 0x7531)};
            }
        }
    } else if constexpr (size_ == 4 || size_ == 8 || size_ == 16) {
        constexpr int words = size_ / 4;
        for (int i = threadIdx.x; i < (n + 3) / 4; i += threads) {
            uint32_t w[4 * words];
            uint4* e = (uint4*)(elements + 4 * size_ * i);
            if (!back)
                for (int k = 0; k < words; k++) w[4 * k] = e[k].x, w[4 * k + 1] = e[k].y, w[4 * k + 2] = e[k].z, w[4 * k + 3] = e[k].w;
            for (int k = 0; k < words; k++) {
                uint32_t* p = (uint32_t*)(planes + 4 * k * pitch) + i;
                const int row = pitch / 4;
                uint32_t &a = w[k], &b = w[words + k], &c = w[2 * words + k], &d = w[3 * words + k];
                if (back) a = p[0], b = p[row], c = p[2 * row], d = p[3 * row];
                transpose_bytes(a, b, c, d);
                if (!back) p[0] = a, p[row] = b, p[2 * row] = c, p[3 * row] = d;
            }
            if (back)
                for (int k = 0; k < words; k++) e[k] = {w[4 * k], w[4 * k + 1], w[4 * k + 2], w[4 * k + 3]};
        }
    } else {
        for (int b = threadIdx.x / warp_size; b < size; b += threads / warp_size)
            for (int i = lane(); i < n; i += warp_size) {
                uint8_t &e = elements[i * size + b], &p = planes[b * pitch + i];
                if (back)
                    e = p;
                else
                    p = e;
            }
    }
}

// Moves the bits of planes of `pitch` bytes to 8 rows per plane, or back. A row, of shared or
// global memory, begins every `step` bytes, and has whole words.
template <int size_, bool back> __device__ __forceinline__ void move_bits(uint8_t* planes, uint8_t* rows, int64_t step, int size, int n, int pitch) {
    const int groups = size_ ? pitch / 32 : (n + 31) / 32;  // of 32 elements; a constant is divided by faster
    for (int i = threadIdx.x; i < size * groups; i += threads) {
        const int b = i / groups, g = i % groups;
        if (size_ && 32 * g >= n) continue;
        uint4* p = (uint4*)(planes + b * pitch) + 2 * g;
        uint8_t* row = rows + 8 * b * step + 4 * g;
        uint32_t w[8];
        if (back) {
            for (int k = 0; k < 8; k++) w[k] = *(uint32_t*)(row + k * step);
            bits_to_bytes(w);
            p[0] = {w[0], w[1], w[2], w[3]}, p[1] = {w[4], w[5], w[6], w[7]};
        } else {
            const uint4 x = p[0], y = p[1];
            w[0] = x.x, w[1] = x.y, w[2] = x.z, w[3] = x.w, w[4] = y.x, w[5] = y.y, w[6] = y.z, w[7] = y.w;
            bytes_to_bits(w);
            for (int k = 0; k < 8; k++) *(uint32_t*)(row + k * step) = w[k];
        }
    }
}

// Copies rows of a tile between shared memory and a range, in which a row begins every
// `step` bytes. Some threads share a row.
template <bool store> __device__ __forceinline__ void move_rows(uint8_t* tile, int pitch, uint8_t* range, int64_t step, int rows, int bytes) {
    if (!store && (((uintptr_t)range | step | bytes | pitch) & 15) == 0) {
        // Words of several rows are loaded before the first one is stored.
        const int words = bytes / 16;
#pragma unroll 4
        for (int i = threadIdx.x; i < rows * words; i += threads) {
            const int r = i / words, w = i % words;
            ((uint4*)(tile + r * pitch))[w] = ((const uint4*)(range + r * step))[w];
        }
        return;
    }
    const int together = bytes > 256 ? 32 : bytes > 128 ? 16 : bytes > 64 ? 8 : 4;
    const int thread = threadIdx.x % together;
    for (int r = threadIdx.x / together; r < rows; r += threads / together)
        copy_bytes(store ? range + r * step : tile + r * pitch, store ? tile + r * pitch : range + r * step, bytes, thread, together);
}

// size_ is the size of an element, or 0 if it is the argument.
template <int size_, bool bits, bool back>
__device__ __forceinline__ void shuffle(uint8_t* dst, const uint8_t* src, const Piece* pieces, int64_t count, int64_t argument) {
    __shared__ uint4 shared_elements[tile_bytes / 16], shared_planes[tile_bytes / 16];
    uint8_t *elements = (uint8_t*)shared_elements, *planes = (uint8_t*)shared_planes;
    const int size = size_ ? size_ : argument;
    const Piece p = pieces[find_piece(pieces, count, blockIdx.x)];
    const int pitch = tile_elements(size);
    const int64_t all = p.size / size, first = (blockIdx.x - p.tile) * (int64_t)pitch;
    const int n = min(all - first, (int64_t)pitch);
    // The range whose elements are whole, and the one that has planes or rows of bits.
    uint8_t *whole = (back ? dst + p.dst : (uint8_t*)src + p.src) + first * size, *split = back ? (uint8_t*)src + p.src : dst + p.dst;
    // Rows of bits take the place of the elements.
    uint8_t* rows = bits ? (size_ == 1 ? planes : elements) : planes;
    if (size_ == 1) planes = elements;
    const int per_byte = bits ? 8 : 1;
    const int64_t step = all / per_byte;  // from a row of the range to the next one
    split += first / per_byte;
    // Words of bits need not pass through shared memory if they are aligned.
    const bool direct = bits && (((uintptr_t)split | step) & 3) == 0 && n % 32 == 0;
    if (!back)
        copy_bytes(elements, whole, n * size, threadIdx.x, threads);
    else if (direct)
        move_bits<size_, true>(planes, split, step, size, n, pitch);
    else
        move_rows<false>(rows, pitch / per_byte, split, step, size * per_byte, n / per_byte);
    __syncthreads();
    if (bits && back && !direct) {
        move_bits<size_, true>(planes, rows, pitch / 8, size, n, pitch);
        __syncthreads();
    }
    if (size_ != 1) {
        move_bytes<size_, back>(elements, planes, size, n, pitch);
        __syncthreads();
    }
    if (back) {
        copy_bytes(whole, elements, n * size, threadIdx.x, threads);
        return;
    }
    if (direct) {
        move_bits<size_, false>(planes, split, step, size, n, pitch);
        return;
    }
    if (bits) {
        move_bits<size_, false>(planes, rows, pitch / 8, size, n, pitch);
        __syncthreads();
    }
    move_rows<true>(rows, pitch / per_byte, split, step, size * per_byte, n / per_byte);
}

#define KERNEL(name, size, bits, back) \
    extern "C" __global__ __launch_bounds__(threads) void quiver_##name(uint8_t* dst, const uint8_t* src, const Piece* pieces, int64_t count, int64_t element) { \
        shuffle<size, bits, back>(dst, src, pieces, count, element); \
    }
KERNEL(shuffle_bytes_2, 2, false, false)
KERNEL(shuffle_bytes_4, 4, false, false)
KERNEL(shuffle_bytes_8, 8, false, false)
KERNEL(shuffle_bytes_16, 16, false, false)
KERNEL(shuffle_bytes, 0, false, false)
KERNEL(unshuffle_bytes_2, 2, false, true)
KERNEL(unshuffle_bytes_4, 4, false, true)
KERNEL(unshuffle_bytes_8, 8, false, true)
KERNEL(unshuffle_bytes_16, 16, false, true)
KERNEL(unshuffle_bytes, 0, false, true)
KERNEL(shuffle_bits_1, 1, true, false)
KERNEL(shuffle_bits_2, 2, true, false)
KERNEL(shuffle_bits_4, 4, true, false)
KERNEL(shuffle_bits_8, 8, true, false)
KERNEL(shuffle_bits_16, 16, true, false)
KERNEL(shuffle_bits, 0, true, false)
KERNEL(unshuffle_bits_1, 1, true, true)
KERNEL(unshuffle_bits_2, 2, true, true)
KERNEL(unshuffle_bits_4, 4, true, true)
KERNEL(unshuffle_bits_8, 8, true, true)
KERNEL(unshuffle_bits_16, 16, true, true)
KERNEL(unshuffle_bits, 0, true, true)
