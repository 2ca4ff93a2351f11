// Package blas multiplies matrices and vectors of package ndview on their device.
//
// [MatMul] has the semantics of NumPy's matmul. [Dot], [Gemv], [Gemm] and [Ger] are the
// operations of BLAS, with alpha, beta and transposes; Gemm also multiplies stacks of
// matrices. Arrays may have any strides.
//
// On a GPU, floating-point and complex numbers are computed by cuBLAS, which is opened
// when it is first needed; integers and bool by kernels of this package. The CPU and
// the simulated device compute the same products in Go.
package blas
