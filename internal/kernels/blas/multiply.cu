// Products of matrices of integers, which wrap around, and of bool, the or of ands. Signed
// integers have the kernels of unsigned ones: their low bits are the same.
//
// A block computes one tile of a result, and then the tile that is a grid further. If the
// results are few, the products of each are split among several blocks, which add to a
// result that quiver_scale has multiplied by beta. Such sums do not depend on the order.

#include "blas/product.cuh"
#include "common/warp.cuh"

constexpr int threads = 256;
constexpr int side = 16;   // threads along the rows and along the columns of a tile
constexpr int depth = 8;   // products of each result that are in shared memory at once

// Arithmetic of a type, in Sum.
template <class T> struct Integer {
    using Element = T;
    using Sum = uint32_t;
    static constexpr int pack = 1;  // values in a word of Sum
    static __device__ __forceinline__ Sum value(T v) { return v; }
    static __device__ __forceinline__ Sum multiply_add(Sum sum, Sum a, Sum b) { return sum + a * b; }
    static __device__ __forceinline__ Sum add(Sum a, Sum b) { return a + b; }
    static __device__ __forceinline__ Sum scaled(uint64_t factor, Sum v) { return (Sum)factor * v; }
    static __device__ __forceinline__ T result(Sum v) { return (T)v; }
};

template <> struct Integer<uint64_t> {
    using Element = uint64_t;
    using Sum = uint64_t;
    static constexpr int pack = 1;
    static __device__ __forceinline__ Sum value(uint64_t v) { return v; }
    static __device__ __forceinline__ Sum multiply_add(Sum sum, Sum a, Sum b) { return sum + a * b; }
    static __device__ __forceinline__ Sum add(Sum a, Sum b) { return a + b; }
    static __device__ __forceinline__ Sum scaled(uint64_t factor, Sum v) { return factor * v; }
    static __device__ __forceinline__ uint64_t result(Sum v) { return v; }
};

template <> struct Integer<uint8_t> {
    using Element = uint8_t;
    using Sum = uint32_t;
    static constexpr int pack = 4;
    static __device__ __forceinline__ Sum value(uint8_t v) { return v; }
    static __device__ __forceinline__ Sum multiply_add(Sum sum, Sum a, Sum b) { return __dp4a(a, b, sum); }
    static __device__ __forceinline__ Sum add(Sum a, Sum b) { return a + b; }
    static __device__ __forceinline__ Sum scaled(uint64_t factor, Sum v) { return (Sum)factor * v; }
    static __device__ __forceinline__ uint8_t result(Sum v) { return v; }
};

struct Truth {
    using Element = uint8_t;
    using Sum = uint32_t;
    static constexpr int pack = 4;
    static __device__ __forceinline__ Sum value(uint8_t v) { return v != 0; }
    static __device__ __forceinline__ Sum multiply_add(Sum sum, Sum a, Sum b) { return sum | (a & b); }
    static __device__ __forceinline__ Sum add(Sum a, Sum b) { return a | b; }
    static __device__ __forceinline__ Sum scaled(uint64_t factor, Sum v) { return ((uint8_t)factor != 0) & (v != 0); }
    static __device__ __forceinline__ uint8_t result(Sum v) { return v != 0; }
};

// Adds v to *p, which other blocks add to as well.
__device__ __forceinline__ void add_to(uint64_t* p, uint64_t v) { atomicAdd((unsigned long long*)p, (unsigned long long)v); }
__device__ __forceinline__ void add_to(uint32_t* p, uint32_t v) { atomicAdd(p, v); }
// The word that contains a smaller integer is exchanged; memory begins and ends at words.
template <class T> __device__ __forceinline__ void add_to_part(T* p, uint32_t v) {
    uint32_t* const word = (uint32_t*)((uintptr_t)p & ~(uintptr_t)3);
    const int shift = 8 * ((uintptr_t)p & 3);
    const uint32_t mask = (uint32_t)(T)~(T)0 << shift;
    uint32_t before = *(volatile uint32_t*)word, assumed;
    do {
        assumed = before;
        const uint32_t sum = (assumed & ~mask) | (((assumed >> shift) + v) << shift & mask);
        before = atomicCAS(word, assumed, sum);
    } while (before != assumed);
}
__device__ __forceinline__ void add_to(uint16_t* p, uint32_t v) { add_to_part(p, v); }
__device__ __forceinline__ void add_to(uint8_t* p, uint32_t v) { add_to_part(p, v); }

// Writes one result, given the sum of its products. It is not inlined, since each thread
// has 16 results.
template <class T, class Sum> __device__ __noinline__ void store(Integer<T>, T* to, Sum sum, const Product& p) {
    sum = Integer<T>::scaled(p.alpha[0], sum);
    if (p.split) add_to(to, sum);
    else *to = Integer<T>::result(p.read_c ? Integer<T>::add(sum, Integer<T>::scaled(p.beta[0], *to)) : sum);
}

