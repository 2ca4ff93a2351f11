// Casts between arrays of any strides.
//
// All threads of a grid have the same types, so branches on them cost little. Each element
// is converted to the widest type of its kind, which represents it exactly, and from there
// to the result, which is rounded once.

#include "elementwise/convert.cuh"
#include "common/walk.cuh"

// An element between the two conversions.
union Wide {
    int64_t i;
    uint64_t u;
    c128 c;
};
enum Width { wide_signed, wide_unsigned, wide_real, wide_pair };

// Elements that are not aligned are accessed byte by byte.
template <class T> __device__ __forceinline__ T read(const uint8_t* from, bool aligned) {
    if (aligned) return *(const T*)from;
    T v;
    for (int b = 0; b < sizeof(T); b++) ((uint8_t*)&v)[b] = from[b];
    return v;
}
template <class T> __device__ __forceinline__ void write(uint8_t* to, T v, bool aligned) {
    if (aligned) *(T*)to = v;
    else
        for (int b = 0; b < sizeof(T); b++) to[b] = ((const uint8_t*)&v)[b];
}

template <class S> __device__ __forceinline__ void load(const uint8_t* in, const int64_t (&at)[unroll], bool aligned, Wide (&v)[unroll]) {
    S s[unroll];
#pragma unroll
    for (int k = 0; k < unroll; k++) s[k] = read<S>(in + at[k], aligned);
#pragma unroll
    for (int k = 0; k < unroll; k++) {
        if constexpr (same<S, b8>) v[k].i = s[k].byte != 0;
        else if constexpr (same<S, uint64_t>) v[k].u = s[k];
        else if constexpr (is_integer<S>) v[k].i = s[k];
        else if constexpr (is_complex<S>) v[k].c = convert<c128>(s[k]);
        else v[k].c.re = convert<double>(s[k]);
    }
}

template <class D> __device__ __forceinline__ void store(const Walk& w, uint8_t* out, const int64_t (&at)[unroll], bool aligned, Width kind, const Wide (&v)[unroll]) {
#pragma unroll
    for (int k = 0; k < unroll; k++) {
        D d;
        if (kind == wide_signed) d = convert<D>(v[k].i);
        else if (kind == wide_unsigned) d = convert<D>(v[k].u);
        else if (kind == wide_real) d = convert<D>(v[k].c.re);
        else d = convert<D>(v[k].c);
        if (is_item(w, k)) write(out + at[k], d, aligned);
    }
}

// For each item of the walk: the element of out at w.value becomes the element of in at
// w.data, as another type.
extern "C" __global__ void quiver_cast_strided(const uint8_t* in, uint8_t* out, const __grid_constant__ Walk w,
                                            uint32_t to, uint32_t from, uint32_t aligned) {
    int64_t data[unroll] = {}, value[unroll] = {};
    locate(w, [&](int k, int u, int64_t i) {
        data[u] += i * w.data[k];
        value[u] += i * w.value[k];
    });
    Wide v[unroll] = {};
    Width kind = wide_signed;
    switch (from) {
    case type_bool: load<b8>(in, data, aligned, v); break;
    case type_i8: load<int8_t>(in, data, aligned, v); break;
    case type_u8: load<uint8_t>(in, data, aligned, v); break;
    case type_i16: load<int16_t>(in, data, aligned, v); break;
    case type_u16: load<uint16_t>(in, data, aligned, v); break;
    case type_i32: load<int32_t>(in, data, aligned, v); break;
    case type_u32: load<uint32_t>(in, data, aligned, v); break;
    case type_i64: load<int64_t>(in, data, aligned, v); break;
    case type_u64: load<uint64_t>(in, data, aligned, v), kind = wide_unsigned; break;
    case type_f16: load<f16>(in, data, aligned, v), kind = wide_real; break;
    case type_bf16: load<bf16>(in, data, aligned, v), kind = wide_real; break;
    case type_f32: load<float>(in, data, aligned, v), kind = wide_real; break;
    case type_f64: load<double>(in, data, aligned, v), kind = wide_real; break;
    case type_c64: load<c64>(in, data, aligned, v), kind = wide_pair; break;
    case type_c128: load<c128>(in, data, aligned, v), kind = wide_pair; break;
    }
    switch (to) {
    case type_bool: store<b8>(w, out, value, aligned, kind, v); break;
    case type_i8:
    case type_u8: store<uint8_t>(w, out, value, aligned, kind, v); break;
    case type_i16:
    case type_u16: store<uint16_t>(w, out, value, aligned, kind, v); break;
    case type_i32: store<int32_t>(w, out, value, aligned, kind, v); break;
    case type_u32: store<uint32_t>(w, out, value, aligned, kind, v); break;
    case type_i64: store<int64_t>(w, out, value, aligned, kind, v); break;
    case type_u64: store<uint64_t>(w, out, value, aligned, kind, v); break;
    case type_f16: store<f16>(w, out, value, aligned, kind, v); break;
    case type_bf16: store<bf16>(w, out, value, aligned, kind, v); break;
    case type_f32: store<float>(w, out, value, aligned, kind, v); break;
    case type_f64: store<double>(w, out, value, aligned, kind, v); break;
    case type_c64: store<c64>(w, out, value, aligned, kind, v); break;
    case type_c128: store<c128>(w, out, value, aligned, kind, v); break;
    }
}
