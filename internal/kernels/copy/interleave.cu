// Interleaves planes and separates them again: a plane has its units side by side, a row
// has one unit of each plane. An example is an image whose colours are planes on one side
// and parts of a pixel on the other.

#include "copy/async_copy.cuh"
#include "copy/plan.cuh"

// The plan; the fields are documented in internal/stridedcopy.
struct Interleave {
    int64_t begin, end, plane;
    int32_t whole, extent, chunks;
    int32_t pitch, rows;
    int32_t count;
    Axis axes[plan_axes];
    int32_t planes, width, planar, items;
};

// Loads 4 bytes at any byte offset of shared memory.
__device__ __forceinline__ uint32_t word_at(const uint8_t* image, int at) {
    const uint32_t* w = (const uint32_t*)image + (at >> 2);
    return __funnelshift_r(w[0], w[1], (at & 3) * 8);
}

// Returns `into` with byte `to` replaced by byte `from` of `w`.
__device__ __forceinline__ uint32_t put_byte(uint32_t into, uint32_t w, int to, int from) {
    return __byte_perm(into, w, (0x3210 & ~(0xf << 4 * to)) | (4 + from) << 4 * to);
}

// Copies a run of the source to shared memory so that its 16-byte words keep their
// alignment. Returns the offset of the run there.
template <typename T> __device__ __forceinline__ int load_run(uint8_t* image, const uint8_t* from, int bytes, const uint8_t* begin, const uint8_t* end) {
    const int lead = (int)(uintptr_t)from & 15;
    for (int at = 16 * threadIdx.x - lead; at < bytes; at += 16 * block) {
        const uint8_t* p = from + at;
        uint8_t* q = image + lead + at;
        if (p >= begin && p + 16 <= end) copy_async((uint4*)q, (const uint4*)p);
        else
            for (int k = 0; k < 16; k += sizeof(T))
                if (at + k >= 0 && at + k < bytes) *(T*)(q + k) = *(const T*)(p + k);
    }
    return lead;
}

// Writes a run of the destination from shared memory.
template <typename T> __device__ __forceinline__ void store_run(uint8_t* to, const uint8_t* image, int bytes) {
    const int lead = (int)(uintptr_t)to & 7;
    for (int at = 8 * threadIdx.x - lead; at < bytes; at += 8 * block) {
        if (at >= 0 && at + 8 <= bytes) {
            const uint32_t* w = (const uint32_t*)image + (at >> 2);
            const int shift = (at & 3) * 8;
            const uint32_t middle = w[1];
            *(uint2*)(to + at) = {__funnelshift_r(w[0], middle, shift), __funnelshift_r(middle, w[2], shift)};
        } else {
            for (int k = 0; k < 8; k += sizeof(T))
                if (at + k >= 0 && at + k < bytes) *(T*)(to + at + k) = *(const T*)(image + at + k);
        }
    }
}

// A block copies a part of each plane. `planar` means that the planes are in the
// destination. Both operands are accessed in whole words, whatever the alignment of the
// other.
template <typename T, int planes, bool planar>
__device__ __forceinline__ void copy_interleaved(uint8_t* __restrict__ dst, const uint8_t* __restrict__ src, const Interleave& t) {
    constexpr int size = sizeof(T);
    extern __shared__ uint4 memory[];
    uint8_t *in = (uint8_t*)memory, *out = in + (planar ? t.rows : planes * t.pitch);
    const uint32_t batch = blockIdx.x / t.chunks;
    const int first = (blockIdx.x - batch * t.chunks) * t.extent, length = min(t.extent, t.whole - first) * size;
    const uint8_t *begin = src + t.begin, *end = src + t.end;
    src += offset_of(t.axes, t.count, batch, &Axis::src) + (int64_t)first * (planar ? planes * size : size);
    dst += offset_of(t.axes, t.count, batch, &Axis::dst) + (int64_t)first * (planar ? size : planes * size);

    int lead[planes];
    if (planar) {
        lead[0] = load_run<T>(in, src, planes * length, begin, end);
    } else {
#pragma unroll
        for (int k = 0; k < planes; k++) lead[k] = load_run<T>(in + k * t.pitch, src + k * t.plane, length, begin, end);
    }
    wait_for_copies();
    __syncthreads();

    // One word of each plane makes `planes` words of rows.
    for (int at = 4 * threadIdx.x; at < length; at += 4 * block) {
        uint32_t from[planes], to[planes];
#pragma unroll
        for (int k = 0; k < planes; k++) from[k] = planar ? word_at(in, lead[0] + planes * at + 4 * k) : word_at(in + k * t.pitch, lead[k] + at);
#pragma unroll
        for (int k = 0; k < planes; k++) {
            to[k] = 0;
#pragma unroll
            for (int b = 0; b < 4; b++) {
                // Byte `row` of the rows belongs to byte `of` of a plane's word.
                const int row = planar ? (b / size * planes + k) * size + b % size : 4 * k + b;
                const int of = row / size / planes * size + row % size;
                to[k] = planar ? put_byte(to[k], from[row / 4], b, row % 4) : put_byte(to[k], from[row / size % planes], b, of);
            }
        }
#pragma unroll
        for (int k = 0; k < planes; k++) *(uint32_t*)(planar ? out + k * t.pitch + at : out + planes * at + 4 * k) = to[k];
    }
    __syncthreads();

    if (planar) {
#pragma unroll
        for (int k = 0; k < planes; k++) store_run<T>(dst + k * t.plane, out + k * t.pitch, length);
    } else {
        store_run<T>(dst, out, planes * length);
    }
}

#define INTERLEAVE(WIDTH, T, PLANES)                                                                                  \
    extern "C" __global__ void __launch_bounds__(block)                                                          \
        quiver_interleave##PLANES##_##WIDTH(uint8_t* dst, const uint8_t* src, const __grid_constant__ Interleave t) {      \
        copy_interleaved<T, PLANES, false>(dst, src, t);                                                               \
    }
#define DEINTERLEAVE(WIDTH, T, PLANES)                                                                                \
    extern "C" __global__ void __launch_bounds__(block)                                                          \
        quiver_deinterleave##PLANES##_##WIDTH(uint8_t* dst, const uint8_t* src, const __grid_constant__ Interleave t) {    \
        copy_interleaved<T, PLANES, true>(dst, src, t);                                                                \
    }
#define BOTH_WAYS(WIDTH, T, PLANES) INTERLEAVE(WIDTH, T, PLANES) DEINTERLEAVE(WIDTH, T, PLANES)

BOTH_WAYS(1, uint8_t, 2)
BOTH_WAYS(1, uint8_t, 3)
BOTH_WAYS(1, uint8_t, 4)
BOTH_WAYS(1, uint8_t, 5)
BOTH_WAYS(1, uint8_t, 6)
BOTH_WAYS(1, uint8_t, 7)
INTERLEAVE(1, uint8_t, 8)
BOTH_WAYS(2, uint16_t, 2)
BOTH_WAYS(2, uint16_t, 3)
INTERLEAVE(2, uint16_t, 4)
BOTH_WAYS(2, uint16_t, 5)
BOTH_WAYS(2, uint16_t, 6)
BOTH_WAYS(2, uint16_t, 7)
INTERLEAVE(2, uint16_t, 8)
