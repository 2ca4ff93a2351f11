// The parameters of a product. The Go type product of package ndview/blas has this layout.

#pragma once
#include <stdint.h>

// C = alpha op(A) op(B) + beta C for each of a batch of column-major matrices. Sizes and
// strides count elements.
struct Product {
    int64_t m, n, k;
    int64_t lda, ldb, ldc;
    int64_t stride_a, stride_b, stride_c;
    int64_t batch;
    uint64_t alpha[2], beta[2];  // the first word has the factor
    int32_t op_a, op_b;          // 0: the matrix, otherwise its transpose
    int32_t read_c;              // beta is not 0
    int32_t split;               // the blocks of a result add to it
};
