// where(condition, x, y): integers of either sign share the kernel of their size. clip(x,
// low, high): a NaN among the operands makes the result NaN.

#include "elementwise/forms.cuh"

template <class T> struct Where {
    template <int N>
    static __device__ __forceinline__ void apply(const Elements<uint8_t, N>& condition, const Elements<T, N>& x,
                                                 const Elements<T, N>& y, Elements<T, N>& r) {
        if constexpr (sizeof(T) == 1) {
#pragma unroll
            for (int k = 0; k < N / 4; k++) {
                const uint32_t mask = condition.w[k] * 0xffu;  // condition bytes are 0 or 1
                r.w[k] = (x.w[k] & mask) | (y.w[k] & ~mask);
            }
        } else {
#pragma unroll
            for (int k = 0; k < N; k++) r.set(k, condition[k] ? x[k] : y[k]);
        }
    }
};

template <class T> struct Clip {
    template <int N>
    static __device__ __forceinline__ void apply(const Elements<T, N>& x, const Elements<T, N>& low,
                                                 const Elements<T, N>& high, Elements<T, N>& r) {
#pragma unroll
        for (int k = 0; k < N; k++) {
            work<T> v = widen(x[k]);
            const work<T> l = widen(low[k]), h = widen(high[k]);
            if (v == v && !(v > l)) v = l;
            if (v == v && !(v < h)) v = h;
            put(r, k, v);
        }
    }
};

CHOICE_KERNELS(where_u8, uint8_t, uint8_t, Where<uint8_t>)
CHOICE_KERNELS(where_u16, uint8_t, uint16_t, Where<uint16_t>)
CHOICE_KERNELS(where_u32, uint8_t, uint32_t, Where<uint32_t>)
CHOICE_KERNELS(where_u64, uint8_t, uint64_t, Where<uint64_t>)
CHOICE_KERNELS(where_f16, uint8_t, f16, Where<f16>)
CHOICE_KERNELS(where_bf16, uint8_t, bf16, Where<bf16>)
CHOICE_KERNELS(where_f32, uint8_t, float, Where<float>)
CHOICE_KERNELS(where_f64, uint8_t, double, Where<double>)
CHOICE_KERNELS(where_c64, uint8_t, c64, Where<c64>)
CHOICE_KERNELS(where_c128, uint8_t, c128, Where<c128>)

CHOICE_KERNELS(clip_i8, int8_t, int8_t, Clip<int8_t>)
CHOICE_KERNELS(clip_u8, uint8_t, uint8_t, Clip<uint8_t>)
CHOICE_KERNELS(clip_i16, int16_t, int16_t, Clip<int16_t>)
CHOICE_KERNELS(clip_u16, uint16_t, uint16_t, Clip<uint16_t>)
CHOICE_KERNELS(clip_i32, int32_t, int32_t, Clip<int32_t>)
CHOICE_KERNELS(clip_u32, uint32_t, uint32_t, Clip<uint32_t>)
CHOICE_KERNELS(clip_i64, int64_t, int64_t, Clip<int64_t>)
CHOICE_KERNELS(clip_u64, uint64_t, uint64_t, Clip<uint64_t>)
CHOICE_KERNELS(clip_f16, f16, f16, Clip<f16>)
CHOICE_KERNELS(clip_bf16, bf16, bf16, Clip<bf16>)
CHOICE_KERNELS(clip_f32, float, float, Clip<float>)
CHOICE_KERNELS(clip_f64, double, double, Clip<double>)
