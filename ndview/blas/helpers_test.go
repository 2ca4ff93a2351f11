package blas_test

import (
	"math/cmplx"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
)

// numbersOf returns the elements of an array as complex numbers, in C order.
func numbersOf(t testing.TB, a *ndview.NDBuffer) []complex128 {
	t.Helper()
	onCPU := a
	if a.Device() != arrowbuf.CPU() {
		b, err := a.To(arrowbuf.CPU())
		onCPU = ndtest.Own(t, b, err)
	}
	if a.DType() == ndview.BFloat16 { // ml_dtypes and ndview cast it to floats only
		b, err := onCPU.AsType(ndview.Float64, ndview.OrderC, ndview.CastUnsafe)
		onCPU = ndtest.Own(t, b, err)
	}
	wide, err := onCPU.AsType(ndview.Complex128, ndview.OrderC, ndview.CastUnsafe)
	ndtest.Own(t, wide, err)
	values := make([]complex128, wide.Size())
	require.NoError(t, wide.CopyToHost(ndtest.BytesOf(values)))
	return values
}

// equal reports whether two numbers are equal, or both NaN.
func equal(a, b complex128) bool {
	return a == b || cmplx.IsNaN(a) && cmplx.IsNaN(b)
}
