// Reverses the bytes of each number.

#include "common/warp.cuh"

__device__ __forceinline__ uint32_t reverse_bytes(uint32_t word, int size) {
    return __byte_perm(word, 0, size == 2 ? 0x2301 : 0x0123);
}

// out[i] = in[i] with its bytes reversed, for n/size numbers of size bytes: 2, 4 or 8. out
// may equal in. Both may have any alignment.
extern "C" __global__ void quiver_byteswap(const uint8_t* in, uint8_t* out, int64_t n, int size) {
    const int64_t at = thread_index() * 16;
    if (at + 16 <= n && ((uintptr_t)in | (uintptr_t)out) % 16 == 0) {
        uint4 v = *(const uint4*)(in + at);
        if (size == 8) v = make_uint4(v.y, v.x, v.w, v.z);
        *(uint4*)(out + at) = make_uint4(reverse_bytes(v.x, size), reverse_bytes(v.y, size), reverse_bytes(v.z, size), reverse_bytes(v.w, size));
        return;
    }
    for (int64_t i = at; i < at + 16 && i < n; i += size)
        for (int b = 0; b < size / 2; b++) {
            const uint8_t low = in[i + b], high = in[i + size - 1 - b];
            out[i + b] = high;
            out[i + size - 1 - b] = low;
        }
}
