package nvrtc

import "github.com/quiver-gpu/quiver/internal/cudalib"

// Override is the environment variable with the path of the library. If it is
// set, no other path is tried.
const Override = "QUIVER_LIBNVRTC"

// nvrtc is the library. Each name serves all releases of its major version. CUDA
// 11 uses its name since 11.2.
var nvrtc = cudalib.Loader[compiler]{
	Library: cudalib.Library{
		Sonames:  []string{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"},
		Override: Override,
		Wheel:    "nvidia-cuda-nvrtc",
		NotFound: ErrNotFound,
	},
	Load: openLibrary,
}
