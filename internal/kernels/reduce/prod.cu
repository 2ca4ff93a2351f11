// Products: see kernels.cuh.

#include "reduce/kernels.cuh"
#include "reduce/prod.cuh"

STRIDED(prod_u8, ProdInteger<uint8_t>)
STRIDED(prod_i8, ProdInteger<int8_t>)
STRIDED(prod_u16, ProdInteger<uint16_t>)
STRIDED(prod_i16, ProdInteger<int16_t>)
STRIDED(prod_u32, ProdInteger<uint32_t>)
STRIDED(prod_i32, ProdInteger<int32_t>)
STRIDED(prod_i64, ProdInteger<int64_t>)
STRIDED(prod_f16, ProdFloat<f16, f16>)
STRIDED(prod_bf16, ProdFloat<bf16, bf16>)
STRIDED(prod_f32, ProdFloat<float, float>)
STRIDED(prod_f64, ProdFloat<double, double>)
STRIDED(prod_c64, ProdComplex<float>)
STRIDED(prod_c128, ProdComplex<double>)
FINISH(prod_u64, ProdInteger<uint64_t>)
FINISH(prod_i64, ProdInteger<int64_t>)
FINISH(prod_f64, ProdFloat<double, double>)
FINISH(prod_c128, ProdComplex<double>)
