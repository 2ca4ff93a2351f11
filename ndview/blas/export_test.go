package blas

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview"
)

// UseLibrary makes cuBLAS of a path the one of the process during a test.
func UseLibrary(t testing.TB, path string) {
	forget := func() {
		loaded.mu.Lock()
		defer loaded.mu.Unlock()
		loaded.open = nil
	}
	t.Setenv(Override, path)
	forget()
	t.Cleanup(forget)
}

// ComputeOnHostByCublas lets the CPU device compute by calls of the library in use, which
// must accept memory of the host. calls counts the products.
func ComputeOnHostByCublas(t testing.TB) (calls *int) {
	l, err := sharedLibrary()
	require.NoError(t, err)
	h := &handles{library: l}
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	calls = new(int)
	for dtype, n := range numbers {
		if n.integer {
			continue
		}
		before := n
		t.Cleanup(func() { numbers[dtype] = before })
		n.host = func(x *product, a, b, c unsafe.Pointer) {
			*calls++
			handle, err := h.get()
			require.NoError(t, err)
			caller := cublasCaller{l, &before.cublas, before.cublas.compute}
			if x.k == 0 {
				a, b = c, c
			}
			err = caller.product(handle.id, x, uintptr(a), uintptr(b), uintptr(c))
			require.NoError(t, err, "%s %+v", dtype, *x)
			h.put(handle)
		}
		numbers[dtype] = n
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

// WithoutGemvOfHalves lets cuBLAS multiply halves by its gemm only, until restore is called.
func WithoutGemvOfHalves() (restore func()) {
	var restores []func()
	for _, dtype := range []ndview.DType{ndview.Float16, ndview.BFloat16} {
		before := numbers[dtype]
		changed := before
		changed.cublas.halfGemv = noFunction
		numbers[dtype] = changed
		restores = append(restores, func() { numbers[dtype] = before })
	}
	return func() {
		for _, restore := range restores {
			restore()
		}
	}
}
