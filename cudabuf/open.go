//go:build !gorgonia

package cudabuf

import "github.com/quiver-gpu/quiver/cudabuf/internal/libcuda"

// Gorgonia tells whether this is a build with the tag gorgonia, which calls the
// driver by way of gorgonia.org/cu.
const Gorgonia = false

// openDriver opens the driver that this build calls.
var openDriver = libcuda.Open
