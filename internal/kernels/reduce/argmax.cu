// Positions of maxima and minima: see kernels.cuh.

#include "reduce/kernels.cuh"
#include "reduce/argmax.cuh"

#define ARGMAX(name, T)              \
    REDUCTION(argmax_##name, ArgMax<T>) \
    FINISH(argmax_##name, ArgMax<T>)

ARGMAX(8, uint8_t)
ARGMAX(16, uint16_t)
ARGMAX(32, uint32_t)
ARGMAX(64, uint64_t)
ARGMAX(f16, f16)
ARGMAX(bf16, bf16)
ARGMAX(f32, float)
ARGMAX(f64, double)
STRIDED(argmax_c64, ArgMax<c64>)
FINISH(argmax_c64, ArgMax<c64>)
STRIDED(argmax_c128, ArgMax<c128>)
FINISH(argmax_c128, ArgMax<c128>)
