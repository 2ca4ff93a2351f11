package nvrtc

import (
	"fmt"
	"slices"
)

// Image is what was compiled. It may be shared: nobody may change it.
type Image struct {
	// Bytes are what Device.LoadModule takes: a cubin, or the text of PTX.
	Bytes []byte
	// Log is what the compiler said, such as warnings; often it is empty.
	Log string
	// Names holds for each of Source.Names the name to look it up by in the
	// module.
	Names map[string]string
	// Cached tells that the image comes from a Cache's directory.
	Cached bool
}

// compiler is an open libnvrtc.
type compiler interface {
	version() (major, minor int)
	architectures() ([]int, error)
	// identity tells builds of NVRTC apart that may compile differently.
	identity() (string, error)
	// compile compiles a Source that was checked.
	compile(Source) (*Image, error)
}

// Compile compiles a source. Where the compiler refuses it, the error is an
// *Error with the compiler's log. Without NVRTC it is ErrNotFound.
//
// It may be called from any goroutine; calls run at the same time, as NVRTC
// allows for different programs.
func Compile(s Source) (*Image, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if isPTX(s.Text) {
		return &Image{Bytes: []byte(s.Text)}, nil
	}
	c, err := shared()
	if err != nil {
		return nil, err
	}
	return c.compile(s)
}

// Version is NVRTC's, 12.9 for instance (nvrtcVersion).
func Version() (major, minor int, err error) {
	c, err := shared()
	if err != nil {
		return 0, 0, err
	}
	major, minor = c.version()
	return major, minor, nil
}

// Architectures are those that NVRTC compiles for, ascending: 90 stands for
// compute capability 9.0 (nvrtcGetSupportedArchs).
func Architectures() ([]int, error) {
	c, err := shared()
	if err != nil {
		return nil, err
	}
	return c.architectures()
}

// Arch chooses what to compile for, so that a GPU of a compute capability can
// run it, out of the Architectures that NVRTC supports: the GPU's own machine
// code ("sm_90") where that is one of them, else the PTX of the newest older one
// ("compute_120"), which the driver compiles when it is loaded. A GPU older than
// all of them is an error.
//
// PTX of an NVRTC that is newer than the driver may be refused by that driver
// (CUDA_ERROR_UNSUPPORTED_PTX_VERSION).
func Arch(major, minor int, supported []int) (string, error) {
	gpu, best := major*10+minor, 0
	for _, arch := range supported {
		if arch <= gpu {
			best = max(best, arch)
		}
	}
	switch {
	case best == 0 && len(supported) == 0:
		return "", fmt.Errorf("nvrtc: no architecture to choose from for compute capability %d.%d", major, minor)
	case best == 0:
		return "", fmt.Errorf("nvrtc: compute capability %d.%d is too old for this NVRTC, whose oldest is %d", major, minor, slices.Min(supported))
	case best == gpu:
		return fmt.Sprintf("sm_%d", best), nil
	}
	return fmt.Sprintf("compute_%d", best), nil
}
