package nvrtc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Override is the environment variable with the path of the library. If it is
// set, no other path is tried.
const Override = "QUIVER_LIBNVRTC"

// sonames are the names of the library, newest first, and the name without
// version. Each name serves all releases of its major version. CUDA 11 uses its
// name since 11.2.
var sonames = []string{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"}

// searchPaths are directories that the dynamic loader does not search: those of
// toolkits, of the wheels nvidia-cuda-nvrtc and nvidia-cuda-nvrtc-cu12 in an
// active Python environment, and of conda.
var searchPaths = []string{
	"$CUDA_HOME/lib64",
	"$CUDA_PATH/lib64",
	"$VIRTUAL_ENV/lib/python*/site-packages/nvidia/*/lib",
	"$CONDA_PREFIX/lib",
	"/usr/local/cuda/lib64",
	"/usr/local/cuda-*/lib64",
}

var loaded struct {
	mu   sync.Mutex
	open compiler
}

// sharedCompiler returns the NVRTC of the process, which it opens on the first
// call. It tries again after a failure.
func sharedCompiler() (compiler, error) {
	loaded.mu.Lock()
	defer loaded.mu.Unlock()
	if loaded.open == nil {
		c, err := findLibrary()
		if err != nil {
			return nil, err
		}
		loaded.open = c
	}
	return loaded.open, nil
}

// findLibrary opens the first library that exists.
func findLibrary() (compiler, error) {
	if path := os.Getenv(Override); path != "" {
		c, missing, err := openLibrary(path)
		if missing != nil {
			return nil, fmt.Errorf("%w: %s is %q: %w", ErrNotFound, Override, path, missing)
		}
		return c, err
	}
	return openFirst(candidatePaths())
}

func openFirst(paths []string) (compiler, error) {
	var refused strings.Builder
	for _, path := range paths {
		c, missing, err := openLibrary(path)
		if missing == nil {
			return c, err
		}
		// The loader's message is useful only for an existing file.
		if filepath.IsAbs(path) {
			fmt.Fprintf(&refused, "\n%v", missing)
		}
	}
	return nil, fmt.Errorf("%w: tried %s in the dynamic loader's path (LD_LIBRARY_PATH is %q), %s. "+
		"Install the CUDA toolkit, or the Python package nvidia-cuda-nvrtc, or set %s to the path of a libnvrtc%s",
		ErrNotFound, strings.Join(sonames, ", "), os.Getenv("LD_LIBRARY_PATH"), strings.Join(searchPaths, ", "),
		Override, &refused)
}

// candidatePaths returns the paths to try, in order.
func candidatePaths() []string {
	paths := append([]string{}, sonames...)
	for _, place := range searchPaths {
		set := true
		dir := os.Expand(place, func(name string) string {
			value := os.Getenv(name)
			set = set && value != ""
			return value
		})
		if !set {
			continue
		}
		for _, name := range sonames {
			found, err := filepath.Glob(filepath.Join(dir, name))
			if err == nil { // the environment may contain an invalid pattern
				paths = append(paths, found...)
			}
		}
	}
	return paths
}
