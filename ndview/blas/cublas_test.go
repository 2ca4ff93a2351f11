package blas_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview/blas"
)

// buildFake builds the library of testdata/fake, which computes on the host.
func buildFake(t testing.TB, flags ...string) string {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no C compiler to build the fake libcublas with")
	}
	path := filepath.Join(t.TempDir(), "libcublas.so.13")
	args := append([]string{"-shared", "-fPIC", "-O1", "-o", path, "testdata/fake/cublas.c"}, flags...)
	out, err := exec.Command(gcc, args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// The calls of cuBLAS have the arguments that its header declares, and compute the same.
func TestCallsOfCublasMatchNumPy(t *testing.T) {
	blas.UseLibrary(t, buildFake(t))
	calls := blas.ComputeOnHostByCublas(t)
	g := readGolden(t)
	for i := range g.Cases {
		g.check(t, arrowbuf.CPU(), &g.Cases[i])
	}
	assert.Greater(t, *calls, 200)
}

func TestVersionIsThatOfTheLibrary(t *testing.T) {
	blas.UseLibrary(t, buildFake(t))
	major, minor, patch, err := blas.Version()
	require.NoError(t, err)
	assert.Equal(t, []int{13, 2, 1}, []int{major, minor, patch})
}

func TestUnusableLibrariesAreNamed(t *testing.T) {
	path := buildFake(t, "-DBROKEN")
	blas.UseLibrary(t, path)
	_, _, _, err := blas.Version()
	assert.EqualError(t, err, "blas.Version: "+path+" lacks cublasDotEx_64: not cuBLAS, or older than version 12")
	blas.UseLibrary(t, "/nowhere/libcublas.so.13")
	_, _, _, err = blas.Version()
	assert.ErrorIs(t, err, blas.ErrNotFound)
	assert.ErrorContains(t, err, `blas.Version: cuBLAS not found: QUIVER_LIBCUBLAS is "/nowhere/libcublas.so.13": `)
}

func TestFailedCallsAreNamed(t *testing.T) {
	assert.EqualError(t, &blas.Error{Call: "cublasGemmEx_64", Code: 15}, "cublasGemmEx_64: CUBLAS_STATUS_NOT_SUPPORTED (15)")
	assert.EqualError(t, &blas.Error{Call: "cublasCreate_v2", Code: 99}, "cublasCreate_v2: unknown status (99)")
}
