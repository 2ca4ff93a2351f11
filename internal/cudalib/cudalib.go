// Package cudalib finds the optional libraries of CUDA, such as NVRTC and cuBLAS, which
// packages open when they first need them.
package cudalib

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Library describes an optional library.
type Library struct {
	// Sonames are the names to try, newest first. The first one without its version
	// names the library in errors.
	Sonames []string
	// Override is the environment variable with the path of the library. If it is set,
	// no other path is tried.
	Override string
	// Wheel is the Python package that installs the library.
	Wheel string
	// NotFound is wrapped by the error of Open if no library exists.
	NotFound error
}

// searchPaths are directories that the dynamic loader does not search: those of
// toolkits, of NVIDIA's wheels in an active Python environment, and of conda.
var searchPaths = []string{
	"$CUDA_HOME/lib64",
	"$CUDA_PATH/lib64",
	"$VIRTUAL_ENV/lib/python*/site-packages/nvidia/*/lib",
	"$CONDA_PREFIX/lib",
	"/usr/local/cuda/lib64",
	"/usr/local/cuda-*/lib64",
}

// Open calls open with each path until one exists, and returns the error of that call.
// open returns missing, the loader's error, for a path that it cannot open.
func (l *Library) Open(open func(path string) (missing, err error)) error {
	if path := os.Getenv(l.Override); path != "" {
		missing, err := open(path)
		if missing != nil {
			return fmt.Errorf("%w: %s is %q: %w", l.NotFound, l.Override, path, missing)
		}
		return err
	}
	return l.openFirst(l.Paths(), open)
}

func (l *Library) openFirst(paths []string, open func(path string) (missing, err error)) error {
	var refused strings.Builder
	for _, path := range paths {
		missing, err := open(path)
		if missing == nil {
			return err
		}
		// The loader's message is useful only for an existing file.
		if filepath.IsAbs(path) {
			fmt.Fprintf(&refused, "\n%v", missing)
		}
	}
	name, _, _ := strings.Cut(l.Sonames[0], ".")
	return fmt.Errorf("%w: tried %s in the dynamic loader's path (LD_LIBRARY_PATH is %q), %s. "+
		"Install the CUDA toolkit, or the Python package %s, or set %s to the path of a %s%s",
		l.NotFound, strings.Join(l.Sonames, ", "), os.Getenv("LD_LIBRARY_PATH"), strings.Join(searchPaths, ", "),
		l.Wheel, l.Override, name, &refused)
}

// Paths returns the paths that Open tries without the override, in order.
func (l *Library) Paths() []string {
	paths := append([]string{}, l.Sonames...)
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
		for _, name := range l.Sonames {
			found, err := filepath.Glob(filepath.Join(dir, name))
			if err == nil { // the environment may contain an invalid pattern
				paths = append(paths, found...)
			}
		}
	}
	return paths
}
