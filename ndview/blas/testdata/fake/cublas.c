// A libcublas that computes in memory of the host, with the prototypes of cublas_v2.h. It
// checks what cuBLAS documents about its arguments.

#include <complex.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef int64_t i64;
enum { R_16F = 2, R_16BF = 14, R_32F = 0, R_64F = 1, C_32F = 4, C_64F = 5 };
enum { INVALID_VALUE = 7, NOT_SUPPORTED = 15 };

typedef struct { int pointer_mode, math_mode; void* stream; } context;

int cublasCreate_v2(context** h) { return *h = calloc(1, sizeof **h), 0; }
int cublasDestroy_v2(context* h) { return free(h), 0; }
int cublasSetStream_v2(context* h, void* stream) { return h->stream = stream, 0; }
int cublasSetWorkspace_v2(context* h, void* workspace, size_t bytes) { return workspace && bytes ? 0 : INVALID_VALUE; }
int cublasSetPointerMode_v2(context* h, int mode) { return h->pointer_mode = mode, 0; }
int cublasSetMathMode(context* h, int mode) { return h->math_mode = mode, mode == 16 ? 0 : INVALID_VALUE; }
int cublasGetProperty(int which, int* value) { return *value = (int[]){13, 2, 1}[which], 0; }

static float half_to_float(uint16_t h, int type) {
    union { uint32_t u; float f; } v;
    if (type == R_16BF) return v.u = (uint32_t)h << 16, v.f;
    _Float16 f;
    __builtin_memcpy(&f, &h, 2);
    return f;
}

static uint16_t float_to_half(float f, int type) {
    union { uint32_t u; float f; } v = {.f = f};
    if (type == R_16BF) return v.u != v.u || f != f ? 0x7fc0 : (v.u + 0x7fff + (v.u >> 16 & 1)) >> 16;
    _Float16 h = f;
    uint16_t bits;
    __builtin_memcpy(&bits, &h, 2);
    return bits;
}

static double complex get(const void* p, i64 i, int type) {
    switch (type) {
    case R_16F: case R_16BF: return half_to_float(((uint16_t*)p)[i], type);
    case R_32F: return ((float*)p)[i];
    case R_64F: return ((double*)p)[i];
    case C_32F: return ((float complex*)p)[i];
    default: return ((double complex*)p)[i];
    }
}

static void set(void* p, i64 i, int type, double complex v) {
    switch (type) {
    case R_16F: case R_16BF: ((uint16_t*)p)[i] = float_to_half(creal(v), type); break;
    case R_32F: ((float*)p)[i] = creal(v); break;
    case R_64F: ((double*)p)[i] = creal(v); break;
    case C_32F: ((float complex*)p)[i] = v; break;
    default: ((double complex*)p)[i] = v;
    }
}

static int size_of(int type) { return type == R_16F || type == R_16BF ? 2 : type == R_32F ? 4 : type == C_64F ? 16 : 8; }
static int scalar_of(int type) { return type == R_16F || type == R_16BF ? R_32F : type; }
static int compute_of(int type) { return type == R_64F || type == C_64F ? 70 : 68; }
// Products of real numbers stay real, so that NaNs do not spread to an imaginary part.
static double complex times(double complex a, double complex b, int type) {
    return type == C_32F || type == C_64F ? a * b : creal(a) * creal(b);
}
static double complex op(const void* p, i64 ld, int o, i64 row, i64 column, int type) {
    double complex v = o ? get(p, column + row * ld, type) : get(p, row + column * ld, type);
    return o == 2 ? conj(v) : v;
}

static int gemm(context* h, int oa, int ob, i64 m, i64 n, i64 k, const void* alpha, const void* a, int ta, i64 lda, const void* b, int tb, i64 ldb,
                const void* beta, void* c, int tc, i64 ldc, int compute, int algo) {
    if (!h || h->pointer_mode || m < 0 || n < 0 || k < 0 || algo != -1 || ta != tb || ta != tc || oa < 0 || oa > 2 || ob < 0 || ob > 2) return INVALID_VALUE;
    if (lda < (oa ? k : m) || ldb < (ob ? n : k) || ldc < m || lda < 1 || ldb < 1 || ldc < 1) return INVALID_VALUE;
    if ((uintptr_t)a % size_of(ta) || (uintptr_t)b % size_of(tb) || (uintptr_t)c % size_of(tc)) return INVALID_VALUE;
    if (compute != compute_of(ta)) return NOT_SUPPORTED;
    double complex x = get(alpha, 0, scalar_of(ta)), y = get(beta, 0, scalar_of(ta));
    for (i64 j = 0; j < n; j++)
        for (i64 i = 0; i < m; i++) {
            double complex sum = 0;
            for (i64 l = 0; l < k; l++) sum += times(op(a, lda, oa, i, l, ta), op(b, ldb, ob, l, j, ta), ta);
            sum = times(x, sum, ta);
            set(c, i + j * ldc, tc, y == 0 ? sum : sum + times(y, get(c, i + j * ldc, tc), tc));
        }
    return 0;
}

