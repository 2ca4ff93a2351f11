package ndview

import (
	"slices"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
	"github.com/quiver-gpu/quiver/ndview/internal/stridedcopy"
)

// launchCopy enqueues the kernel of one part of a copy.
func launchCopy(dst arrowbuf.Buffer, to int64, src arrowbuf.Buffer, from, width int64, n layout.Nest) error {
	dev := dst.Device()
	p := stridedcopy.New(width, uint64(dst.Address())+uint64(to), uint64(src.Address())+uint64(from), n, launch.SharedMemory(dev))
	grid, block := cudabuf.Dim3{X: uint32(p.Blocks)}, cudabuf.Dim3{X: uint32(p.Threads)}
	return launch.QueueShared(dev, copyPrograms[p.Kernel.Image()], p.Kernel.Function(width), grid, block, uint32(p.Shared), launch.InOut(dst, to), launch.In(src, from), p.Struct)
}

// copyPrograms are the images of strided copies, by name.
var copyPrograms = map[string]*cudabuf.Program{
	"copy/interleave":        copyProgram[stridedcopy.Interleave]("copy/interleave"),
	"copy/tiles":             copyProgram[stridedcopy.Tiles]("copy/tiles"),
	"copy/narrow_tiles":      copyProgram[stridedcopy.Tiles]("copy/narrow_tiles"),
	"copy/matrix_tiles":      copyProgram[stridedcopy.Tiles]("copy/matrix_tiles"),
	"copy/word_tiles":        copyProgram[stridedcopy.Tiles]("copy/word_tiles"),
	"copy/run_tiles":         copyProgram[stridedcopy.Tiles]("copy/run_tiles"),
	"copy/matrix_byte_tiles": copyProgram[stridedcopy.Tiles]("copy/matrix_byte_tiles"),
	"copy/box_tiles":         copyProgram[stridedcopy.BoxTiles]("copy/box_tiles"),
	"copy/rows":              copyProgram[stridedcopy.Rows]("copy/rows"),
}

// copyProgram returns the program of an image whose kernels take a plan of type T. The
// host kernels copy the plan's loop nest, and panic if the words that the kernel would
// access are not aligned.
func copyProgram[T any, P interface {
	*T
	Nest() layout.Nest
	RowAlign(kernel stridedcopy.Kernel, width int64) [2]int64
}](image string) *cudabuf.Program {
	hostKernels := map[string]cudabuf.HostKernel{}
	for _, kernel := range stridedcopy.Images[image] {
		for _, width := range []int64{1, 2, 4, 8, 16} {
			hostKernels[kernel.Function(width)] = func(l *cudabuf.HostLaunch) {
				plan := launch.StructArg[T](l, 2)
				n := P(&plan).Nest()
				for operand, word := range P(&plan).RowAlign(kernel, width) {
					launch.MustAlign(l, operand, width, n.Strides[operand]...)
					launch.MustAlign(l, operand, word, stridesOutsideRun(width, n, operand)...)
				}
				cpu.Copy(operandStart(l, 0, width, n), operandStart(l, 1, width, n), width, n)
			}
		}
	}
	return launch.Program(image, hostKernels)
}

// stridesOutsideRun returns the strides of an operand, with 0 for the axes along which
// its units form one contiguous run.
func stridesOutsideRun(width int64, n layout.Nest, operand int) []int64 {
	strides := slices.Clone(n.Strides[operand])
	for run := width; ; {
		k := slices.Index(strides, run)
		if k < 0 {
			return strides
		}
		run, strides[k] = run*n.Shape[k], 0
	}
}

// operandStart returns the first unit of a nest's operand, an argument of the launch
// that is checked to cover all units.
func operandStart(l *cudabuf.HostLaunch, operand int, width int64, n layout.Nest) unsafe.Pointer {
	low, high, _ := layout.ByteBounds(width, 0, n.Shape, n.Strides[operand])
	return launch.PointerArg(l, operand, low, high)
}
