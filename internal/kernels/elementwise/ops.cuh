// The codes of operations. They must match elementwise.Op.

#pragma once

enum Op : int {
    op_none,
    op_add, op_subtract, op_multiply, op_divide,
    op_maximum, op_minimum, op_fmax, op_fmin,
    op_and, op_or, op_xor, op_left_shift, op_right_shift, op_copysign,
    op_positive, op_negative, op_absolute, op_sign, op_square, op_invert,
    op_reciprocal, op_sqrt, op_floor, op_ceil, op_trunc, op_rint,
    // times: int64, of which the smallest is NaT
    op_time_add, op_time_subtract, op_time_multiply, op_time_maximum, op_time_minimum, op_time_fmax, op_time_fmin,
    op_time_negative, op_time_absolute,

    op_equal, op_not_equal, op_less, op_less_equal, op_greater, op_greater_equal,
    op_logical_and, op_logical_or, op_logical_xor, op_logical_not,
    op_isnan, op_isinf, op_isfinite, op_signbit,
    // an int64 with a uint64
    op_mixed_equal, op_mixed_not_equal, op_mixed_less, op_mixed_less_equal, op_mixed_greater, op_mixed_greater_equal,
    op_time_equal, op_time_not_equal, op_time_less, op_time_less_equal, op_time_greater, op_time_greater_equal,
    op_time_isnan, op_time_isfinite,

    op_time_divide, op_time_quotient, op_time_remainder,
    op_floor_divide, op_remainder, op_fmod, op_power,
    op_arctan2, op_hypot, op_nextafter, op_nextafter_float16, op_nextafter_bfloat16,  // the last two: floats that hold 16-bit values
    op_cbrt, op_exp, op_exp2, op_expm1, op_log, op_log2, op_log10, op_log1p,
    op_sin, op_cos, op_tan, op_arcsin, op_arccos, op_arctan,
    op_sinh, op_cosh, op_tanh, op_arcsinh, op_arccosh, op_arctanh,

    op_conjugate, op_real, op_imag, op_angle,
    op_where, op_clip,
};