int cublasGemmEx_64(context* h, int oa, int ob, i64 m, i64 n, i64 k, const void* alpha, const void* a, int ta, i64 lda, const void* b, int tb, i64 ldb,
                    const void* beta, void* c, int tc, i64 ldc, int compute, int algo) {
    return gemm(h, oa, ob, m, n, k, alpha, a, ta, lda, b, tb, ldb, beta, c, tc, ldc, compute, algo);
}

int cublasGemmStridedBatchedEx_64(context* h, int oa, int ob, i64 m, i64 n, i64 k, const void* alpha, const void* a, int ta, i64 lda, i64 sa, const void* b,
                                  int tb, i64 ldb, i64 sb, const void* beta, void* c, int tc, i64 ldc, i64 sc, i64 batch, int compute, int algo) {
    if (batch < 1 || sa < 0 || sb < 0 || sc <= 0) return INVALID_VALUE;
    for (i64 i = 0; i < batch; i++) {
        int status = gemm(h, oa, ob, m, n, k, alpha, (char*)a + i * sa * size_of(ta), ta, lda, (char*)b + i * sb * size_of(tb), tb, ldb, beta,
                          (char*)c + i * sc * size_of(tc), tc, ldc, compute, algo);
        if (status) return status;
    }
    return 0;
}

static int gemv(context* h, int o, i64 m, i64 n, const void* alpha, const void* a, i64 lda, const void* x, i64 incx, const void* beta, void* y, i64 incy, int type) {
    if (!h || h->pointer_mode || m < 1 || n < 1 || lda < m || !incx || !incy || o < 0 || o > 2) return INVALID_VALUE;
    double complex f = get(alpha, 0, scalar_of(type)), g = get(beta, 0, scalar_of(type));
    for (i64 i = 0; i < (o ? n : m); i++) {
        double complex sum = 0;
        for (i64 l = 0; l < (o ? m : n); l++) sum += times(op(a, lda, o, i, l, type), get(x, l * incx, type), type);
        sum = times(f, sum, type);
        set(y, i * incy, type, g == 0 ? sum : sum + times(g, get(y, i * incy, type), type));
    }
    return 0;
}

#define GEMV(name, type)                                                                                                                                  \
    int cublas##name##gemv_v2_64(context* h, int o, i64 m, i64 n, const void* alpha, const void* a, i64 lda, const void* x, i64 incx, const void* beta, \
                                 void* y, i64 incy) {                                                                                                   \
        return gemv(h, o, m, n, alpha, a, lda, x, incx, beta, y, incy, type);                                                                            \
    }
GEMV(S, R_32F)
GEMV(D, R_64F)
GEMV(C, C_32F)
GEMV(Z, C_64F)

static int ger(context* h, i64 m, i64 n, const void* alpha, const void* x, i64 incx, const void* y, i64 incy, void* a, i64 lda, int type, int conjugate) {
    if (!h || h->pointer_mode || m < 1 || n < 1 || lda < m || !incx || !incy) return INVALID_VALUE;
    for (i64 j = 0; j < n; j++)
        for (i64 i = 0; i < m; i++) {
            double complex v = get(y, j * incy, type);
            v = times(get(alpha, 0, type), times(get(x, i * incx, type), conjugate ? conj(v) : v, type), type);
            set(a, i + j * lda, type, get(a, i + j * lda, type) + v);
        }
    return 0;
}

#define GER(name, type, conjugate)                                                                                                                       \
    int cublas##name##_v2_64(context* h, i64 m, i64 n, const void* alpha, const void* x, i64 incx, const void* y, i64 incy, void* a, i64 lda) {          \
        return ger(h, m, n, alpha, x, incx, y, incy, a, lda, type, conjugate);                                                                           \
    }
GER(Sger, R_32F, 0)
GER(Dger, R_64F, 0)
GER(Cgeru, C_32F, 0)
GER(Zgeru, C_64F, 0)
GER(Cgerc, C_32F, 1)
GER(Zgerc, C_64F, 1)

static int dot(context* h, i64 n, const void* x, int tx, i64 incx, const void* y, int ty, i64 incy, void* result, int tr, int exec, int conjugate) {
    if (!h || !h->pointer_mode || n < 1 || tx != ty || tx != tr || exec != scalar_of(tx)) return INVALID_VALUE;
    double complex sum = 0;
    for (i64 i = 0; i < n; i++) sum += times(conjugate ? conj(get(x, i * incx, tx)) : get(x, i * incx, tx), get(y, i * incy, ty), tx);
    set(result, 0, tr, sum);
    return 0;
}

