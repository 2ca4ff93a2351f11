// Casts from the integers of 32 and 64 bits.

#include "elementwise/cast.cuh"

CAST_FROM(u32, uint32_t)
CAST_FROM(i32, int32_t)
CAST_FROM(u64, uint64_t)
CAST_FROM(i64, int64_t)
