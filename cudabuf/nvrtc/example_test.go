package nvrtc_test

import (
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/nvrtc"
)

// NVRTC compiles to machine code for the architectures that it knows. A newer
// GPU needs PTX, which its driver compiles.
func ExampleArch() {
	supported := []int{75, 80, 86, 89, 90, 100, 120} // nvrtc.Architectures()
	for _, capability := range [][2]int{{9, 0}, {12, 1}, {3, 5}} {
		fmt.Println(nvrtc.Arch(capability[0], capability[1], supported))
	}
	// Output:
	// sm_90 <nil>
	// compute_120 <nil>
	//  nvrtc.Arch: the GPU is too old for this NVRTC: got compute capability 3.5, want at least 75
}

func ExampleCache() {
	var kernels nvrtc.Cache // in the user's cache directory

	load := func(gpu *cudabuf.Device) (*cudabuf.Module, string, error) {
		supported, err := nvrtc.Architectures()
		if err != nil {
			return nil, "", err // wraps nvrtc.ErrNotFound if it is not installed
		}
		major, minor := gpu.ComputeCapability()
		arch, err := nvrtc.Arch(major, minor, supported)
		if err != nil {
			return nil, "", err
		}
		image, err := kernels.Compile(nvrtc.Source{
			Name:  "fill.cu",
			Text:  `template <class T> __global__ void fill(T *x, int n, T value) { for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = value; }`,
			Arch:  arch,
			Names: []string{"fill<float>"},
		})
		var refused *nvrtc.Error
		if errors.As(err, &refused) {
			fmt.Println(refused.Log) // the messages of the compiler
		}
		if err != nil {
			return nil, "", err
		}
		module, err := gpu.LoadModule(image.Bytes, nil)
		return module, image.Names["fill<float>"], err
	}
	_ = load
}