#ifndef BROKEN
int cublasDotEx_64(context* h, i64 n, const void* x, int tx, i64 incx, const void* y, int ty, i64 incy, void* result, int tr, int exec) {
    return dot(h, n, x, tx, incx, y, ty, incy, result, tr, exec, 0);
}
#endif
int cublasDotcEx_64(context* h, i64 n, const void* x, int tx, i64 incx, const void* y, int ty, i64 incy, void* result, int tr, int exec) {
    return dot(h, n, x, tx, incx, y, ty, incy, result, tr, exec, 1);
}

// cublasLt, for 8-bit floats only.

enum { E4M3 = 28, E5M2 = 29 };
typedef struct { int compute, scale, trans[2]; } lt_desc;
typedef struct { int type; uint64_t rows, cols; i64 ld; } lt_layout;
typedef struct { uint64_t algo[8]; size_t workspace; int state; float waves; int reserved[4]; } lt_heuristic;

int cublasLtCreate(void** h) { return *h = calloc(1, 1), 0; }
int cublasLtDestroy(void* h) { return free(h), 0; }
int cublasLtMatmulDescCreate(lt_desc** d, int compute, int scale) { return *d = calloc(1, sizeof **d), (*d)->compute = compute, (*d)->scale = scale, 0; }
int cublasLtMatmulDescDestroy(lt_desc* d) { return free(d), 0; }
int cublasLtMatmulDescSetAttribute(lt_desc* d, int attribute, const void* value, size_t size) {
    return size == 4 && (attribute == 3 || attribute == 4) ? d->trans[attribute - 3] = *(int*)value, 0 : INVALID_VALUE;
}
int cublasLtMatrixLayoutCreate(lt_layout** l, int type, uint64_t rows, uint64_t cols, i64 ld) {
    return *l = calloc(1, sizeof **l), **l = (lt_layout){type, rows, cols, ld}, ld >= (i64)rows ? 0 : INVALID_VALUE;
}
int cublasLtMatrixLayoutDestroy(lt_layout* l) { return free(l), 0; }
int cublasLtMatmulPreferenceCreate(size_t** p) { return *p = calloc(1, sizeof **p), 0; }
int cublasLtMatmulPreferenceDestroy(size_t* p) { return free(p), 0; }
int cublasLtMatmulPreferenceSetAttribute(size_t* p, int attribute, const void* value, size_t size) {
    return attribute == 1 && size == 8 ? *p = *(size_t*)value, 0 : INVALID_VALUE;
}

int cublasLtMatmulAlgoGetHeuristic(void* h, lt_desc* d, lt_layout* a, lt_layout* b, lt_layout* c, lt_layout* result, size_t* preference, int requested,
                                   lt_heuristic* found, int* n) {
    if (!h || requested < 1 || sizeof *found != 112 - 16) return INVALID_VALUE;
    *n = 0;
    int eights = (a->type == E4M3 || a->type == E5M2) && (b->type == E4M3 || b->type == E5M2) && !(a->type == E5M2 && b->type == E5M2);
    if (!eights || d->compute != 68 || d->scale != R_32F || d->trans[0] != 1 || d->trans[1] != 0) return NOT_SUPPORTED;
    if (a->rows != b->rows || a->cols != c->rows || b->cols != c->cols || (a->rows | a->cols | b->cols) % 16 || c->type == R_64F) return NOT_SUPPORTED;
    found->algo[7] = 0x5eed, found->workspace = *preference, *n = 1;
    return 0;
}

static float eight(uint8_t bits, int type) {
    int mantissa_bits = type == E4M3 ? 3 : 2, bias = type == E4M3 ? 7 : 15;
    int exponent = (bits & 127) >> mantissa_bits, mantissa = bits & ((1 << mantissa_bits) - 1);
    float v = exponent ? mantissa + (1 << mantissa_bits) : mantissa;
    for (int i = (exponent ? exponent : 1) - bias - mantissa_bits; i; i += i < 0 ? 1 : -1) v *= i < 0 ? 0.5f : 2;
    return bits & 128 ? -v : v;
}

int cublasLtMatmul(void* h, lt_desc* d, const float* alpha, const uint8_t* a, lt_layout* la, const uint8_t* b, lt_layout* lb, const float* beta, const void* c,
                   lt_layout* lc, void* result, lt_layout* lr, const uint64_t* algo, void* workspace, size_t bytes, void* stream) {
    if (!h || algo[7] != 0x5eed || !workspace || !bytes || lc != lr || c != result || *beta != 0 || stream != (void*)77) return INVALID_VALUE;
    for (uint64_t j = 0; j < lr->cols; j++)
        for (uint64_t i = 0; i < lr->rows; i++) {
            float sum = 0;
            for (uint64_t l = 0; l < la->rows; l++) sum += eight(a[l + i * la->ld], la->type) * eight(b[l + j * lb->ld], lb->type);
            set(result, i + j * lr->ld, lr->type, *alpha * sum);
        }
    return 0;
}
