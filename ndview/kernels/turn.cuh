// Squares of small units, turned in registers.

#pragma once
#include <stdint.h>

// The bytes of four words, as a square, turned.
__device__ __forceinline__ void turn(uint32_t& a, uint32_t& b, uint32_t& c, uint32_t& d) {
    const uint32_t ab0 = __byte_perm(a, b, 0x5140), cd0 = __byte_perm(c, d, 0x5140);
    const uint32_t ab2 = __byte_perm(a, b, 0x7362), cd2 = __byte_perm(c, d, 0x7362);
    a = __byte_perm(ab0, cd0, 0x5410);
    b = __byte_perm(ab0, cd0, 0x7632);
    c = __byte_perm(ab2, cd2, 0x5410);
    d = __byte_perm(ab2, cd2, 0x7632);
}

// Two units of 2 bytes each.
__device__ __forceinline__ void turn(uint32_t& a, uint32_t& b) {
    const uint32_t first = __byte_perm(a, b, 0x5410);
    b = __byte_perm(a, b, 0x7632);
    a = first;
}
