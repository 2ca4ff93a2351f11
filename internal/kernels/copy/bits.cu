// Converts Arrow bitmaps to bytes of 0 and 1, and bytes to bitmaps.
//
// Nine tenths of unpacking's traffic are stores, so the threads of a warp write
// neighbouring 16 bytes at once. Two loaded bytes per store are too few in flight to hide
// their latency, so a thread loads for four stores before the first store.

#include "common/warp.cuh"

constexpr int unroll = 4;
constexpr int tile = warp_size * unroll;  // 16-byte vectors per warp

// Expands four bits to four bytes of 0 or 1: the product puts bit i at bit 8*i.
__device__ __forceinline__ uint32_t spread4(uint32_t bits) {
    return ((bits & 0xFu) * 0x00204081u) & 0x01010101u;
}

__device__ __forceinline__ void store16(uint8_t* out, uint32_t bits, uint32_t flip) {
    uint4 quad;
    quad.x = spread4(bits) ^ flip;
    quad.y = spread4(bits >> 4) ^ flip;
    quad.z = spread4(bits >> 8) ^ flip;
    quad.w = spread4(bits >> 12) ^ flip;
    *(uint4*)out = quad;
}

// Returns the 16 bits from `bit` on in the low half. It reads only bytes that hold them.
__device__ __forceinline__ uint32_t load16(const uint8_t* bits, int64_t bit) {
    const uint8_t* at = bits + (bit >> 3);
    const uint32_t shift = (uint32_t)(bit & 7);
    uint32_t b = at[0] | (uint32_t)at[1] << 8;
    if (shift) b |= (uint32_t)at[2] << 16;
    return b >> shift;
}

__device__ __forceinline__ uint8_t one_bit(const uint8_t* bits, int64_t i, uint32_t flip) {
    return (uint8_t)(((bits[i >> 3] >> (i & 7)) & 1u) ^ (flip & 1u));
}

// out[i] = bit (bit_offset + i) of bits, xor flip, for 0 <= i < n.
//
// bits must be 4-byte aligned: the caller aligns the pointer down and adds the difference
// to bit_offset. flip is 0 or 0x01010101. out may have any alignment: the first `head`
// bytes, up to the next multiple of 16, and the last few are written one by one.
extern "C" __global__ void quiver_unpack_bits(const uint8_t* __restrict__ bits, int64_t bit_offset, int64_t n,
                                              uint32_t flip, uint8_t* __restrict__ out) {
    const int64_t head = min((int64_t)((16 - ((uintptr_t)out & 15)) & 15), n);
    const int64_t vectors = (n - head) / 16;
    const int64_t tail = head + vectors * 16;
    const int64_t thread = thread_index();
    if (thread < 16) {
        if (thread < head) out[thread] = one_bit(bits, bit_offset + thread, flip);
        if (thread < n - tail) out[tail + thread] = one_bit(bits, bit_offset + tail + thread, flip);
    }

    const int64_t first = warp_index() * tile;
    const int64_t vector = first + lane();
    const int64_t bit = bit_offset + head + vector * 16;
    uint8_t* to = out + head + vector * 16;
    const int64_t last_word = (bit_offset + head + (first + tile - 1) * 16) >> 5;
    if (last_word + 1 < (bit_offset + n) >> 5) {
        // 16 bits lie in at most two words. A step along the tile is a whole number of
        // words, so the shift stays the same.
        const uint32_t* words = (const uint32_t*)bits + (bit >> 5);
        const uint32_t shift = (uint32_t)(bit & 31);
        uint32_t low[unroll], high[unroll];
#pragma unroll
        for (int u = 0; u < unroll; u++) {
            low[u] = words[u * warp_size / 2];
            high[u] = words[u * warp_size / 2 + 1];
        }
#pragma unroll
        for (int u = 0; u < unroll; u++)
            store16(to + u * warp_size * 16, __funnelshift_r(low[u], high[u], shift), flip);
        return;
    }
    // Near the end no byte after the one with the last bit is read.
#pragma unroll 1
    for (int u = 0; u < unroll && vector + u * warp_size < vectors; u++)
        store16(to + u * warp_size * 16, load16(bits, bit + u * warp_size * 16), flip);
}

// Sets the lowest bit of each byte that is not 0.
__device__ __forceinline__ uint32_t nonzero4(uint32_t bytes) { return __vcmpne4(bytes, 0) & 0x01010101u; }

// Packs sixteen bytes into sixteen bits. Each product gathers four bits in the highest
// four.
__device__ __forceinline__ uint32_t gather16(uint4 v) {
    constexpr uint32_t gather = 0x10204080u;
    return nonzero4(v.x) * gather >> 28 | (nonzero4(v.y) * gather >> 28) << 4 | (nonzero4(v.z) * gather >> 28) << 8 |
           (nonzero4(v.w) * gather >> 28) << 12;
}

constexpr int pack_unroll = 4;

// Bit first + i of out = (in[i] != 0) xor flip, for 0 <= i < n. Other bits keep their
// values, and other bytes are not written.
//
// out is 4-byte aligned, 0 <= first < 32; flip is 0 or all ones. A thread computes words of
// 32 bits, each from the two or three aligned 16-byte vectors that hold its elements. The
// words of a warp are neighbours, and so are its vectors.
extern "C" __global__ void quiver_pack_bits(const uint8_t* __restrict__ in, int64_t n, uint32_t* __restrict__ out,
                                            int64_t first, uint32_t flip) {
    const int64_t words = (first + n + 31) / 32;
    const int64_t word = warp_index() * (warp_size * pack_unroll) + lane();
    const int64_t element = word * 32 - first;  // of bit 0 of the thread's first word
    const uint32_t skew = (uint32_t)((uintptr_t)(in + element) & 15);
    const int64_t step = warp_size * 32;
    if (element >= 16 && element + (pack_unroll - 1) * step + 48 <= n) {
        const uint4* at = (const uint4*)(in + element - skew);
        uint4 v[pack_unroll][3];
#pragma unroll
        for (int u = 0; u < pack_unroll; u++) {
            v[u][0] = at[u * step / 16];
            v[u][1] = at[u * step / 16 + 1];
            v[u][2] = skew ? at[u * step / 16 + 2] : make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (int u = 0; u < pack_unroll; u++) {
            const uint32_t low = gather16(v[u][0]) | gather16(v[u][1]) << 16;
            out[word + u * warp_size] = __funnelshift_r(low, gather16(v[u][2]), skew) ^ flip;
        }
        return;
    }
    // At the ends, byte by byte.
    for (int u = 0; u < pack_unroll && word + u * warp_size < words; u++) {
        for (int byte = 0; byte < 4; byte++) {
            const int64_t from = element + u * step + byte * 8;
            uint32_t bits = 0, mask = 0;
            for (int bit = 0; bit < 8; bit++) {
                const int64_t i = from + bit;
                if (i < 0 || i >= n) continue;
                mask |= 1u << bit;
                bits |= (uint32_t)(in[i] != 0) << bit;
            }
            if (!mask) continue;
            uint8_t* to = (uint8_t*)(out + word + u * warp_size) + byte;
            bits = (bits ^ flip) & mask;
            *to = (uint8_t)(mask == 0xFFu ? bits : bits | (*to & ~mask));
        }
    }
}
