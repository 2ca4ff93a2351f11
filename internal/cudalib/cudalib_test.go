package cudalib

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	errNotFound = errors.New("libexample not found")
	errFile     = errors.New("not a library")
)

func example() *Library {
	return &Library{Sonames: []string{"libexample.so.2", "libexample.so"}, Override: "QUIVER_LIBEXAMPLE", Wheel: "nvidia-example", NotFound: errNotFound}
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
		place("toolkit/lib64/libexample.so.2"),
		place("venv/lib/python3.14/site-packages/nvidia/cu13/lib/libexample.so.2"),
		place("venv/lib/python3.14/site-packages/nvidia/example/lib/libexample.so"),
		place("conda/lib/libexample.so"),
	}
	place("toolkit/lib64/libexample.so.2.0.88")
	t.Setenv("CUDA_HOME", filepath.Join(root, "toolkit"))
	t.Setenv("CUDA_PATH", "")
	t.Setenv("VIRTUAL_ENV", filepath.Join(root, "venv"))
	t.Setenv("CONDA_PREFIX", filepath.Join(root, "conda"))
	l := example()
	got := l.Paths()
	require.GreaterOrEqual(t, len(got), len(l.Sonames)+len(want))
	assert.Equal(t, l.Sonames, got[:len(l.Sonames)], "the dynamic loader's path comes first")
	assert.Equal(t, want, got[len(l.Sonames):len(l.Sonames)+len(want)])

	err := l.Open(func(string) (missing, err error) { return errFile, nil })
	assert.ErrorIs(t, err, errNotFound)
	for _, hint := range []string{
		"libexample.so.2, libexample.so in the dynamic loader's path", "LD_LIBRARY_PATH", "/usr/local/cuda/lib64",
		"Install the CUDA toolkit, or the Python package nvidia-example, or set QUIVER_LIBEXAMPLE to the path of a libexample", errFile.Error(),
	} {
		assert.ErrorContains(t, err, hint)
	}
	var tried []string
	unusable := errors.New("too old")
	err = l.Open(func(path string) (missing, err error) {
		if tried = append(tried, path); path == want[1] {
			return nil, unusable
		}
		return errFile, nil
	})
	assert.Equal(t, unusable, err, "the first library that opens is the one")
	assert.Equal(t, want[1], tried[len(tried)-1])
}

func TestOverrideIsTheOnlyPath(t *testing.T) {
	t.Setenv("QUIVER_LIBEXAMPLE", "/nowhere/libexample.so")
	err := example().Open(func(path string) (missing, err error) {
		assert.Equal(t, "/nowhere/libexample.so", path)
		return errFile, nil
	})
	assert.ErrorIs(t, err, errNotFound)
	assert.ErrorIs(t, err, errFile)
	assert.ErrorContains(t, err, `QUIVER_LIBEXAMPLE is "/nowhere/libexample.so"`)
}

// A library that did not load is looked for again, one that did is kept.
func TestLoaderTriesAgainAfterAFailure(t *testing.T) {
	t.Setenv("QUIVER_LIBEXAMPLE", "/some/libexample.so")
	calls := 0
	fail := errFile
	l := Loader[string]{Library: *example(), Load: func(path string) (string, error, error) {
		calls++
		return path, nil, fail
	}}
	_, err := l.Get()
	require.ErrorIs(t, err, errFile)
	fail = nil
	for range 2 {
		got, err := l.Get()
		require.NoError(t, err)
		assert.Equal(t, "/some/libexample.so", got)
	}
	assert.Equal(t, 2, calls)
	l.Forget()
	_, err = l.Get()
	require.NoError(t, err)
	assert.Equal(t, 3, calls)
}
