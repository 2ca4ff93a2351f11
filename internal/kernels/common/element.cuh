// The element types of kernels, and the types that they compute in.

#pragma once
#include <stdint.h>

struct f16 { uint16_t bits; };
struct bf16 { uint16_t bits; };
template <class R> struct alignas(2 * sizeof(R)) complex { R re, im; };
using c64 = complex<float>;
using c128 = complex<double>;

// The codes of element types. They must match cpu.Type.
enum Type : uint8_t {
    type_bool, type_i8, type_u8, type_i16, type_u16, type_i32, type_u32, type_i64, type_u64,
    type_f16, type_bf16, type_f32, type_f64, type_c64, type_c128,
};

template <class A, class B> constexpr bool same = false;
template <class A> constexpr bool same<A, A> = true;

template <class T> constexpr bool is_float = false;
template <> constexpr bool is_float<f16> = true;
template <> constexpr bool is_float<bf16> = true;
template <> constexpr bool is_float<float> = true;
template <> constexpr bool is_float<double> = true;
template <class T> constexpr bool is_complex = false;
template <class R> constexpr bool is_complex<complex<R>> = true;
template <class T> constexpr bool is_integer = !is_float<T> && !is_complex<T>;
template <class T> constexpr bool is_signed = is_integer<T> && (T)~0 < (T)1;
template <> constexpr bool is_signed<f16> = true;
template <> constexpr bool is_signed<bf16> = true;
template <> constexpr bool is_signed<float> = true;
template <> constexpr bool is_signed<double> = true;
template <class R> constexpr bool is_signed<complex<R>> = true;

// The type in which T computes: float for the 16-bit floats, T for others.
template <class T> struct work_of { using type = T; };
template <> struct work_of<f16> { using type = float; };
template <> struct work_of<bf16> { using type = float; };
template <class T> using work = typename work_of<T>::type;

__device__ __forceinline__ float widen(f16 v) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v.bits));
    return f;
}
__device__ __forceinline__ float widen(bf16 v) { return __uint_as_float((uint32_t)v.bits << 16); }
template <class T> __device__ __forceinline__ T widen(T v) { return v; }

