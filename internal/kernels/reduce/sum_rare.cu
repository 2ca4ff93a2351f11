// Sums of complex numbers and times, and means of wide integers: see kernels.cuh.

#include "reduce/kernels.cuh"
#include "reduce/sum.cuh"

ROWS(sum_c64, SumComplex<float, SumFloat<float>>)
STRIDED(sum_c64, SumComplex<float, SumFloat<float>>)
FINISH(sum_c64, SumComplex<float, SumFloat<float>>)
ROWS(sum_c128, SumComplex<double, SumDouble<double>>)
STRIDED(sum_c128, SumComplex<double, SumDouble<double>>)
FINISH(sum_c128, SumComplex<double, SumDouble<double>>)
ROWS(sum_ticks, SumTicks)
STRIDED(sum_ticks, SumTicks)
FINISH(sum_ticks, SumTicks)
STRIDED(mean_u32, SumDouble<uint32_t>)
STRIDED(mean_i32, SumDouble<int32_t>)
ROWS(mean_u64, SumDouble<uint64_t>)
STRIDED(mean_u64, SumDouble<uint64_t>)
ROWS(mean_i64, SumDouble<int64_t>)
STRIDED(mean_i64, SumDouble<int64_t>)
