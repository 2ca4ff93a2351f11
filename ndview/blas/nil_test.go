package blas_test

import (
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/internal/apitest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/blas"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
)

func TestNilAndZeroArgumentsNeverPanic(t *testing.T) {
	a, err := ndview.Zeros(arrowbuf.CPU(), ndview.Float32, 2, 2)
	ndtest.Own(t, a, err)
	apitest.Zeros{
		Functions: map[string]any{
			"Dot": blas.Dot, "DotInto": blas.DotInto, "Gemm": blas.Gemm, "GemmInto": blas.GemmInto, "Gemv": blas.Gemv, "GemvInto": blas.GemvInto,
			"Ger": blas.Ger, "GerInto": blas.GerInto, "MatMul": blas.MatMul, "MatMulInto": blas.MatMulInto,
			"MatMulFloat8": blas.MatMulFloat8,
			"Version":      nil, // without arguments
		},
		Values: map[string]any{"Error": &blas.Error{Call: "cublasGemmEx_64", Code: 15}, "Trans": blas.Transpose, "Float8": blas.E4M3},
		Args:   []any{a, blas.Options{}, blas.Float8Options{}},
	}.Run(t, ".")
}