// Rounds to nearest, ties to even; a NaN stays a NaN.
__device__ __forceinline__ void narrow(float f, f16& v) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(v.bits) : "f"(f)); }
__device__ __forceinline__ void narrow(float f, bf16& v) {
    const uint32_t u = __float_as_uint(f);
    v.bits = f != f ? (uint16_t)(u >> 16 | 0x40) : (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
template <class T> __device__ __forceinline__ void narrow(T f, T& v) { v = f; }

// Converts an element of type S to T, which can represent its value.
template <class T, class S> struct Convert {
    static __device__ __forceinline__ T of(S v) {
        T to;
        narrow((work<T>)widen(v), to);
        return to;
    }
};
template <class R, class S> struct Convert<complex<R>, S> {
    static __device__ __forceinline__ complex<R> of(S v) { return {(R)widen(v), 0}; }
};
template <class R, class S> struct Convert<complex<R>, complex<S>> {
    static __device__ __forceinline__ complex<R> of(complex<S> v) { return {(R)v.re, (R)v.im}; }
};

// Whether NumPy may promote S to T, so that a kernel for T must be able to load S.
template <class S, class T> constexpr bool is_same = false;
template <class T> constexpr bool is_same<T, T> = true;
template <class S, class T> constexpr bool promotes() {
    if (is_same<S, T>) return true;
    if (is_integer<T>) return is_integer<S> && sizeof(S) <= sizeof(T);
    if (is_integer<S>) return is_complex<T> ? sizeof(T) == 16 || sizeof(S) <= 2 : sizeof(T) == 8 || sizeof(S) * 2 <= sizeof(T);
    if (is_float<S>) return is_complex<T> ? sizeof(S) * 2 <= sizeof(T) : sizeof(S) < sizeof(T);
    return is_complex<T> && sizeof(S) <= sizeof(T);
}

// N elements in registers. Those of 1 and 2 bytes stay packed, four or two per register.
template <class T, int N, bool packed = sizeof(T) < 4> struct Elements {
    T v[N];
    __device__ __forceinline__ T operator[](int k) const { return v[k]; }
    __device__ __forceinline__ void set(int k, T to) { v[k] = to; }
    template <int V> __device__ __forceinline__ void fill(int u, T to) {
#pragma unroll
        for (int k = 0; k < V; k++) v[u * V + k] = to;
    }
    template <int V> __device__ __forceinline__ void read(int u, const void* from) {
        struct alignas(V * sizeof(T)) Vector { T v[V]; };
        const Vector vector = *(const Vector*)from;
#pragma unroll
        for (int k = 0; k < V; k++) v[u * V + k] = vector.v[k];
    }
    template <int V> __device__ __forceinline__ void write(int u, void* to) const {
        struct alignas(V * sizeof(T)) Vector { T v[V]; } vector;
#pragma unroll
        for (int k = 0; k < V; k++) vector.v[k] = v[u * V + k];
        *(Vector*)to = vector;
    }
};

template <class T> __device__ __forceinline__ uint32_t bits_of(T v) { return (uint32_t)v & (sizeof(T) == 1 ? 0xffu : 0xffffu); }
__device__ __forceinline__ uint32_t bits_of(f16 v) { return v.bits; }
__device__ __forceinline__ uint32_t bits_of(bf16 v) { return v.bits; }
template <class T> struct FromBits {
    static __device__ __forceinline__ T of(uint32_t b) { return (T)b; }
};
template <> struct FromBits<f16> {
    static __device__ __forceinline__ f16 of(uint32_t b) { return {(uint16_t)b}; }
};
template <> struct FromBits<bf16> {
    static __device__ __forceinline__ bf16 of(uint32_t b) { return {(uint16_t)b}; }
};

template <int n> struct Bytes { using type = uint16_t; };
template <> struct Bytes<1> { using type = uint8_t; };

template <class T, int N> struct Elements<T, N, true> {
    static constexpr int per_word = 4 / sizeof(T), width = 8 * sizeof(T);
    static constexpr uint32_t mask = (1u << width) - 1;
    template <int V> using Part = typename Bytes<V * sizeof(T)>::type;  // V elements, less than a word
    uint32_t w[(N + per_word - 1) / per_word];
    __device__ __forceinline__ T operator[](int k) const { return FromBits<T>::of(w[k / per_word] >> k % per_word * width); }
    __device__ __forceinline__ void set(int k, T to) {
        const int shift = k % per_word * width;
        w[k / per_word] = (w[k / per_word] & ~(mask << shift)) | bits_of(to) << shift;
    }
    template <int V> __device__ __forceinline__ void fill(int u, T to) {
        if constexpr (V < per_word) {
#pragma unroll
            for (int k = 0; k < V; k++) set(u * V + k, to);
        } else {
            const uint32_t word = bits_of(to) * (0xffffffffu / mask);
#pragma unroll
            for (int k = 0; k < V / per_word; k++) w[u * (V / per_word) + k] = word;
        }
    }
    template <int V> __device__ __forceinline__ void read(int u, const void* from) {
        if constexpr (V < per_word) {
            const int shift = u * V % per_word * width;
            constexpr uint32_t part = (1u << V * width) - 1;
            w[u * V / per_word] = (w[u * V / per_word] & ~(part << shift)) | (uint32_t)*(const Part<V>*)from << shift;
        } else {
            constexpr int words = V / per_word;
            struct alignas(words * 4) Vector { uint32_t w[words]; };
            const Vector vector = *(const Vector*)from;
#pragma unroll
            for (int k = 0; k < words; k++) w[u * words + k] = vector.w[k];
        }
    }
    template <int V> __device__ __forceinline__ void write(int u, void* to) const {
        if constexpr (V < per_word) {
            *(Part<V>*)to = (Part<V>)(w[u * V / per_word] >> u * V % per_word * width);
        } else {
            constexpr int words = V / per_word;
            struct alignas(words * 4) Vector { uint32_t w[words]; } vector;
#pragma unroll
            for (int k = 0; k < words; k++) vector.w[k] = w[u * words + k];
            *(Vector*)to = vector;
        }
    }
};
