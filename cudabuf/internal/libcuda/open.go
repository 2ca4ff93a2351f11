//go:build linux

package libcuda

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// Override is the environment variable that names the library to open in place
// of the search.
const Override = "QUIVER_LIBCUDA"

// places are where the driver lies that the dynamic loader does not search by
// itself: WSL, NixOS, and the mounts of container platforms.
var places = []string{
	"/usr/lib/wsl/lib/libcuda.so.1",
	"/run/opengl-driver/lib/libcuda.so.1",
	"/usr/local/nvidia/lib64/libcuda.so.1",
}

// Open opens the driver's library and finds its functions. Without a library
// the error is driver.ErrNoDriver and tells what was looked for and where; a
// library that lacks a function that is needed is an error that names it.
func Open() (driver.API, error) {
	candidates := append([]string{"libcuda.so.1"}, places...)
	if path := os.Getenv(Override); path != "" {
		candidates = []string{path}
	}
	var tried []string
	for _, path := range candidates {
		library, err := load(path)
		if err == nil {
			return find(path, library)
		}
		tried = append(tried, because(path, err))
	}
	return nil, fmt.Errorf("%w: looked for %s; LD_LIBRARY_PATH is %q. Install the NVIDIA driver, or set %s to its libcuda.so.1",
		driver.ErrNoDriver, strings.Join(tried, ", "), os.Getenv("LD_LIBRARY_PATH"), Override)
}

// because says why a library was not opened: the loader's words where there is
// a file (a wrong architecture, a missing dependency), less where there is none.
func because(path string, err error) string {
	if !strings.Contains(path, "/") {
		return fmt.Sprintf("%s in the dynamic loader's path (%v)", path, err)
	}
	if _, missing := os.Stat(path); errors.Is(missing, fs.ErrNotExist) {
		return path + " (no such file)"
	}
	return fmt.Sprintf("%s (%v)", path, err)
}
