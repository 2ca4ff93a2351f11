package blas

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview"
)

// UseLibrary makes cuBLAS of a path the one of the process during a test.
func UseLibrary(t testing.TB, path string) {
	t.Setenv(Override, path)
	cublas.Forget()
	t.Cleanup(cublas.Forget)
}

// ComputeOnHostByCublas lets the CPU device compute by calls of the library in use, which
// must accept memory of the host. calls counts the products.
func ComputeOnHostByCublas(t testing.TB) (calls *int) {
	l, err := cublas.Get()
	require.NoError(t, err)
	h := &handles{library: l}
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	calls = new(int)
	for dtype, n := range numbers {
		if n.integer {
			continue
		}
		before := n.host
		t.Cleanup(func() { n.host = before })
		n.host = func(x *product, a, b, c unsafe.Pointer) {
			*calls++
			handle, err := h.get()
			require.NoError(t, err)
			caller := cublasCaller{l, n, n.cublas.compute}
			if x.k == 0 {
				a, b = c, c
			}
			err = caller.product(handle.id, x, uintptr(a), uintptr(b), uintptr(c))
			require.NoError(t, err, "%s %+v", dtype, *x)
			h.put(handle)
		}
	}
	return calls
}

// NumbersOf returns the dtypes that have products.
func NumbersOf() (dtypes []ndview.DType) {
	for dtype := range numbers {
		dtypes = append(dtypes, dtype)
	}
	return dtypes
}

// MultiplyFloat8OnHost computes c = alpha a bᵀ by the libcublasLt of a path, which must
// accept memory of the host, for m x k and n x k matrices in C order.
func MultiplyFloat8OnHost(t testing.TB, path string, m, n, k int64, formatA, formatB Float8, alpha float32, a, b []byte) []float32 {
	l, missing, err := openLibrary(path, cublasLtCreate, cublasLtMatmul)
	require.NoError(t, missing)
	require.NoError(t, err)
	h := &ltHandle{library: l}
	require.NoError(t, l.call(cublasLtCreate, uintptr(unsafe.Pointer(&h.id))))
	defer func() { require.NoError(t, h.Close()) }()
	c, workspace := make([]float32, m*n), make([]byte, 16)
	p := ltProduct{ltHandle: h, m: n, n: m, k: k, typeA: formatB.cuda(), typeB: formatA.cuda(), typeC: cudaR32F, alpha: alpha}
	require.NoError(t, runPinned(&p, &b[0], &a[0], &c[0], &workspace[0]))
	return c
}

// runPinned keeps the memory in place during a call.
func runPinned(p *ltProduct, a, b *byte, c *float32, workspace *byte) error {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	for _, x := range []any{a, b, c, workspace} {
		pinner.Pin(x)
	}
	return p.run(uintptr(unsafe.Pointer(a)), uintptr(unsafe.Pointer(b)), uintptr(unsafe.Pointer(c)), uintptr(unsafe.Pointer(workspace)), 77)
}
