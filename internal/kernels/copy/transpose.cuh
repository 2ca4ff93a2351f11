// Transposes squares of units in registers.

#pragma once
#include <stdint.h>

// Transposes the 4 x 4 bytes of four words.
__device__ __forceinline__ void transpose(uint32_t& a, uint32_t& b, uint32_t& c, uint32_t& d) {
    const uint32_t ab0 = __byte_perm(a, b, 0x5140), cd0 = __byte_perm(c, d, 0x5140);
    const uint32_t ab2 = __byte_perm(a, b, 0x7362), cd2 = __byte_perm(c, d, 0x7362);
    a = __byte_perm(ab0, cd0, 0x5410);
    b = __byte_perm(ab0, cd0, 0x7632);
    c = __byte_perm(ab2, cd2, 0x5410);
    d = __byte_perm(ab2, cd2, 0x7632);
}

// Transposes 2 x 2 units of 2 bytes.
__device__ __forceinline__ void transpose(uint32_t& a, uint32_t& b) {
    const uint32_t first = __byte_perm(a, b, 0x5410);
    b = __byte_perm(a, b, 0x7632);
    a = first;
}

// A line of neighbouring units, in words.
template <int bytes> struct alignas(bytes) Line { uint32_t word[bytes / 4]; };

// Transposes `side` lines of `side` units of `size` bytes each. A line is a whole number of
// words.
template <int size, int side> __device__ __forceinline__ void transpose(Line<side * size> (&lines)[side]) {
    constexpr int small = size < 4 ? 4 / size : 1, words = size < 4 ? 1 : size / 4, blocks = side / small;
#pragma unroll
    for (int i = 0; i < blocks; i++)
#pragma unroll
        for (int j = 0; j < blocks; j++) {
            if constexpr (small == 4) transpose(lines[4 * i].word[j], lines[4 * i + 1].word[j], lines[4 * i + 2].word[j], lines[4 * i + 3].word[j]);
            if constexpr (small == 2) transpose(lines[2 * i].word[j], lines[2 * i + 1].word[j]);
        }
#pragma unroll
    for (int i = 0; i < blocks; i++)
#pragma unroll
        for (int j = 0; j < i; j++)
#pragma unroll
            for (int k = 0; k < small * words; k++) {
                uint32_t &a = lines[i * small + k / words].word[j * words + k % words], &b = lines[j * small + k / words].word[i * words + k % words];
                const uint32_t first = a;
                a = b;
                b = first;
            }
}
