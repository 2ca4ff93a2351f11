package kernel

import (
	"testing"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/nvrtc"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// UseHostKernels makes kernels run as host kernels for the duration of a test: the
// simulated device runs no images.
func UseHostKernels(t testing.TB, kernelsOf func(source string) map[string]cudabuf.HostKernel) {
	compileBefore, hostKernelsBefore := compile, hostKernels
	compile = func(string, int, int) ([]byte, error) { return []byte("host kernels"), nil }
	hostKernels = kernelsOf
	programs.Clear()
	t.Cleanup(func() {
		compile, hostKernels = compileBefore, hostKernelsBefore
		programs.Clear()
	})
}

// SourceOf returns the source for a form of operands: per array, the size of elements
// and the strides of the loops.
func (e *Elementwise) SourceOf(extents []int64, sizes []int64, strides [][]int64, small bool) string {
	return e.source(layout.Nest{Shape: extents, Strides: strides}, sizes, small)
}

// SourceOf returns the source for a form of operands. keptStrides are those of the
// result and then of each array; reducedStrides are those of each array.
func (k *Reduction) SourceOf(kept []int64, keptStrides [][]int64, reduced []int64, reducedStrides [][]int64, sizes []int64, small bool) string {
	return k.text(layout.Nest{Shape: kept, Strides: keptStrides}, layout.Nest{Shape: reduced, Strides: reducedStrides}, sizes, small)
}

// CompileSource compiles a source for compute capability 9.0.
func CompileSource(source string) error {
	_, err := nvrtc.Compile(nvrtc.Source{Name: "own.cu", Text: source, Arch: "sm_90", Options: []string{"-std=c++17"}})
	return err
}
