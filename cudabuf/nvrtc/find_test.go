package nvrtc

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMissingLibraryError(t *testing.T) {
	useLibrary(t, "/nowhere/libnvrtc.so.12")
	_, err := Compile(Source{Arch: "sm_90"})
	assert.ErrorIs(t, err, ErrNotFound)
	assert.ErrorContains(t, err, Override+` is "/nowhere/libnvrtc.so.12": `)
	_, _, err = Version()
	assert.ErrorIs(t, err, ErrNotFound)
	_, err = Architectures()
	assert.ErrorIs(t, err, ErrNotFound)
	_, err = new(Cache).Compile(Source{Arch: "sm_90"})
	assert.ErrorIs(t, err, ErrNotFound)
}

func TestLibraryFoundLaterIsUsed(t *testing.T) {
	useLibrary(t, "/nowhere/libnvrtc.so.12")
	_, _, err := Version()
	require.ErrorIs(t, err, ErrNotFound)
	t.Setenv(Override, buildFake(t))
	_, _, err = Version()
	assert.NoError(t, err)
}

func TestUnusableLibrariesAreNamed(t *testing.T) {
	path := useFake(t, "-DBROKEN")
	_, _, err := Version()
	assert.EqualError(t, err, "nvrtc: "+path+" lacks nvrtcGetCUBIN: not NVRTC, or older than 11.4")
	path = useFake(t, "-DOLD")
	_, _, err = Version()
	assert.EqualError(t, err, "nvrtc: "+path+": got version 11.3, want at least 11.4")
}

func TestSearchFindsToolkitsAndEnvironments(t *testing.T) {
	root := t.TempDir()
	place := func(path string) string {
		path = filepath.Join(root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte("no library"), 0o600))
		return path
	}
	want := []string{
		place("toolkit/lib64/libnvrtc.so.13"),
		place("venv/lib/python3.14/site-packages/nvidia/cu13/lib/libnvrtc.so.13"),
		place("venv/lib/python3.14/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12"),
		place("conda/lib/libnvrtc.so"),
	}
	place("toolkit/lib64/libnvrtc.so.13.0.88")
	t.Setenv("CUDA_HOME", filepath.Join(root, "toolkit"))
	t.Setenv("CUDA_PATH", "")
	t.Setenv("VIRTUAL_ENV", filepath.Join(root, "venv"))
	t.Setenv("CONDA_PREFIX", filepath.Join(root, "conda"))
	got := candidatePaths()
	require.GreaterOrEqual(t, len(got), len(sonames)+len(want))
	assert.Equal(t, sonames, got[:len(sonames)], "the dynamic loader's path comes first")
	assert.Equal(t, want, got[len(sonames):len(sonames)+len(want)])

	_, err := openFirst(want)
	assert.ErrorIs(t, err, ErrNotFound)
	for _, hint := range []string{"libnvrtc.so.12", "LD_LIBRARY_PATH", "/usr/local/cuda/lib64", "Install", Override, want[0] + ": "} {
		assert.ErrorContains(t, err, hint)
	}
	fake := buildFake(t)
	c, err := openFirst(append(want, fake))
	require.NoError(t, err, "files that cannot be opened are skipped")
	assert.NotNil(t, c)
}
