package nvrtc

import (
	"sync"

	"github.com/quiver-gpu/quiver/internal/cudalib"
)

// Override is the environment variable with the path of the library. If it is
// set, no other path is tried.
const Override = "QUIVER_LIBNVRTC"

// nvrtc is the library. Each name serves all releases of its major version. CUDA
// 11 uses its name since 11.2.
var nvrtc = cudalib.Library{
	Sonames:  []string{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"},
	Override: Override,
	Wheel:    "nvidia-cuda-nvrtc",
	NotFound: ErrNotFound,
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
func findLibrary() (c compiler, err error) {
	err = nvrtc.Open(func(path string) (missing, err error) {
		c, missing, err = openLibrary(path)
		return missing, err
	})
	return c, err
}
