// Sums and means: see kernels.cuh.

#include "reduce/kernels.cuh"
#include "reduce/sum.cuh"

REDUCTION(sum_u8, SumInteger<uint8_t>)
REDUCTION(sum_i8, SumInteger<int8_t>)
REDUCTION(sum_u16, SumInteger<uint16_t>)
REDUCTION(sum_i16, SumInteger<int16_t>)
REDUCTION(sum_u32, SumInteger<uint32_t>)
REDUCTION(sum_i32, SumInteger<int32_t>)
REDUCTION(sum_i64, SumInteger<int64_t>)
REDUCTION(sum_f16, SumFloat<f16>)
REDUCTION(sum_bf16, SumFloat<bf16>)
REDUCTION(sum_f32, SumFloat<float>)
REDUCTION(sum_f64, SumDouble<double>)
FINISH(sum_u64, SumInteger<uint64_t>)
FINISH(sum_i64, SumInteger<int64_t>)
FINISH(sum_f32, SumFloat<float>)
FINISH(sum_f64, SumDouble<double>)
