// Arrow bitmaps to bytes.
//
// One thread makes 16 bytes, written as one 16-byte store, from 16 bits that it
// finds in at most two 32-bit words. Stores are nine tenths of the traffic, so
// they set the speed: neighbouring threads write neighbouring 16 bytes.

#include <stdint.h>

// Four bits to four bytes of 0 or 1: the product puts bit i at bit 8*i.
__device__ __forceinline__ uint32_t spread4(uint32_t bits) {
    return ((bits & 0xFu) * 0x00204081u) & 0x01010101u;
}

__device__ __forceinline__ uint8_t one_bit(const uint8_t* bits, int64_t i, uint32_t flip) {
    return (uint8_t)(((bits[i >> 3] >> (i & 7)) & 1u) ^ (flip & 1u));
}

// out[i] = bit (bit_offset + i) of bits, xor flip, for 0 <= i < n.
//
// bits must be 4-byte aligned; the caller aligns it down and adds to bit_offset.
// flip is 0 or 0x01010101. out has any alignment: the first `head` bytes, up to
// the next multiple of 16, and the last few are written one by one.
extern "C" __global__ void quiver_unpack_bits(const uint8_t* __restrict__ bits, int64_t bit_offset, int64_t n,
                                              uint32_t flip, uint8_t* __restrict__ out) {
    const int64_t head = min((int64_t)((16 - ((uintptr_t)out & 15)) & 15), n);
    const int64_t vectors = (n - head) / 16;
    const int64_t tail = head + vectors * 16;
    const int64_t thread = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t threads = (int64_t)gridDim.x * blockDim.x;

    const uint32_t* words = (const uint32_t*)bits;
    const int64_t last_bit = bit_offset + n - 1;
    for (int64_t v = thread; v < vectors; v += threads) {
        const int64_t at = head + v * 16;
        const int64_t bit = bit_offset + at;
        const int64_t word = bit >> 5;
        const uint32_t shift = (uint32_t)(bit & 31);
        uint32_t b;
        if ((word << 5) + 63 <= last_bit) {
            b = __funnelshift_r(words[word], words[word + 1], shift);
        } else {
            // Near the end: not a byte beyond the last bit's is read.
            const int64_t first_byte = bit >> 3;
            b = bits[first_byte] | ((uint32_t)bits[first_byte + 1] << 8);
            if (bit & 7) b |= (uint32_t)bits[first_byte + 2] << 16;
            b >>= bit & 7;
        }
        uint4 quad;
        quad.x = spread4(b) ^ flip;
        quad.y = spread4(b >> 4) ^ flip;
        quad.z = spread4(b >> 8) ^ flip;
        quad.w = spread4(b >> 12) ^ flip;
        *(uint4*)(out + at) = quad;
    }
    if (thread < head) out[thread] = one_bit(bits, bit_offset + thread, flip);
    if (thread < n - tail) out[tail + thread] = one_bit(bits, bit_offset + tail + thread, flip);
}
