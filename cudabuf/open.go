//go:build !gorgonia

package cudabuf

import "github.com/quiver-gpu/quiver/cudabuf/internal/libcuda"

// openDriver opens the driver that this build calls.
var openDriver = libcuda.Open
