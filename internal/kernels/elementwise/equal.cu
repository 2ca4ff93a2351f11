// Compares two arrays: a kernel sets *differ if they are not equal. Blocks read it while
// they wait for elements, and stop if it is set.

#include "common/axes.cuh"
#include "common/element.cuh"

// The axes of both arrays, the innermost first. Dense arrays have one axis without gaps. If
// `constant`, y is the pattern.
struct Equal {
    int64_t elements;
    uint64_t pattern[2];  // repeated values of y's type
    int32_t constant;
    int32_t nan_equal;    // NaNs are equal to each other, and NaTs too
    int32_t axes;
    uint8_t type_x, type_y, unused[2];
    Axis axis[max_axes];  // in: x, out: y
};

// How 16 bytes of elements of type T are compared, element by element.
template <class Op, class T> struct ByElement {
    using In = T;
    using X = Vector<T, 16 / sizeof(T)>;
    static __device__ __forceinline__ bool all_same(const X& x, const X& y, bool nan_equal) {
        bool same = true;
#pragma unroll
        for (int k = 0; k < (int)(16 / sizeof(T)); k++) same &= Op::same(x.v[k], y.v[k], nan_equal);
        return same;
    }
};

struct alignas(16) Words { uint64_t low, high; };
template <class T> struct Bits {
    using In = T;
    using X = Words;
    static __device__ __forceinline__ bool same(T x, T y, bool) { return x == y; }
    static __device__ __forceinline__ bool all_same(Words x, Words y, bool) { return ((x.low ^ y.low) | (x.high ^ y.high)) == 0; }
};
template <> __device__ __forceinline__ bool Bits<Words>::same(Words x, Words y, bool) { return all_same(x, y, false); }

template <class T> struct Float : ByElement<Float<T>, T> {
    static __device__ __forceinline__ bool same(T a, T b, bool nan_equal) {
        const work<T> x = widen(a), y = widen(b);
        return x == y || (nan_equal && x != x && y != y);
    }
};
// 16-bit floats: two per word are compared with masks of their top bits.
template <class T> struct Half : Float<T> {
    using X = Vector<uint32_t, 4>;
    static __device__ __forceinline__ bool all_same(const X& x, const X& y, bool nan_equal) {
        constexpr uint32_t top = 0x80008000u, rest = ~top;
        constexpr uint32_t beyond_infinity = is_same<T, f16> ? 0x03ff03ffu : 0x007f007fu;  // adding it to a NaN carries into the top bit
        const uint32_t strict = nan_equal ? 0 : top;
        uint32_t unlike = 0;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const uint32_t a = x.v[k], b = y.v[k], bits = a ^ b;
            const uint32_t nan_a = (a & rest) + beyond_infinity, nan_b = (b & rest) + beyond_infinity;
            const uint32_t other = ((bits & rest) + rest) | bits, nonzero = ((a | b) & rest) + rest;
            unlike |= (other & nonzero & ~(nan_a & nan_b)) | ((nan_a | nan_b) & strict);
        }
        return (unlike & top) == 0;
    }
};
template <class R> struct Complex : ByElement<Complex<R>, complex<R>> {
    static __device__ __forceinline__ bool same(complex<R> x, complex<R> y, bool nan_equal) {
        return (x.re == y.re && x.im == y.im) || (nan_equal && (x.re != x.re || x.im != x.im) && (y.re != y.re || y.im != y.im));
    }
};
// Times, if NaT is not equal to NaT.
struct Time : ByElement<Time, int64_t> {
    static __device__ __forceinline__ bool same(int64_t x, int64_t y, bool) { return x == y && x != (int64_t)1 << 63; }
};

template <class Op> __device__ __forceinline__ void dense(const char* xs, const char* ys, int* differ, const Equal& p) {
    using T = typename Op::In;
    using X = typename Op::X;
    constexpr int V = 16 / sizeof(T), U = 4;
    const T* x = (const T*)xs;
    const T* y = (const T*)ys;
    const bool nan_equal = p.nan_equal;
    const X pattern = *(const X*)p.pattern;
    const int64_t misfit = (int64_t)(-(uintptr_t)xs & 15) / (int64_t)sizeof(T);
    const int64_t head = misfit < p.elements ? misfit : p.elements, vectors = (p.elements - head) / V;
    const X* vx = (const X*)(x + head);
    const X* vy = (const X*)(y + head);
    const int64_t thread = (int64_t)blockIdx.x * block_threads + threadIdx.x, step = (int64_t)gridDim.x * block_threads;
    bool same = true;
    for (int64_t i = thread; i < p.elements - vectors * V; i += step) {
        const int64_t at = i < head ? i : i + vectors * V;
        same &= Op::same(x[at], p.constant ? *(const T*)p.pattern : y[at], nan_equal);
    }
#pragma unroll 1
    for (int64_t i = (int64_t)blockIdx.x * block_threads * U + threadIdx.x; i < vectors; i += step * U) {
        const int found = *(volatile const int*)differ;
        X a[U], b[U];
#pragma unroll
        for (int u = 0; u < U; u++) {
            a[u] = b[u] = pattern;
            if (i + u * block_threads < vectors) {
                a[u] = vx[i + u * block_threads];
                if (!p.constant) b[u] = vy[i + u * block_threads];
            }
        }
#pragma unroll
        for (int u = 0; u < U; u++)
            if (i + u * block_threads < vectors) same &= Op::all_same(a[u], b[u], nan_equal);
        if (!same || found) break;
    }
    if (!same) *differ = 1;
}