template <class T, class Sum> __device__ __noinline__ void store(Truth, T* to, Sum sum, const Product& p) {
    sum = Truth::scaled(p.alpha[0], sum);
    if (p.split) {
        if (sum) *to = 1;  // all blocks write the same
    } else {
        *to = Truth::result(p.read_c ? Truth::add(sum, Truth::scaled(p.beta[0], *to)) : sum);
    }
}

// The range of products that a block adds, of the splits of k.
__device__ __forceinline__ void part_of(int64_t k, int64_t splits, int64_t part, int64_t& low, int64_t& high) {
    const int64_t size = (k + splits - 1) / splits;
    low = min(k, part * size);
    high = min(k, low + size);
}

// Vectors of a matrix: the rows of A or the columns of B that a tile needs. Shared memory
// has A::pack products of a vector in each word.
template <class A, int tile> struct Vectors {
    using Element = typename A::Element;
    using Sum = typename A::Sum;
    static constexpr int each = tile * depth / threads;  // words that a thread copies

    // The first word of this thread, and the steps to the others. Neighbouring threads read
    // neighbouring elements.
    const Element* next;
    int64_t stride, delta;
    int vector, product, vector_step, product_step, vectors;
    Sum held[each];

    // Begins at a vector and a product. step is the distance of vectors, stride that of products.
    __device__ __forceinline__ Vectors(const Element* from, int64_t count, int64_t at, int64_t step, int64_t low, int64_t stride)
        : stride(stride), vectors((int)min(count - at, (int64_t)tile)) {
        if (step == 1) {
            vector = threadIdx.x % tile, product = threadIdx.x / tile, vector_step = 0, product_step = threads / tile;
        } else {
            vector = threadIdx.x / depth, product = threadIdx.x % depth, vector_step = threads / depth, product_step = 0;
        }
        next = from + (at + vector) * step + (low + product * A::pack) * stride;
        delta = vector_step * step + product_step * A::pack * stride;
    }

    // Reads the next products, 0 after the last one.
    __device__ __forceinline__ void read(int64_t left) {
        const int n = (int)max((int64_t)0, min(left, (int64_t)depth * A::pack));
#pragma unroll
        for (int i = 0; i < each; i++) {
            const Element* const p = next + i * delta;
            Sum word = 0;
#pragma unroll
            for (int q = 0; q < A::pack; q++)
                if (vector + i * vector_step < vectors && (product + i * product_step) * A::pack + q < n) word |= A::value(p[q * stride]) << 8 * q;
            held[i] = word;
        }
        next += depth * A::pack * stride;
    }

    __device__ __forceinline__ void write(Sum (&to)[depth][tile + 4]) {
#pragma unroll
        for (int i = 0; i < each; i++) to[product + i * product_step][vector + i * vector_step] = held[i];
    }
};

// Each block computes tiles of 16 per x 16 per results, each thread per x per of them.
template <class A, int per> __device__ __forceinline__ void multiply(const typename A::Element* a, const typename A::Element* b, typename A::Element* c,
                                                                     const Product& p, int64_t splits) {
    using Sum = typename A::Sum;
    constexpr int tile = side * per;
    alignas(16) __shared__ Sum rows[depth][tile + 4];
    alignas(16) __shared__ Sum columns[depth][tile + 4];
    const int64_t tiles_m = (p.m - 1) / tile + 1, tiles_n = (p.n - 1) / tile + 1;
    const int64_t all = tiles_m * tiles_n * p.batch * splits;
    const int x = threadIdx.x % side, y = threadIdx.x / side;
    for (int64_t t = blockIdx.x; t < all; t += gridDim.x) {
        int64_t rest = t;
        const int64_t at_m = rest % tiles_m * tile;
        rest /= tiles_m;
        const int64_t at_n = rest % tiles_n * tile;
        rest /= tiles_n;
        const int64_t matrix = rest % p.batch;
        int64_t low, high;
        part_of(p.k, splits, rest / p.batch, low, high);
        Vectors<A, tile> of_a(a + matrix * p.stride_a, p.m, at_m, p.op_a ? p.lda : 1, low, p.op_a ? 1 : p.lda);
        Vectors<A, tile> of_b(b + matrix * p.stride_b, p.n, at_n, p.op_b ? 1 : p.ldb, low, p.op_b ? p.ldb : 1);
        Sum sums[per][per] = {};
        of_a.read(high - low);
        of_b.read(high - low);
        for (int64_t left = high - low; left > 0; left -= depth * A::pack) {
            of_a.write(rows);
            of_b.write(columns);
            __syncthreads();
            of_a.read(left - depth * A::pack);  // while the block computes
            of_b.read(left - depth * A::pack);
#pragma unroll 2
            for (int d = 0; d < depth; d++) {
                Sum r[per], s[per];
#pragma unroll
                for (int i = 0; i < per; i++) {
                    r[i] = rows[d][x + i * side];
                    s[i] = columns[d][y * per + i];
                }
#pragma unroll
                for (int i = 0; i < per; i++)
#pragma unroll
                    for (int j = 0; j < per; j++) sums[i][j] = A::multiply_add(sums[i][j], r[i], s[j]);
            }
            __syncthreads();
        }
        typename A::Element* const to = c + matrix * p.stride_c;
#pragma unroll
        for (int j = 0; j < per; j++)
#pragma unroll
            for (int i = 0; i < per; i++) {
                const int64_t row = at_m + x + i * side, column = at_n + y * per + j;
                if (row < p.m && column < p.n) store(A{}, to + column * p.ldc + row, sums[i][j], p);
            }
    }
}

