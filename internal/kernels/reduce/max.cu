// Maxima and minima: see kernels.cuh.

#include "reduce/kernels.cuh"
#include "reduce/argmax.cuh"
#include "reduce/max.cuh"

#define MAX(name, T)              \
    REDUCTION(max_##name, Max<T>) \
    FINISH(max_##name, Max<T>)

MAX(8, uint8_t)
MAX(16, uint16_t)
MAX(32, uint32_t)
MAX(64, uint64_t)
MAX(f16, f16)
MAX(bf16, bf16)
MAX(f32, float)
MAX(f64, double)
STRIDED(max_c64, FirstMax<c64>)
FINISH(max_c64, FirstMax<c64>)
STRIDED(max_c128, FirstMax<c128>)
FINISH(max_c128, FirstMax<c128>)
