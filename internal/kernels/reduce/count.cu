// Numbers of nonzero elements: see kernels.cuh.

#include "reduce/kernels.cuh"
#include "reduce/count.cuh"

REDUCTION(count_8, Count<uint8_t>)
REDUCTION(count_16, Count<uint16_t>)
REDUCTION(count_32, Count<uint32_t>)
REDUCTION(count_64, Count<uint64_t>)
ROWS(count_128, Count<Words>)
STRIDED(count_128, Count<Words>)
FINISH(count, Count<uint8_t>)
