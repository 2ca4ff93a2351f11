// Casts of bytes to elements of up to 32 bits, a word of four bytes at a time: several
// instructions per byte would be slower than memory.

#pragma once
#include "elementwise/convert.cuh"

template <class S> constexpr bool is_byte = sizeof(S) == 1 && !same<S, b8>;

// Selects bytes of x (0 to 3) and y (4 to 7) by the digits of the selector, the last digit
// for the lowest byte. Digits 8 to b give a byte filled with the sign of that byte of x.
template <uint32_t selector> __device__ __forceinline__ uint32_t pick(uint32_t x, uint32_t y) {
    uint32_t r;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "n"(selector));
    return r;
}

// Sets each byte that is not 0 to 1.
__device__ __forceinline__ uint32_t truths(uint32_t w) { return ((w & 0x7f7f7f7fu) + 0x7f7f7f7fu | w) >> 7 & 0x01010101u; }

// A signed byte with its sign bit inverted is an unsigned byte that is `offset` too large.
template <class S> constexpr uint32_t turned = is_signed<S> ? 0x80808080u : 0;
template <class S> constexpr float offset = is_signed<S> ? 128 : 0;

// The last bit of a float of 2^23 has the value 1, so a byte inserted there is added to it.
template <class S, int k> __device__ __forceinline__ float float_of(uint32_t turned_word) {
    return __uint_as_float(pick<0x7440 + k>(turned_word, 0x4b000000u)) - (0x1p23f + offset<S>);
}

// Converts two bytes: each is inserted into a float16 of 1024, which is then subtracted.
template <class S, uint32_t selector> __device__ __forceinline__ uint32_t halves_of(uint32_t turned_word) {
    uint32_t r;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(pick<selector>(turned_word, 0x64646464u)), "r"(is_signed<S> ? 0x64806480u : 0x64006400u));
    return r;
}

template <class S, class D> __device__ __forceinline__ void cast_word(uint32_t w, uint32_t (&to)[sizeof(D)]) {
    const uint32_t t = w ^ turned<S>;
    if constexpr (same<D, b8>) {
        to[0] = truths(w);
    } else if constexpr (same<D, f16>) {
        to[0] = halves_of<S, 0x5140>(t), to[1] = halves_of<S, 0x5342>(t);
    } else if constexpr (same<D, bf16>) {  // any byte fits its 8 significant bits
        to[0] = pick<0x7632>(__float_as_uint(float_of<S, 0>(t)), __float_as_uint(float_of<S, 1>(t)));
        to[1] = pick<0x7632>(__float_as_uint(float_of<S, 2>(t)), __float_as_uint(float_of<S, 3>(t)));
    } else if constexpr (same<D, float>) {
        to[0] = __float_as_uint(float_of<S, 0>(t)), to[1] = __float_as_uint(float_of<S, 1>(t));
        to[2] = __float_as_uint(float_of<S, 2>(t)), to[3] = __float_as_uint(float_of<S, 3>(t));
    } else if constexpr (sizeof(D) == 2) {
        constexpr bool sign = is_signed<S>;
        to[0] = pick<sign ? 0x9180 : 0x4140>(w, 0), to[1] = pick<sign ? 0xb3a2 : 0x4342>(w, 0);
    } else {
        static_assert(is_integer<D> && sizeof(D) == 4);
        constexpr bool sign = is_signed<S>;
        to[0] = pick<sign ? 0x8880 : 0x4440>(w, 0), to[1] = pick<sign ? 0x9991 : 0x4441>(w, 0);
        to[2] = pick<sign ? 0xaaa2 : 0x4442>(w, 0), to[3] = pick<sign ? 0xbbb3 : 0x4443>(w, 0);
    }
}
