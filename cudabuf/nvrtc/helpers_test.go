package nvrtc

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// buildFake compiles the fake library.
func buildFake(t testing.TB, flags ...string) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler to build the fake libnvrtc with")
	}
	path := filepath.Join(t.TempDir(), "libnvrtc.so.12")
	out, err := exec.Command(cc, append(flags, "-shared", "-fPIC", "-o", path, "testdata/fake.c")...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// useFake makes the fake library the NVRTC of the process during a test.
func useFake(t testing.TB, flags ...string) string {
	t.Helper()
	path := buildFake(t, flags...)
	useLibrary(t, path)
	return path
}

// useReal makes NVIDIA's library the NVRTC of the process during a test. It is
// the one that the search finds, or the one that `make kernels` installs.
// Without a library, the test is skipped, or fails on a GPU.
func useReal(t testing.TB) {
	t.Helper()
	if _, err := nvrtc.Get(); err == nil {
		useLibrary(t, os.Getenv(Override))
		return
	}
	installed, err := filepath.Glob("../../.tools/cuda/lib/python*/site-packages/nvidia/*/lib/libnvrtc.so.1[0-9]")
	require.NoError(t, err)
	if len(installed) > 0 {
		useLibrary(t, installed[0])
		return
	}
	if os.Getenv("QUIVER_TEST_DEVICE") == "cuda" {
		_, err := nvrtc.Get()
		t.Fatal(err)
	}
	t.Skip("needs NVRTC: `make kernels` installs it")
}

func useLibrary(t testing.TB, path string) {
	t.Setenv(Override, path)
	nvrtc.Forget()
	t.Cleanup(nvrtc.Forget)
}

// forEachLibrary runs a test with the fake library and with NVIDIA's.
func forEachLibrary(t *testing.T, test func(t *testing.T)) {
	t.Run("fake", func(t *testing.T) { useFake(t); test(t) })
	t.Run("real", func(t *testing.T) { useReal(t); test(t) })
}
