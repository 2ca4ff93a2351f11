// Finds the items of a batch that repeat a pattern of bytes, chunks of fill values for instance.

#include <stdint.h>

// Size bytes from offset on, and the bytes of patterns that they are compared with: period
// from pattern on, a multiple of 16. Offset and pattern are multiples of 16.
struct Item {
    int64_t offset, size, pattern, period;
};

// Sets differs[i], which is 0 before, to 1 if item i does not repeat its pattern. The blocks
// of blockIdx.x share item x. They stop soon after one of them has found a difference.
extern "C" __global__ void quiver_filled(const uint8_t* data, const Item* items, const uint8_t* patterns, uint32_t* differs) {
    const Item item = items[blockIdx.x];
    const uint4* words = (const uint4*)(data + item.offset);
    const uint4* pattern = (const uint4*)(patterns + item.pattern);
    const int64_t count = item.size / 16, period = item.period / 16;
    const int64_t step = (int64_t)gridDim.y * blockDim.x, first = (int64_t)blockIdx.y * blockDim.x + threadIdx.x;
    volatile uint32_t* found = differs + blockIdx.x;
    for (int64_t i = first; i < count; i += step) {
        if (*found) return;
        const uint4 a = words[i], b = pattern[i % period];
        if (a.x != b.x || a.y != b.y || a.z != b.z || a.w != b.w) {
            *found = 1;
            return;
        }
    }
    const int64_t rest = item.size % 16;
    if (first < rest && data[item.offset + count * 16 + first] != patterns[item.pattern + (count % period) * 16 + first]) *found = 1;
}
