package kernel

import (
	"github.com/quiver-gpu/quiver/cudabuf/nvrtc"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// LoopsOf returns the extents of the loops over operands, and each array's strides.
func (e *Elementwise) LoopsOf(operands ...any) (extents []int64, strides [][]int64, err error) {
	o, err := bind(e.dev, e.args, operands)
	if err != nil {
		return nil, nil, err
	}
	defer o.release()
	l, err := e.plan(o)
	return l.nest.Shape, l.nest.Strides, err
}

// ElementwiseOf returns a kernel without a device, for its source.
func ElementwiseOf(source ElementwiseSource, args ...Arg) (*Elementwise, error) {
	e := &Elementwise{args: args, source: source}
	return e, e.validate()
}

// ReductionOf returns a kernel without a device, for its source.
func ReductionOf(source ReductionSource, args ...Arg) (*Reduction, error) {
	k := &Reduction{args: args, source: source}
	return k, k.validate()
}

// SourceOf returns the source for a form of operands: per array, the size of elements
// and the strides of the loops.
func (e *Elementwise) SourceOf(extents []int64, sizes []int64, strides [][]int64, small bool) string {
	return e.text(layout.Nest{Shape: extents, Strides: strides}, sizes, small)
}

// SourceOf returns the source for a form of operands. keptStrides are those of the
// result and then of each array; reducedStrides are those of each array.
func (k *Reduction) SourceOf(kept []int64, keptStrides [][]int64, reduced []int64, reducedStrides [][]int64, sizes []int64, small bool) string {
	return k.text(layout.Nest{Shape: kept, Strides: keptStrides}, layout.Nest{Shape: reduced, Strides: reducedStrides}, sizes, small)
}

// CompileForDevice compiles a source as a launch on a GPU does.
func CompileForDevice(source string, major, minor int) ([]byte, error) {
	return compileSource(source, major, minor)
}

// CompileSource compiles a source for compute capability 9.0.
func CompileSource(source string) error {
	_, err := nvrtc.Compile(nvrtc.Source{Name: "own.cu", Text: source, Arch: "sm_90", Options: []string{"-std=c++17"}})
	return err
}
