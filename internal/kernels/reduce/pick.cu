// The elements at the positions that ArgMax has found. A thread reads one position and
// copies the element of its result there, so that maxima and their positions need one
// pass over the array.

#include "reduce/plan.cuh"

// out[r] = in[r, positions[r]] for each result r. Results and positions are contiguous
// in the same order; positions[r] counts the steps of a result, of p.length per run.
template <class U>
__device__ __forceinline__ void pick(const char* __restrict__ in, char* __restrict__ out, const int64_t* __restrict__ positions, const Plan& p) {
    const int64_t output = (int64_t)blockIdx.x * block_threads + threadIdx.x;
    if (output >= p.outputs) return;
    int64_t from = 0, to = 0;
    locate(p.kept, p.kept_axes, output, from, to);
    int64_t step = positions[to / (int64_t)sizeof(U)], none = 0;
    if (p.run_axes > 0) {
        const int64_t run = step / p.length;
        step -= run * p.length;
        locate(p.run, p.run_axes, run, from, none);
    }
    *(U*)(out + to) = *(const U*)(in + from + step * p.stride);
}

#define PICK(bytes, U)                                                            \
    extern "C" __global__ void __launch_bounds__(block_threads)                   \
        quiver_pick_##bytes(const char* in, char* out, const int64_t* positions, const __grid_constant__ Plan p) { \
        pick<U>(in, out, positions, p);                                           \
    }

PICK(1, uint8_t)
PICK(2, uint16_t)
PICK(4, uint32_t)
PICK(8, uint64_t)
PICK(16, c128)
