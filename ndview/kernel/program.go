package kernel

import (
	"fmt"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/nvrtc"
)

// entryPoint is the name of the kernel in each compiled source.
const entryPoint = "quiver_own"

// programs holds one program per source for the process, so that making the same
// kernel again compiles and loads nothing. Keys are strings, values *cudabuf.Program.
var programs sync.Map

var imageCache nvrtc.Cache

// compileSource compiles a source for a GPU's compute capability.
func compileSource(source string, major, minor int) ([]byte, error) {
	supported, err := nvrtc.Architectures()
	if err != nil {
		return nil, err
	}
	arch, err := nvrtc.Arch(major, minor, supported)
	if err != nil {
		return nil, err
	}
	image, err := imageCache.Compile(nvrtc.Source{Name: "own.cu", Text: source, Arch: arch, Options: []string{"-std=c++17"}})
	if err != nil {
		return nil, err
	}
	return image.Bytes, nil
}

// loadProgram returns the process's program of a source.
func loadProgram(source string) *cudabuf.Program {
	p, _ := programs.LoadOrStore(source, &cudabuf.Program{
		ImageFor: func(major, minor int) ([]byte, error) { return compileSource(source, major, minor) },
	})
	return p.(*cudabuf.Program)
}

// formCache holds the programs of one kernel by form, so that a source is written
// once per form.
type formCache struct{ byForm sync.Map }

// program returns the program of a form. A device that runs host kernels gets those of
// this kernel: two kernels of one source may have different host functions.
func (c *formCache) program(dev *cudabuf.Device, form string, source func() string, hosts func() map[string]cudabuf.HostKernel) *cudabuf.Program {
	if p, ok := c.byForm.Load(form); ok {
		return p.(*cudabuf.Program)
	}
	var p *cudabuf.Program
	if dev.RunsHostKernels() {
		p = &cudabuf.Program{Image: []byte("host kernels"), HostKernels: hosts()}
	} else {
		p = loadProgram(source())
	}
	first, _ := c.byForm.LoadOrStore(form, p)
	return first.(*cudabuf.Program)
}

// checkDevice returns an error wrapping arrowbuf.ErrDevice for a device that can run
// neither compiled kernels nor, if there is one, the host function.
func checkDevice(dev arrowbuf.Device, hasHost bool) error {
	if isNilDevice(dev) {
		return fmt.Errorf("got a nil device: %w", arrowbuf.ErrDevice)
	}
	cuda, ok := arrowbuf.As[*cudabuf.Device](dev)
	if hasHost || ok && !cuda.RunsHostKernels() {
		return nil
	}
	return fmt.Errorf("%s runs no compiled kernels, and Host is nil: %w", dev, arrowbuf.ErrDevice)
}

// isNilDevice reports whether dev is nil, or a nil *cudabuf.Device.
func isNilDevice(dev arrowbuf.Device) bool {
	cuda, ok := arrowbuf.As[*cudabuf.Device](dev)
	return dev == nil || ok && cuda == nil
}
