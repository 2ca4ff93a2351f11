// Fills memory with a pattern of 16 bytes.

#include "common/warp.cuh"

// out[i] = byte (i + turn) % 16 of the pattern, for 0 <= i < n; out - turn must be a
// multiple of 16. low and high are the bytes of the pattern. A thread writes one vector, as
// memory is fastest with writes in the order of addresses.
extern "C" __global__ void quiver_fill(uint8_t* out, int64_t n, uint32_t turn, uint64_t low, uint64_t high) {
    const int64_t from = thread_index() * 16 - turn;
    if (from >= 0 && from + 16 <= n) {
        *(ulonglong2*)(out + from) = make_ulonglong2(low, high);
        return;
    }
    for (int b = 0; b < 16; b++)
        if (from + b >= 0 && from + b < n) out[from + b] = (uint8_t)((b < 8 ? low : high) >> (b % 8 * 8));
}
