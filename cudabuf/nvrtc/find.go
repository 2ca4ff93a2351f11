package nvrtc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Override is the environment variable that names the library to open in place
// of the search.
const Override = "QUIVER_LIBNVRTC"

// sonames are the library's, newest first, and the one that a toolkit newer
// than this list has too. Each serves all releases of its major version; the
// one of CUDA 11 has been called so since 11.2.
var sonames = []string{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"}

// searchPaths are where libraries lie that the dynamic loader does not search by
// itself: toolkits, the wheels nvidia-cuda-nvrtc and nvidia-cuda-nvrtc-cu12 in
// an active Python environment, and conda's.
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

// sharedCompiler opens the process's NVRTC when it is first needed. That it is absent
// is not remembered.
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

// findLibrary opens the first library that there is.
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
		// The loader has words only for a file that is there.
		if filepath.IsAbs(path) {
			fmt.Fprintf(&refused, "\n%v", missing)
		}
	}
	return nil, fmt.Errorf("%w: looked for %s in the dynamic loader's path (LD_LIBRARY_PATH is %q), %s. "+
		"Install the CUDA toolkit, or the Python package nvidia-cuda-nvrtc, or set %s to the path of a libnvrtc%s",
		ErrNotFound, strings.Join(sonames, ", "), os.Getenv("LD_LIBRARY_PATH"), strings.Join(searchPaths, ", "),
		Override, &refused)
}

// candidatePaths are what to try to open, in order.
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
			if err == nil { // a pattern out of the environment may be no pattern
				paths = append(paths, found...)
			}
		}
	}
	return paths
}