template <class Op, int U> __device__ __forceinline__ void nest(const char* x, const char* y, int* differ, const Equal& p) {
    using T = typename Op::In;
    const T pattern = *(const T*)p.pattern;
    const bool nan_equal = p.nan_equal;
    const int64_t step = (int64_t)gridDim.x * block_threads;
    bool same = true;
#pragma unroll 1
    for (int64_t i = (int64_t)blockIdx.x * block_threads + threadIdx.x; i < p.elements; i += step * U) {
        const int found = *(volatile const int*)differ;
        T a[U], b[U];
#pragma unroll
        for (int u = 0; u < U; u++) {
            a[u] = b[u] = pattern;
            if (i + u * step >= p.elements) continue;
            int64_t at_x = 0, at_y = 0;
            locate(p.axis, p.axes, i + u * step, at_x, at_y);
            a[u] = *(const T*)(x + at_x);
            if (!p.constant) b[u] = *(const T*)(y + at_y);
        }
#pragma unroll
        for (int u = 0; u < U; u++)
            if (i + u * step < p.elements) same &= Op::same(a[u], b[u], nan_equal);
        if (!same || found) break;
    }
    if (!same) *differ = 1;
}

// A number of any type. Integers are exact; others are as NumPy promotes them.
struct Number {
    uint64_t integer;
    bool negative, is_integer;
    double re, im;
};

template <class T> __device__ __forceinline__ Number number(T v) {
    if constexpr (is_complex<T>) return {0, false, false, (double)v.re, (double)v.im};
    else if constexpr (is_float<T>) return {0, false, false, (double)widen(v), 0};
    else return {(uint64_t)(int64_t)v, is_signed<T> && v < 0, true, (double)v, 0};
}

__device__ __forceinline__ Number load_number(const char* at, uint8_t type) {
    switch (type) {
    case type_bool:
    case type_u8: return number(*(const uint8_t*)at);
    case type_i8: return number(*(const int8_t*)at);
    case type_i16: return number(*(const int16_t*)at);
    case type_u16: return number(*(const uint16_t*)at);
    case type_i32: return number(*(const int32_t*)at);
    case type_u32: return number(*(const uint32_t*)at);
    case type_i64: return number(*(const int64_t*)at);
    case type_u64: return number(*(const uint64_t*)at);
    case type_f16: return number(*(const f16*)at);
    case type_bf16: return number(*(const bf16*)at);
    case type_f32: return number(*(const float*)at);
    case type_f64: return number(*(const double*)at);
    case type_c64: return number(*(const c64*)at);
    default: return number(*(const c128*)at);
    }
}

// x and y of different types and any layout.
extern "C" __global__ void __launch_bounds__(block_threads)
    quiver_equal_mixed(const char* x, const char* y, int* differ, const __grid_constant__ Equal p) {
    const int64_t step = (int64_t)gridDim.x * block_threads;
    bool same = true;
#pragma unroll 1
    for (int64_t i = (int64_t)blockIdx.x * block_threads + threadIdx.x; same && i < p.elements; i += step) {
        int64_t at_x = 0, at_y = 0;
        locate(p.axis, p.axes, i, at_x, at_y);
        const Number a = load_number(x + at_x, p.type_x);
        const Number b = load_number(p.constant ? (const char*)p.pattern : y + at_y, p.type_y);
        if (a.is_integer && b.is_integer) same = a.integer == b.integer && a.negative == b.negative;
        else same = Complex<double>::same({a.re, a.im}, {b.re, b.im}, p.nan_equal);
        if (*(volatile const int*)differ) break;
    }
    if (!same) *differ = 1;
}

#define EQUAL(name, ...)                                                                               \
    extern "C" __global__ void __launch_bounds__(block_threads)                                        \
        quiver_equal_dense_##name(const char* x, const char* y, int* differ, const __grid_constant__ Equal p) { \
        dense<__VA_ARGS__>(x, y, differ, p);                                                           \
    }                                                                                                  \
    EQUAL_NEST(name, __VA_ARGS__)
#define EQUAL_NEST(name, ...)                                                                          \
    extern "C" __global__ void __launch_bounds__(block_threads)                                        \
        quiver_equal_nest_##name(const char* x, const char* y, int* differ, const __grid_constant__ Equal p) { \
        nest<__VA_ARGS__, 4>(x, y, differ, p);                                                         \
    }

EQUAL(1, Bits<uint8_t>)
EQUAL(2, Bits<uint16_t>)
EQUAL(4, Bits<uint32_t>)
EQUAL(8, Bits<uint64_t>)
EQUAL(16, Bits<Words>)
EQUAL(f16, Half<f16>)
EQUAL(bf16, Half<bf16>)
EQUAL(f32, Float<float>)
EQUAL(f64, Float<double>)
EQUAL(c64, Complex<float>)
EQUAL(c128, Complex<double>)
EQUAL(time, Time)
