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

func TestSearchOpensTheFirstLibraryThatLoads(t *testing.T) {
	t.Setenv(Override, "")
	lib64 := filepath.Join(t.TempDir(), "lib64")
	require.NoError(t, os.MkdirAll(lib64, 0o700))
	fake := buildFake(t)
	for _, name := range []string{"libnvrtc.so.12", "libnvrtc.so.11.2"} {
		require.NoError(t, os.WriteFile(filepath.Join(lib64, name), []byte("no library"), 0o600))
	}
	require.NoError(t, os.Rename(fake, filepath.Join(lib64, "libnvrtc.so")))
	t.Setenv("CUDA_HOME", filepath.Dir(lib64))
	nvrtc.Forget()
	t.Cleanup(nvrtc.Forget)
	c, err := nvrtc.Get()
	require.NoError(t, err, "files that cannot be opened are skipped")
	assert.NotNil(t, c)
}
