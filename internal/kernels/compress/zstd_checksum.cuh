// The checksum of Zstandard frames.

#pragma once
#include "compress/batch.cuh"

__device__ __forceinline__ uint64_t rotate(uint64_t v, int by) { return v << by | v >> (64 - by); }

constexpr uint64_t prime1 = 0x9E3779B185EBCA87, prime2 = 0xC2B2AE3D27D4EB4F, prime3 = 0x165667B19E3779F9, prime4 = 0x85EBCA77C2B2AE63, prime5 = 0x27D4EB2F165667C5;

__device__ __forceinline__ uint64_t load_long(const uint8_t* p) { return load_word(p) | (uint64_t)load_word(p + 4) << 32; }

// Returns the lowest 32 bits of XXH64 of size bytes, with a warp, four threads of which
// hash.
__device__ inline uint32_t xxh64(const uint8_t* p, uint32_t size) {
    uint64_t acc = lane() == 0 ? prime1 + prime2 : lane() == 1 ? prime2 : lane() == 2 ? 0 : 0 - prime1;
    const uint32_t stripes = size / 32;
    if (lane() < 4)
        for (uint32_t s = 0; s < stripes; s++) acc = rotate(acc + load_long(p + 32 * (int64_t)s + 8 * lane()) * prime2, 31) * prime1;
    uint64_t part[4];
    for (int a = 0; a < 4; a++) part[a] = __shfl_sync(~0u, acc, a);
    uint64_t hash = prime5;
    if (stripes > 0) {
        hash = rotate(part[0], 1) + rotate(part[1], 7) + rotate(part[2], 12) + rotate(part[3], 18);
        for (int a = 0; a < 4; a++) hash = (hash ^ rotate(part[a] * prime2, 31) * prime1) * prime1 + prime4;
    }
    hash += size;
    const uint8_t* stop = p + size;
    p += 32 * (int64_t)stripes;
    for (; stop - p >= 8; p += 8) hash = rotate(hash ^ rotate(load_long(p) * prime2, 31) * prime1, 27) * prime1 + prime4;
    if (stop - p >= 4) {
        hash = rotate(hash ^ load_word(p) * prime1, 23) * prime2 + prime3;
        p += 4;
    }
    for (; p < stop; p++) hash = rotate(hash ^ *p * prime5, 11) * prime1;
    hash = (hash ^ hash >> 33) * prime2;
    hash = (hash ^ hash >> 29) * prime3;
    return hash ^ hash >> 32;
}