// Each block computes one result: its threads share the products.
template <class A> __device__ __forceinline__ void multiply_thin(const typename A::Element* a, const typename A::Element* b, typename A::Element* c,
                                                                 const Product& p, int64_t splits) {
    using Sum = typename A::Sum;
    __shared__ Sum parts[threads];
    const int64_t all = p.m * p.n * p.batch * splits;
    const int64_t step_a = p.op_a ? p.lda : 1, stride_a = p.op_a ? 1 : p.lda;
    const int64_t step_b = p.op_b ? 1 : p.ldb, stride_b = p.op_b ? p.ldb : 1;
    for (int64_t t = blockIdx.x; t < all; t += gridDim.x) {
        int64_t rest = t;
        const int64_t row = rest % p.m;
        rest /= p.m;
        const int64_t column = rest % p.n;
        rest /= p.n;
        const int64_t matrix = rest % p.batch;
        int64_t low, high;
        part_of(p.k, splits, rest / p.batch, low, high);
        const typename A::Element* const from_a = a + matrix * p.stride_a + row * step_a;
        const typename A::Element* const from_b = b + matrix * p.stride_b + column * step_b;
        Sum sum = 0;
#pragma unroll 4
        for (int64_t l = low + threadIdx.x; l < high; l += threads) sum = A::multiply_add(sum, A::value(from_a[l * stride_a]), A::value(from_b[l * stride_b]));
        parts[threadIdx.x] = sum;
        for (int half = threads / 2; half > 0; half /= 2) {
            __syncthreads();
            if (threadIdx.x < half) parts[threadIdx.x] = A::add(parts[threadIdx.x], parts[threadIdx.x + half]);
        }
        if (threadIdx.x == 0) store(A{}, c + matrix * p.stride_c + column * p.ldc + row, parts[0], p);
        __syncthreads();
    }
}

// C = beta C.
template <class A> __device__ __forceinline__ void scale(typename A::Element* c, const Product& p) {
    const int64_t all = p.m * p.n * p.batch;
    for (int64_t i = thread_index(); i < all; i += (int64_t)gridDim.x * threads) {
        int64_t rest = i;
        const int64_t row = rest % p.m;
        rest /= p.m;
        const int64_t column = rest % p.n;
        typename A::Element* const to = c + rest / p.n * p.stride_c + column * p.ldc + row;
        *to = p.read_c ? A::result(A::scaled(p.beta[0], *to)) : typename A::Element{};
    }
}

#define MULTIPLY(name, A)                                                                                                            \
    extern "C" __global__ void __launch_bounds__(threads) quiver_multiply_##name(                                                    \
        const A::Element* a, const A::Element* b, A::Element* c, const __grid_constant__ Product p, int64_t splits) {                \
        multiply<A, 4>(a, b, c, p, splits);                                                                                          \
    }                                                                                                                                \
    extern "C" __global__ void __launch_bounds__(threads) quiver_multiply_thin_##name(                                               \
        const A::Element* a, const A::Element* b, A::Element* c, const __grid_constant__ Product p, int64_t splits) {                \
        multiply_thin<A>(a, b, c, p, splits);                                                                                        \
    }                                                                                                                                \
    extern "C" __global__ void __launch_bounds__(threads) quiver_scale_##name(A::Element* c, const __grid_constant__ Product p) { scale<A>(c, p); }

#define MULTIPLY_WIDE(name, A)                                                                                                       \
    extern "C" __global__ void __launch_bounds__(threads) quiver_multiply_wide_##name(                                               \
        const A::Element* a, const A::Element* b, A::Element* c, const __grid_constant__ Product p, int64_t splits) {                \
        multiply<A, 8>(a, b, c, p, splits);                                                                                          \
    }

MULTIPLY(bool, Truth)
MULTIPLY(u8, Integer<uint8_t>)
MULTIPLY(u16, Integer<uint16_t>)
MULTIPLY(u32, Integer<uint32_t>)
MULTIPLY(u64, Integer<uint64_t>)

// Registers do not suffice for wide tiles of 64-bit integers.
MULTIPLY_WIDE(bool, Truth)
MULTIPLY_WIDE(u8, Integer<uint8_t>)
MULTIPLY_WIDE(u16, Integer<uint16_t>)
MULTIPLY_WIDE(u32, Integer<uint32_t>)
