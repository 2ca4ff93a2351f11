// Casts from bool and the integers of 8 and 16 bits.

#include "elementwise/cast.cuh"

CAST_FROM(u8, uint8_t)
CAST_FROM(i8, int8_t)
CAST_FROM(u16, uint16_t)
CAST_FROM(i16, int16_t)
