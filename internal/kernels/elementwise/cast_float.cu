// Casts from real and complex floats.

#include "elementwise/cast.cuh"

CAST_FROM(f16, f16)
CAST_FROM(bf16, bf16)
CAST_FROM(f32, float)
CAST_FROM(f64, double)
CAST_FROM(c64, c64)
CAST_FROM(c128, c128)
