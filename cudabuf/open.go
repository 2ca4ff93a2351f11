//go:build !gorgonia

package cudabuf

import "github.com/quiver-gpu/quiver/cudabuf/internal/libcuda"

// Gorgonia reports whether this build has the tag gorgonia and calls the driver
// through gorgonia.org/cu.
const Gorgonia = false

// openDriver opens the driver implementation of this build.
var openDriver = libcuda.Open
